"""What pages are made of: sources as they were read, notes of a model, and the page itself."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec

LANGUAGES = {
    **dict.fromkeys((".py", ".pyi"), ("Python", "python")),
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), ("JavaScript", "javascript")),
    **dict.fromkeys((".ts", ".mts", ".cts", ".tsx"), ("TypeScript", "typescript")),
    ".go": ("Go", "go"),
    ".rs": ("Rust", "rust"),
    **dict.fromkeys((".c", ".h"), ("C", "c")),
    **dict.fromkeys((".cc", ".cpp", ".cxx", ".hpp", ".hh"), ("C++", "cpp")),
    ".java": ("Java", "java"),
    ".rb": ("Ruby", "ruby"),
}
"""What the language of a file is called, and the word for it in a fence."""


def language_of(path: str) -> tuple[str, str]:
    return LANGUAGES[PurePosixPath(path).suffix.lower()]


class OutlinedParameter(msgspec.Struct, frozen=True):
    """A parameter, and how it is written in the file."""

    name: str
    text: str


class OutlinedDefinition(msgspec.Struct, frozen=True):
    """A function, class or method as the syntax tree has it. `doc` is what the file itself says of it, `does`
    what a model says where the file says nothing."""

    name: str
    kind: str
    signature: str
    line: int
    last_line: int
    parameters: tuple[OutlinedParameter, ...] = ()
    doc: str = ""
    is_public: bool = True
    does: str = ""


class SourceOutline(msgspec.Struct, frozen=True):
    """`marks` are comments such as TODO with their lines. A file that `is_broken` has parts that its grammar
    does not read."""

    definitions: tuple[OutlinedDefinition, ...] = ()
    marks: tuple[tuple[int, str], ...] = ()
    is_broken: bool = False


class SourceFile(msgspec.Struct, frozen=True):
    """A file to write a page about, with the tests that name or import it."""

    path: str
    text: str
    sha256: str
    outline: SourceOutline
    tests: tuple[str, ...] = ()


class DescribedName(msgspec.Struct, frozen=True):
    name: str
    does: str


class PieceNotes(msgspec.Struct, frozen=True):
    """What a model says of some lines."""

    about: str
    items: tuple[DescribedName, ...] = ()


class PageNotes(msgspec.Struct, frozen=True):
    """What a model says of a whole file."""

    summary: str
    directions: tuple[str, ...] = ()
    example: str = ""


class PageScores(msgspec.Struct, frozen=True):
    """How a model judges a draft, from 1 to 5, and what is wrong with it."""

    accurate: int
    complete: int
    clear: int
    problem: str = ""


class DocPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page, ready to be written down. The summary, the directions, the example and each `does` are a
    model's; all else was read from the file."""

    path: str
    source: str
    summary: str
    definitions: tuple[OutlinedDefinition, ...] = ()
    directions: tuple[str, ...] = ()
    example: str = ""
    marks: tuple[tuple[int, str], ...] = ()
    tests: tuple[str, ...] = ()
    lines: int = 0
    is_broken: bool = False
    model: str = ""

    @property
    def drafted(self) -> str:
        """All that a model wrote, as one text."""
        does = (f"{each.name}: {each.does}" for each in self.definitions if each.does)
        return "\n".join([self.summary, *does, *self.directions, self.example])
