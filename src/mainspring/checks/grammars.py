"""Reads files by their grammars, as a program of its own: grammars are written in C, and some files crash
them or keep them busy for minutes. It imports nothing of mainspring, so that it starts quickly.

A request on standard input is a line of JSON (`path`, `size`, and `about`: syntax, complexities, symbols, an
outline or matches of given queries), then so many bytes; the answer is a line: `found`, or `not_checked`
with a reason.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

MAX_FOUND = 20
_MAX_SHOWN = 60

Found = list[tuple[int, str]]


class NotRead(Exception):
    """Why nothing can be said."""


class Grammar(NamedTuple):
    """The module that brings a grammar, and which function of it."""

    module: str
    function: str = "language"


_FUNCTIONS = frozenset(
    (
        *("function_definition", "function_declaration", "function_expression", "function_item"),
        *("method_definition", "method_declaration", "constructor_declaration", "method", "singleton_method"),
        *("arrow_function", "func_literal", "generator_function_declaration"),
    )
)
_DECISIONS = frozenset(
    (
        *("if_statement", "elif_clause", "if_expression", "if", "elsif", "unless", "conditional"),
        *("for_statement", "for_in_statement", "for_range_loop", "enhanced_for_statement", "for_expression"),
        *("while_statement", "while_expression", "loop_expression", "do_statement", "while", "until", "for"),
        *("except_clause", "catch_clause", "rescue", "case_clause", "switch_case", "case_statement"),
        *("expression_case", "type_case", "communication_case", "match_arm", "case_item", "when"),
        *("switch_block_statement_group", "switch_rule", "conditional_expression", "ternary_expression"),
        *("boolean_operator", "for_in_clause", "if_clause"),
    )
)
"""Nodes of the grammars at which a function goes one way or another. The words themselves (`if`) are leaves
in most grammars, and are not looked at."""
_LITERALS = frozenset(
    (
        *("string", "template_string", "concatenated_string", "interpreted_string_literal", "raw_string"),
        *(
            "raw_string_literal",
            "string_literal",
            "word",
            "number",
            "integer",
            "float",
            "int_literal",
            "float_literal",
        ),
        *("true", "false", "none", "null", "nil", "ansi_c_string", "regex"),
    )
)
_HOLES = frozenset(
    ("interpolation", "template_substitution", "simple_expansion", "expansion", "command_substitution")
)
_JOINED = frozenset(("binary_operator", "binary_expression", "concatenation"))
_WRAPPERS = frozenset(
    ("parenthesized_expression", "list", "tuple", "array", "argument_list", "as_expression")
)
_NAMES = frozenset(("identifier", "variable_name", "field_identifier", "property_identifier"))
_HARMLESS = re.compile(
    r"(?i)(?:^|[._])(?:shlex\.)?(?:quote|escape\w*|sanitize\w*|encodeuricomponent|int|float|len|dumps)$"
)
_FORMAT = re.compile(r"(?:\.format|\.join|Sprintf?|String\.raw)$")
_SQL = re.compile(
    r"""(?ix)^ [^"'`]{0,80} ["'`]{1,3} \s*
    (?: select\b [^;]* \bfrom\b | insert\s+into\b | update\s+ [^;]* \bset\b | delete\s+from\b | drop\s+table\b
      | (?:create|alter)\s+(?:table|user|database)\b | with\s+ [^;]* \bas\s*\( )""",
    re.DOTALL,
)
"""What values in trees are: constants, their holes, parts put together, and what is looked through."""
PYTHON = (".py", ".pyi")
GRAMMARS = {
    **dict.fromkeys((".sh", ".bash"), Grammar("tree_sitter_bash")),
    **dict.fromkeys(PYTHON, Grammar("tree_sitter_python")),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), Grammar("tree_sitter_javascript")),
    **dict.fromkeys((".ts", ".mts", ".cts"), Grammar("tree_sitter_typescript", "language_typescript")),
    ".tsx": Grammar("tree_sitter_typescript", "language_tsx"),
    ".go": Grammar("tree_sitter_go"),
    ".rs": Grammar("tree_sitter_rust"),
    ".c": Grammar("tree_sitter_c"),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh"), Grammar("tree_sitter_cpp")),
    ".java": Grammar("tree_sitter_java"),
    ".rb": Grammar("tree_sitter_ruby"),
    ".cs": Grammar("tree_sitter_c_sharp"),
    **dict.fromkeys((".kt", ".kts"), Grammar("tree_sitter_kotlin")),
    ".lua": Grammar("tree_sitter_lua"),
    ".php": Grammar("tree_sitter_php", "language_php"),
    **dict.fromkeys((".scala", ".sc"), Grammar("tree_sitter_scala")),
    ".swift": Grammar("tree_sitter_swift"),
    ".html": Grammar("tree_sitter_html"),
    ".css": Grammar("tree_sitter_css"),
    **dict.fromkeys((".yaml", ".yml"), Grammar("tree_sitter_yaml")),
}
"""By the end of a name. A header `.h` may be C or C++, so nothing is said of it."""
_NOT_OUTLINED = frozenset(
    (
        *(".sh", ".bash", ".html", ".css", ".yaml", ".yml"),
        *(".cs", ".kt", ".kts", ".lua", ".php", ".scala", ".sc", ".swift"),
    )
)
OUTLINED = {
    **{suffix: grammar for suffix, grammar in GRAMMARS.items() if suffix not in _NOT_OUTLINED},
    ".h": Grammar("tree_sitter_cpp"),
}
"""Files of which is told what they define. The grammar of C++ reads the headers of both."""


def is_readable(path: str) -> bool:
    """Whether files of that name have a grammar or a strict reader; settings of editors and of TypeScript are
    JSON with comments."""
    name = PurePosixPath(path)
    if name.suffix == ".json":
        return not (name.name.startswith(("tsconfig", "jsconfig")) or ".vscode" in name.parts)
    return name.suffix == ".toml" or name.suffix.lower() in GRAMMARS


def read(path: str, content: bytes) -> Found:
    """The lines that cannot be read, and why; raises `NotRead`."""
    if b"\0" in content:
        raise NotRead("it is not text")
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in (".json", ".toml"):
        return _strictly(content, json.loads if suffix == ".json" else import_module("tomllib").loads)
    found = [*_broken(_tree(GRAMMARS[suffix], content).root_node, content)]
    return _indentation(content) if suffix in PYTHON and not found else found


def complexities(path: str, content: bytes) -> list[tuple[int, str, int]]:
    """Each function with its line, its name, and in how many ways it can be gone through."""
    if b"\0" in content:
        raise NotRead("it is not text")
    found: list[tuple[int, str, int]] = []
    waiting = [(_tree(GRAMMARS[PurePosixPath(path).suffix.lower()], content).root_node, -1)]
    while waiting:
        node, inside = waiting.pop()
        if node.type in _FUNCTIONS:
            name = node.child_by_field_name("name") or node.child_by_field_name("declarator")
            inside = len(found)
            found.append((_line(node, content), _shown(name, content) if name else "a function", 1))
        elif inside >= 0 and (node.type in _DECISIONS or _is_logical(node)):
            line, name, count = found[inside]
            found[inside] = (line, name, count + 1)
        waiting += [(child, inside) for child in node.children if child.child_count or child.is_named]
    return found


def symbols(path: str, content: bytes) -> Any:
    """What a file defines, uses and imports; of Python also without a grammar."""
    if b"\0" in content:
        raise NotRead("it is not text")
    reader, suffix = _beside("code_symbols"), PurePosixPath(path).suffix.lower()
    try:
        root = _tree(OUTLINED.get(suffix) or GRAMMARS[suffix], content).root_node
    except NotRead:
        if suffix not in PYTHON:
            raise
        try:
            return reader.python_symbols(content)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise NotRead("it cannot be read as Python") from error
    return reader.symbols_of(root, content)


def outline(path: str, content: bytes) -> dict[str, Any]:
    """What a file defines with its parameters and comments, its marks, and what a script exports."""
    if b"\0" in content:
        raise NotRead("it is not text")
    suffix = PurePosixPath(path).suffix.lower()
    root, scripts = _tree(OUTLINED[suffix], content).root_node, _beside("exports")
    exports: Any = scripts.exports_of(root, content) if suffix in scripts.SCRIPTS else ()
    return {**_beside("outlines").outline_of(root, content, suffix), "exports": exports}


@cache
def _beside(name: str) -> Any:
    """A reader that lies beside this file: loaded by its path, since this program knows no package, and only
    when it is asked."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise NotRead(f"the reader {name} is missing")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def matches(path: str, content: bytes, queries: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """The lines where named queries find something. What they capture as `variable` is no constant there, as
    `composed` is put together of parts, as `sql` is so, and SQL."""
    if b"\0" in content:
        raise NotRead("it is not text")
    grammar = GRAMMARS[PurePosixPath(path).suffix.lower()]
    root = _tree(grammar, content).root_node
    cursor, names = _cursor(grammar, tuple((name, query) for name, query in queries))
    told: list[tuple[int, dict[str, list[Any]]]] = cursor.matches(root)
    meant = [(names[number], captures) for number, captures in told if _is_meant(captures, content)]
    return sorted({(_line(captures["found"][0], content), name) for name, captures in meant})[:MAX_FOUND]


def _is_meant(captures: dict[str, list[Any]], content: bytes) -> bool:
    for kind, is_so in (("variable", _varies), ("composed", _is_composed), ("sql", _is_sql)):
        if not all(is_so(node, content) for node in captures.get(kind, ())):
            return False
    return True


def _varies(node: Any, content: bytes) -> bool:
    """Whether a value is not known from the text alone. Names in capitals are constants by convention; what
    a function for quoting gives is as good as one."""
    if node.type in _HOLES:
        return any(_varies(child, content) for child in node.named_children)
    if node.type in _LITERALS:
        return any(_varies(child, content) for child in node.named_children if child.type in _HOLES)
    if node.type in _WRAPPERS or node.type in _JOINED:
        return any(_varies(child, content) for child in node.named_children)
    if node.type in _NAMES:
        return not _text(node, content).isupper()
    if name := _function(node, content):
        is_known = bool(_FORMAT.search(name)) and not _varies_in(node, content)
        return not (is_known or _HARMLESS.search(name))
    return True


def _varies_in(call: Any, content: bytes) -> bool:
    arguments = call.child_by_field_name("arguments")
    function = call.child_by_field_name("function")
    if function.type == "member_expression" and arguments is not None and arguments.named_child_count < 2:
        return _varies(function.child_by_field_name("object"), content)  # JavaScript joins what stands before
    return arguments is None or any(_varies(child, content) for child in arguments.named_children)


def _is_composed(node: Any, content: bytes) -> bool:
    is_formatted = bool(_FORMAT.search(_function(node, content)))
    return (node.type in _LITERALS or node.type in _JOINED or is_formatted) and _varies(node, content)


def _is_sql(node: Any, content: bytes) -> bool:
    """Whether the text of a value that is put together begins as SQL does. One that is part of a larger one
    is told with that; a tagged template is the business of its tag."""
    above = node.parent.type if node.parent else ""
    is_tagged = above == "call_expression" and node.type == "template_string"
    if above in _JOINED or is_tagged:
        return False
    return bool(_SQL.search(_text(node, content))) and _is_composed(node, content)


def _function(node: Any, content: bytes) -> str:
    """What a call calls; nothing where it is none."""
    function = node.child_by_field_name("function") if node.type in ("call", "call_expression") else None
    return _text(function, content) if function else ""


@cache
def _cursor(grammar: Grammar, queries: tuple[tuple[str, str], ...]) -> tuple[Any, list[str]]:
    """One walk for all queries; with the name for each of their patterns."""
    sitter, module = import_module("tree_sitter"), import_module(grammar.module)
    language = sitter.Language(getattr(module, grammar.function)())
    counts = [(name, sitter.Query(language, query).pattern_count) for name, query in queries]
    whole = sitter.Query(language, "\n".join(query for _, query in queries))
    return sitter.QueryCursor(whole), [name for name, count in counts for _ in range(count)]


def _is_logical(node: Any) -> bool:
    """`a && b` and its like."""
    operator = node.child_by_field_name("operator") if node.type in ("binary_expression", "binary") else None
    return operator is not None and operator.type in ("&&", "||", "??", "and", "or")


def _strictly(content: bytes, load: Callable[[str], object]) -> Found:
    try:
        load(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        return [(error.lineno, error.msg)]
    except UnicodeDecodeError as error:
        return [(content.count(b"\n", 0, error.start) + 1, "not UTF-8")]
    except RecursionError as error:
        raise NotRead("it is nested too deeply") from error
    except ValueError as error:  # of TOML, or a number with too many digits
        text, _, place = str(error).partition(" (at line ")
        line = place.partition(",")[0]
        return [(int(line) if line.isdigit() else 0, text)]
    return []


def _indentation(content: bytes) -> Found:
    """What the grammar of Python forgives. Anything else that this Python refuses may be newer than it is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(content, "<checked>", "exec", dont_inherit=True)
    except IndentationError as error:
        return [(error.lineno or 0, error.msg)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the grammar takes it
    return []


@lru_cache(maxsize=2)
def _tree(grammar: Grammar, content: bytes) -> Any:
    """A content is asked about in several ways, and read once."""
    return _parser(grammar).parse(content)


@cache
def _parser(grammar: Grammar) -> Any:
    try:
        module, sitter = import_module(grammar.module), import_module("tree_sitter")
    except ImportError as error:
        package = grammar.module.replace("_", "-")
        raise NotRead(f"{package} is not installed (it comes with `mainspring[quality]`)") from error
    return sitter.Parser(sitter.Language(getattr(module, grammar.function)()))


def _broken(root: Any, content: bytes) -> Iterator[tuple[int, str]]:
    """The outermost places that do not fit the grammar, from the top; below one nothing more."""
    count, waiting = 0, [root] if root.has_error else []
    while waiting and count < MAX_FOUND:
        node = waiting.pop()
        if node.is_missing:
            count += 1
            yield _line(node, content), f"`{node.type}` is missing"
        elif node.is_error and not _is_all(node):
            count += 1
            yield _line(node, content), f"syntax error at `{_shown(node, content)}`"
        elif node.has_error:
            waiting += reversed(node.children)


def _is_all(node: Any) -> bool:
    """An error over the whole file says little: what is inside of it is looked at."""
    return node.parent is None and any(child.is_error or child.is_missing for child in node.children)


def _line(node: Any, content: bytes) -> int:
    """Where a node begins. Reading many points of tree-sitter 0.26.0 crashes it."""
    return content.count(b"\n", 0, node.start_byte) + 1


def _text(node: Any, content: bytes) -> str:
    return content[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _shown(node: Any, content: bytes) -> str:
    first = _text(node, content).strip().split("\n", 1)[0]
    return first if len(first) <= _MAX_SHOWN else f"{first[:_MAX_SHOWN]}…"


_LOOKS: dict[str, Callable[..., Any]] = {
    "syntax": read,
    "complexities": complexities,
    "symbols": symbols,
    "matches": matches,
    "outline": outline,
}


def main() -> None:
    """Answers until the other side is gone."""
    given, out = sys.stdin.buffer, sys.stdout.buffer
    while line := given.readline():
        request = json.loads(line)
        try:
            content, more = given.read(request["size"]), request.get("given", ())
            found = _LOOKS[request.get("about", "syntax")](request["path"], content, *more)
            answer: dict[str, Any] = {"found": found}
        except NotRead as error:
            answer = {"not_checked": str(error)}
        out.write(json.dumps(answer).encode() + b"\n")
        out.flush()


if __name__ == "__main__":
    main()
