"""What is usual in a repository, counted and with examples: where tests lie and how they are called, how
names are written, how things are imported, how commits are told. Pure; what too few show is not said."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePosixPath
from statistics import median
from typing import Literal

import msgspec

from mainspring.index import ImportedAt
from mainspring.workspace.affected import is_test

Subject = Literal["tests", "names", "imports", "commits"]
_LEAST = 5
_CLEAR = 0.6
_EXAMPLES = 3
_SHOWN = 80
_IN_LINE = {"tests": 2, "names": 1, "imports": 1, "commits": 2}
_LANGUAGES = {
    **dict.fromkeys((".py", ".pyi"), "Python"),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), "JavaScript"),
    **dict.fromkeys((".ts", ".mts", ".cts", ".tsx"), "TypeScript"),
    ".go": "Go",
    ".rs": "Rust",
    ".java": "Java",
    ".rb": "Ruby",
    ".c": "C",
    ".sh": "shell",
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh"), "C++"),
}
_FORMS = {
    "snake_case": re.compile(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+"),
    "camelCase": re.compile(r"_*[a-z][a-z0-9]*(?:[A-Z][A-Za-z0-9]*)+"),
    "PascalCase": re.compile(r"_*[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)*"),
    "UPPER_CASE": re.compile(r"_*[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*"),
}
_GROUPS = {"function": "functions", "method": "functions", "class": "classes", "constant": "constants"}
_PREFIXED = re.compile(r"[a-z]+(?:\([^)]*\))?!?: ")
_TICKET = re.compile(r"#\d+|\b[A-Z]{2,}-\d+\b")


class Convention(msgspec.Struct, frozen=True, kw_only=True):
    """What `count` of `total` do."""

    about: Subject
    text: str
    count: int
    total: int
    examples: tuple[str, ...] = ()


def conventions(
    paths: Sequence[str],
    symbols: Iterable[tuple[str, str, str]],
    imports: Iterable[tuple[str, Sequence[ImportedAt]]],
    commits: Sequence[str],
) -> list[Convention]:
    """From all paths, symbols (path, name, kind), imports by file, and the subjects of commits."""
    return [*_tests(paths), *_names(symbols), *_imports(imports), *_commits(commits)]


def convention_line(found: Sequence[Convention]) -> str:
    """The clearest in one line, for a map."""
    clear = [each for each in found if each.count >= _CLEAR * each.total]
    few = [each for about, most in _IN_LINE.items() for each in _about(clear, about)[:most]]
    told = "; ".join(f"{each.text} ({each.count}/{each.total})" for each in few)
    return f"usual here: {told}" if told else ""


def _about(found: Sequence[Convention], about: str) -> list[Convention]:
    return [each for each in found if each.about == about]


def _tests(paths: Sequence[str]) -> Iterable[Convention]:
    tests = [path for path in paths if is_test(path)]
    if len(tests) < _LEAST:
        return
    yield from _most("tests", "test files are named {}", [(_name_form(path), path) for path in tests])
    folders = [(path.split("/")[0] + "/" if _is_apart(path) else "beside the source", path) for path in tests]
    yield from _most(
        "tests", "tests lie {}", [(each if " " in each else f"in {each}", p) for each, p in folders]
    )
    sources = {path.rpartition("/")[0] for path in paths if not is_test(path) and not _is_apart(path)}
    ends = {"/".join(folder.split("/")[at:]) for folder in sources for at in range(folder.count("/") + 1)}
    below = [(path.rpartition("/")[0].partition("/")[2], path) for path in tests if _is_apart(path)]
    mirrored = [path for folder, path in below if folder and folder in ends]
    if len(mirrored) >= _LEAST:
        text = "folders of tests mirror those of the source"
        total = sum(bool(folder) for folder, _ in below)
        yield Convention(about="tests", text=text, count=len(mirrored), total=total, examples=_few(mirrored))


def _is_apart(path: str) -> bool:
    return path.split("/", maxsplit=1)[0].lower() in ("test", "tests", "spec", "__tests__")


def _name_form(path: str) -> str:
    name = PurePosixPath(path)
    stem, suffix = name.name.partition(".")[0], name.suffix
    if stem.startswith("test_"):
        return f"test_*{suffix}"
    for mark in ("_test", "_spec", "Test", "Tests"):
        if stem.endswith(mark):
            return f"*{mark}{suffix}"
    for mark in (".test", ".spec"):
        if mark in name.name:
            return f"*{mark}{suffix}"
    return f"*{suffix}"


def _names(symbols: Iterable[tuple[str, str, str]]) -> Iterable[Convention]:
    forms: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for path, name, kind in symbols:
        language, group = _LANGUAGES.get(PurePosixPath(path).suffix.lower()), _GROUPS.get(kind)
        form = next((form for form, pattern in _FORMS.items() if pattern.fullmatch(name)), "")
        if language and group and form:
            forms[language, group].append((form, name))
    for (language, group), found in sorted(forms.items(), key=lambda each: (-len(each[1]), each[0])):
        yield from _most("names", f"{group} in {language}: {{}}", found)


def _imports(imports: Iterable[tuple[str, Sequence[ImportedAt]]]) -> Iterable[Convention]:
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, each in imports:
        language = _LANGUAGES.get(PurePosixPath(path).suffix.lower(), "")
        if form := _IMPORT_FORMS.get(language):
            found[language] += [(form(at.text), at.text) for at in each]
    for language, forms in sorted(found.items(), key=lambda each: (-len(each[1]), each[0])):
        yield from _most("imports", f"imports in {language}: {{}}", forms)


def _python_import(text: str) -> str:
    if text.startswith("from ."):
        return "relative, from . import x"
    return "absolute, from x import y" if text.startswith("from ") else "whole modules, import x"


def _script_import(text: str) -> str:
    if text.startswith("require"):
        return "require()"
    return (
        "import from relative paths" if re.search(r"""["']\.""", text) else "import from packages or aliases"
    )


_IMPORT_FORMS: dict[str, Callable[[str], str]] = {
    "Python": _python_import,
    "JavaScript": _script_import,
    "TypeScript": _script_import,
}


def _commits(subjects: Sequence[str]) -> Iterable[Convention]:
    if len(subjects) < _LEAST:
        return
    forms: tuple[tuple[str, Callable[[str], bool]], ...] = (
        ("commits begin with a type (`fix: `)", lambda each: bool(_PREFIXED.match(each))),
        ("commits begin with a capital letter", lambda each: each[:1].isupper()),
        ("commits begin with a small letter", lambda each: each[:1].islower() and not _PREFIXED.match(each)),
        ("commits end without a period", lambda each: not each.endswith(".")),
        ("commits name a ticket", lambda each: bool(_TICKET.search(each))),
    )
    for text, is_so in forms:
        those = [each for each in subjects if is_so(each)]
        if len(those) >= _CLEAR * len(subjects):
            count = len(those)
            yield Convention(
                about="commits", text=text, count=count, total=len(subjects), examples=_few(those)
            )
    usual = int(median(map(len, subjects)))
    within = [each for each in subjects if len(each) <= max(72, usual)]
    text = f"commits have about {usual} characters"
    yield Convention(
        about="commits", text=text, count=len(within), total=len(subjects), examples=_few(within)
    )


def _most(about: Subject, text: str, forms: Sequence[tuple[str, str]]) -> Iterable[Convention]:
    """The commonest form, if there is enough to go by."""
    if len(forms) < _LEAST:
        return
    (form, count) = min(Counter(form for form, _ in forms).items(), key=lambda each: (-each[1], each[0]))
    examples = _few([shown for each, shown in forms if each == form])
    yield Convention(about=about, text=text.format(form), count=count, total=len(forms), examples=examples)


def _few(found: Sequence[str]) -> tuple[str, ...]:
    return tuple(each[:_SHOWN] for each in dict.fromkeys(found))[:_EXAMPLES]
