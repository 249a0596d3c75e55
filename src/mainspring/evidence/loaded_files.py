"""Which files decide what a command line says, and which of them the agent wrote or changed.

Those are the scripts that it runs, what they import, the tests and settings of test runners, and files from
before the goal that it names, or in a folder that it names. Programs that only look at files (`test`,
`grep`, `diff`) load nothing; of a program that is not known, every file of the workspace may decide. Frozen
files are declared by the user to be what decides: what frozen scripts import, or what frozen data is compared
with, is then the work itself. Pure.
"""

from __future__ import annotations

import ast
import importlib.machinery
import posixpath
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator

import msgspec

from mainspring.evidence.artifacts import Artifacts
from mainspring.tools.globs import glob_regex

ReadText = Callable[[str], str | None]
"""The text of a file of the workspace; None when there is none."""

_NAMES = {
    "readers": """test [ [[ ]] cat grep egrep fgrep diff cmp comm wc ls head tail sort uniq cut tr jq stat du
        file echo printf true false : exit return seq date basename dirname expr let bc read set unset export
        local declare pwd sleep sha1sum sha256sum sha512sum md5sum cksum b2sum mkdir touch rm trap shift""",
    "keywords": "if then elif else fi for in do done while until case esac ! { } time",
    "wrappers": "env timeout nice nohup exec command builtin xargs stdbuf ionice",
    "shells": "sh bash dash zsh ksh ash source .",
    "testers": "pytest py.test unittest nose2",
    "folders of tests": """test tests spec specs __tests__ fixtures __fixtures__ testdata test_data golden
        __snapshots__""",
    "modules that load anything": "subprocess runpy importlib imp ctypes system popen",
    "functions that load anything": "exec eval __import__",
}
_WORDS = {name: frozenset(words.split()) for name, words in _NAMES.items()}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_TEST_FILE = re.compile(r"test_.*\.py|.*_test\.\w+|.*[._-](?:test|spec)\.\w+|test\.\w+|tests\.\w+")
_SETTINGS = re.compile(
    r"conftest\.py|pytest\.ini|\.?pytest\.toml|tox\.ini|setup\.cfg|setup\.py|pyproject\.toml|\.coveragerc|noxfile\.py"
    r"|(?:GNU)?[Mm]akefile|.*\.mk|package(?:-lock)?\.json|tsconfig.*\.json|(?:jest|vitest|babel|vite|karma)\.config\..*"
    r"|\.mocharc.*|Cargo\.(?:toml|lock)|build\.rs|go\.(?:mod|sum)|CMakeLists\.txt|[Jj]ustfile|Rakefile|Gemfile"
    r"|pom\.xml|build\.gradle.*|meson\.build|lakefile\..*|lean-toolchain"
)
_LOADER = re.compile(r"(?:(?!PYTHON)\w*PATH|LD_\w+|BASH_ENV|ENV|PYTHONHOME|\w*OPTIONS|PERL5\w+|RUBY\w+)=")
"""An assignment that has a program load, or be, another file."""
_PYTHON_PATH = "PYTHONPATH="
_MODULE_ENDS = (".py", ".pyc", *importlib.machinery.EXTENSION_SUFFIXES)
_LOADED_BY_PYTHON = re.compile(r"(?:site|user)customize\.py|.*\.pth")
_SUBSTITUTED = re.compile(r"\$\(([^()]*(?:\([^()]*\)[^()]*)*)\)|`([^`]*)`")
_HERE = re.compile(r"""["']?(?:\$PWD|\$\{PWD\}|\$\(pwd\)|`pwd`)["']?/""")
_MAX_FILES = 2000
_MAX_DEPTH = 8


class Loads(msgspec.Struct):
    """What a command line runs and reads: paths in the workspace. `is_open` when it may load any file."""

    scripts: dict[str, None] = {}
    data: dict[str, None] = {}
    named: dict[str, None] = {}
    imported: dict[str, None] = {}
    runs_tests: bool = False
    runs_python: bool = False
    is_open: bool = False


class Deciding(msgspec.Struct, frozen=True):
    """The files that may decide what a command line says, but for those that were declared to be the work.
    `scripts` are those that it names, `judging` they and tests, settings and data; `imported` is what else
    may be loaded, which may be the work itself. Those of `written` are not what they were when the goal was
    set."""

    scripts: frozenset[str]
    judging: frozenset[str]
    imported: frozenset[str]
    written: tuple[str, ...]
    is_open: bool

    @property
    def all(self) -> frozenset[str]:
        return self.judging | self.imported


def deciding_files(
    line: str,
    artifacts: Artifacts,
    read: ReadText,
    *,
    frozen: Collection[str] = (),
    work: Collection[str] = (),
    root: str = "",
) -> Deciding:
    """What may decide what a command line says. `frozen` were declared to be what decides, `work` to be what
    is made; `root` is the full path of the workspace."""
    loads = Loads()
    finder = _Finder(artifacts, read, root)
    finder.take_line(line, loads, folder="", depth=0)
    changed, known = artifacts.changed, (*artifacts.first, *artifacts.changed)
    entries = dict(loads.scripts)
    if loads.runs_tests or loads.is_open:
        entries |= dict.fromkeys(path for path in artifacts.originals if _is_of_tests(path))
    is_declared = any(path in frozen for path in entries) and all(
        path in frozen or artifacts.is_original(path) for path in entries
    )
    judging = {*loads.scripts}
    imported: set[str] = set()
    if not is_declared:
        finder.follow_imports(loads)
        imported = {*loads.imported, *(changed if loads.is_open else ())}
    data = {path for path in loads.data if path in artifacts.first}
    if frozen_data := {*data, *loads.named}.intersection(frozen):
        judging |= frozen_data
    else:
        judging |= data
        imported |= {*loads.named}
    if loads.runs_tests or loads.is_open:
        judging |= {path for path in known if _is_of_tests(path)}
    if loads.runs_python or loads.runs_tests:
        judging |= {path for path in known if _LOADED_BY_PYTHON.fullmatch(posixpath.basename(path))}
        judging |= {path for path in changed if finder.is_shadow(path, loads.scripts)}
    judging -= {*work}
    imported -= {*judging, *work}
    written = (path for path in judging | imported if not artifacts.is_original(path) and path not in frozen)
    return Deciding(
        scripts=frozenset(loads.scripts),
        judging=frozenset(judging),
        imported=frozenset(imported),
        written=tuple(sorted(written)),
        is_open=loads.is_open,
    )


def _is_of_tests(path: str) -> bool:
    *folders, name = path.split("/")
    is_test = bool(_TEST_FILE.fullmatch(name)) or not _WORDS["folders of tests"].isdisjoint(folders)
    return is_test or bool(_SETTINGS.fullmatch(name))


class _Finder:
    def __init__(self, artifacts: Artifacts, read: ReadText, root: str) -> None:
        self._root = f"{root.rstrip('/')}/" if root else ""
        self._artifacts = artifacts
        self._known = {*artifacts.present, *artifacts.first}
        self._read = read
        self._roots = dict.fromkeys(("", "src"))

    def is_there(self, path: str) -> bool:
        """A file of the workspace, or one that was there before the goal."""
        return (
            path in self._artifacts.present or path in self._artifacts.first or self._read(path) is not None
        )

    def take_line(self, line: str, loads: Loads, *, folder: str, depth: int) -> None:
        """Notes what a command line, or the text of a shell script, runs and reads."""
        if depth > _MAX_DEPTH:
            loads.is_open = True
            return
        line = _HERE.sub("./", line)
        for inner in _SUBSTITUTED.findall(line):
            self.take_line(inner[0] or inner[1], loads, folder=folder, depth=depth + 1)
        for given in _commands(_SUBSTITUTED.sub("$_", line)):
            self._take_variables(given, loads, folder)
            words = _without_prefixes(given)
            if not words:
                continue
            if words[0] in ("cd", "pushd"):
                folder = _joined(folder, words[1]) if len(words) > 1 else folder
            else:
                self._take_command(words, loads, folder, depth)

    def _take_variables(self, words: list[str], loads: Loads, folder: str) -> None:
        loads.is_open = loads.is_open or any(_LOADER.match(word) for word in words)
        for word in words:
            if word.startswith(_PYTHON_PATH):
                parts = word.removeprefix(_PYTHON_PATH).split(":")
                self._roots |= dict.fromkeys(self._inside(part, folder) for part in parts)

    def _take_command(self, words: list[str], loads: Loads, folder: str, depth: int) -> None:
        program, given = posixpath.basename(words[0]), words[1:]
        own = self._named(words[0], folder) if "/" in words[0] else ""
        if own:
            self._take_script(own, loads, depth)
        elif program in _WORDS["shells"]:
            self._take_shell(given, loads, folder, depth)
        elif _PYTHON.fullmatch(program):
            self._take_python(given, loads, folder)
        elif program in _WORDS["testers"]:
            loads.runs_tests = True
        elif program == "trap" and given:
            self.take_line(given[0], loads, folder=folder, depth=depth + 1)
        elif program not in _WORDS["readers"]:
            loads.is_open = True
        for word in given:
            self._take_data(word.partition("=")[2] or word, loads, folder)

    def _take_data(self, word: str, loads: Loads, folder: str) -> None:
        """Notes the file that a word names, or the files from before the goal in a folder or by a pattern."""
        if path := self._named(word, folder):
            loads.data[path] = None
        elif path := self._inside(word, folder):
            loads.named |= dict.fromkeys(self._listed(path))

    def _take_script(self, path: str, loads: Loads, depth: int) -> None:
        """A script of the workspace, by the program that its first line names."""
        loads.scripts[path] = None
        text = self._read(path) or ""
        first = text.partition("\n")[0]
        if path.endswith(".py") or (first.startswith("#!") and "python" in first):
            loads.runs_python = True
        elif path.endswith(".sh") or re.match(r"#!.*\b(?:ba|da|z|k)?sh\b", first):
            self.take_line(text, loads, folder="", depth=depth + 1)
        else:
            loads.is_open = True

    def _take_shell(self, given: list[str], loads: Loads, folder: str, depth: int) -> None:
        if "-c" in given[:-1]:
            self.take_line(given[given.index("-c") + 1], loads, folder=folder, depth=depth + 1)
            return
        script = next((word for word in given if not word.startswith("-")), "")
        if path := self._named(script, folder):
            loads.scripts[path] = None
            self.take_line(self._read(path) or "", loads, folder=folder, depth=depth + 1)
        else:
            loads.is_open = loads.is_open or not _leads_out(script, folder)

    def _take_python(self, given: list[str], loads: Loads, folder: str) -> None:
        loads.runs_python = True
        if "-c" in given[:-1]:
            self._take_module(given[given.index("-c") + 1], posixpath.join(folder, "-c"), loads)
            return
        if "-m" in given[:-1]:
            module = given[given.index("-m") + 1]
            loads.runs_tests = loads.runs_tests or module in _WORDS["testers"]
            found = [*self._modules(module, folder), *self._modules(f"{module}.__main__", folder)]
            loads.scripts |= dict.fromkeys(found)
            loads.is_open = loads.is_open or (not found and module not in (*_WORDS["testers"], "json.tool"))
            return
        script = next((word for word in given if not word.startswith("-")), "")
        if path := self._named(script, folder):
            loads.scripts[path] = None
        else:
            loads.is_open = loads.is_open or not _leads_out(script, folder)

    def follow_imports(self, loads: Loads) -> None:
        """Notes what the Python files among the scripts and tests import from the workspace, and theirs."""
        known = self._artifacts
        tests = (
            path for path in (*known.originals, *known.changed) if loads.runs_tests and _is_of_tests(path)
        )
        todo = [path for path in (*loads.scripts, *tests) if path.endswith(".py") or path in loads.scripts]
        seen: set[str] = set()
        while todo and len(seen) < _MAX_FILES:
            path = todo.pop()
            if path in seen:
                continue
            seen.add(path)
            todo += self._take_module(self._read(path) or "", path, loads)
        loads.is_open = loads.is_open or bool(todo)

    def _take_module(self, text: str, path: str, loads: Loads) -> list[str]:
        """Notes what a Python file imports and names; gives the files that it imports."""
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            return []
        folder, found = posixpath.dirname(path), dict[str, None]()
        for node in ast.walk(tree):
            for module in _imports(node, folder):
                found |= dict.fromkeys(self._modules(module, folder))
            loads.is_open = loads.is_open or _loads_anything(node)
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            for root in dict.fromkeys(("", folder)):
                self._take_data(text, loads, root)
        loads.imported |= found
        return list(found)

    def _modules(self, module: str, folder: str) -> Iterator[str]:
        """The files of the workspace that an import may load: the packages above it as well."""
        parts = module.split(".")
        for root in dict.fromkeys((folder, *self._roots)):
            for length in range(1, len(parts) + 1):
                base = posixpath.join(root, *parts[:length])
                paths = (*(f"{base}{end}" for end in _MODULE_ENDS), f"{base}/__init__.py")
                yield from (path for path in paths if self.is_there(path))

    def _named(self, word: str, folder: str) -> str:
        """The file of the workspace that a word names; empty when it names none."""
        path = self._inside(word, folder)
        return path if path and self.is_there(path) else ""

    def _inside(self, word: str, folder: str) -> str:
        """The path in the workspace that a word may be; empty when it is none, or the workspace itself."""
        if "\0" in word or len(word) > 500 or word.startswith("-"):
            return ""
        is_full = bool(self._root) and word.startswith(self._root)
        path = _joined("", word.removeprefix(self._root)) if is_full else _joined(folder, word)
        return "" if path.startswith(("..", "/")) else path

    def _listed(self, path: str) -> Iterable[str]:
        """The files from before the goal that are in a folder, or that a pattern names."""
        if not any(sign in path for sign in "*?["):
            return [each for each in self._artifacts.first if each.startswith(f"{path}/")]
        if not path.strip("*/"):
            return []
        pattern = glob_regex(path)
        return [each for each in self._artifacts.first if pattern.fullmatch(each)]

    def is_shadow(self, path: str, scripts: Iterable[str]) -> bool:
        """Whether a file that is new stands where Python looks for a module of its own first."""
        folder, name = posixpath.split(path)
        if name.startswith("__init__."):
            folder, name = posixpath.split(folder)
        roots = {*self._roots, *(posixpath.dirname(script) for script in scripts)}
        is_named_so = name.partition(".")[0] in sys.stdlib_module_names and path.endswith(_MODULE_ENDS)
        return is_named_so and folder in roots and path not in self._artifacts.first


def _joined(folder: str, word: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, word)) if word else ""
    return "" if path == "." else path


def _leads_out(word: str, folder: str) -> bool:
    """Whether a word names something outside the workspace."""
    return word.startswith("/") or _joined(folder, word).startswith("../")


def _commands(line: str) -> Iterator[list[str]]:
    """The simple commands of a line: what stands before the program, the program and what it is given."""
    text = re.sub(r"(?m)^\s*#.*$", "", line).replace("\\\n", " ").replace("\n", " ; ")
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        tokens = list(lexer)
    except ValueError:
        yield ["a line that cannot be read"]
        return
    words: list[str] = []
    for token in (*tokens, ";"):
        if token and not token.strip(";&|()"):
            if words:
                yield words
            words = []
        elif token.strip("<>&"):
            words.append(token)


def _without_prefixes(words: list[str]) -> list[str]:
    """A command without what stands before its program: keywords, variables, `timeout 5`."""
    is_wrapped = False
    while words:
        first = words[0]
        is_option = is_wrapped and (first.startswith("-") or first.rstrip("smhd").isdigit())
        if first in _WORDS["wrappers"]:
            is_wrapped = True
        elif not (first in _WORDS["keywords"] or is_option or _ASSIGNMENT.fullmatch(first)):
            return words
        words = words[1:]
    return []


def _imports(node: ast.AST, folder: str) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    above = folder.split("/")[: len(folder.split("/")) - node.level + 1] if node.level else []
    base = ".".join(filter(None, (*above, node.module or "")))
    return [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]


def _loads_anything(node: ast.AST) -> bool:
    match node:
        case ast.Name(id=name) if name in _WORDS["functions that load anything"]:
            return True
        case ast.Attribute(attr=name) | ast.alias(name=name) | ast.ImportFrom(module=str(name)):
            return name.partition(".")[0] in _WORDS["modules that load anything"]
        case _:
            return False
