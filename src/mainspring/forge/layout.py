"""A page, and the index of all pages, as blocks that any writer of documents can write down. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from mainspring.documents.blocks import (
    Block,
    Collapsible,
    Heading,
    Items,
    Link,
    Mono,
    OutputBlock,
    Paragraph,
    Spans,
    Table,
    Toned,
    row,
)
from mainspring.documents.html import as_html
from mainspring.documents.markdown import as_markdown
from mainspring.events import PageForm
from mainspring.events.counts import plural
from mainspring.forge.values import DocPage, OutlinedDefinition, language_of
from mainspring.patterns import lazy_pattern

_DRAFTED = Toned(" (drafted)", "quiet")
_OWN = frozenset({"self", "cls", "&self", "&mut self", "mut self"})
"""Parameters that nobody gives."""
_CODE = lazy_pattern(r"`+([^`]+)`+")
_MAX_MARKS = 20
_MAX_TESTS = 10
_SUFFIXES: dict[PageForm, str] = {"markdown": ".md", "site": ".html"}


def file_of(path: str, form: PageForm) -> str:
    """Where the page of a file lies below the folder of all pages."""
    return f"{path}{_SUFFIXES[form]}"


def index_of(form: PageForm) -> str:
    return f"index{_SUFFIXES[form]}"


def written(title: str, blocks: Iterable[Block], form: PageForm) -> str:
    return "".join(as_html(title, blocks) if form == "site" else as_markdown(blocks))


def page_text(page: DocPage, form: PageForm) -> str:
    return written(page.path, page_blocks(page, form), form)


def page_blocks(page: DocPage, form: PageForm) -> Iterator[Block]:
    up = "../" * (len(PurePosixPath(page.path).parts) - 1)
    yield Paragraph((Link("All pages", f"{up}{index_of(form)}"),), "quiet")
    yield Heading(page.path, 1)
    yield Paragraph(_spans(page.summary))
    public = [each for each in page.definitions if each.is_public]
    other = [each for each in page.definitions if not each.is_public]
    yield Heading("API")
    if not public:
        yield Paragraph(("This file defines nothing public.",), "quiet")
    for each in public:
        yield from _definition(each, page.path)
    if other:
        yield Collapsible((f"Not public: {len(other)}",), (_short(other),))
    if page.example:
        yield Heading("Example")
        yield OutputBlock(page.example, language_of(page.path)[1])
        yield Paragraph(("This example was run to its end in a sandbox.",), "quiet")
    yield Heading("Current status")
    yield Items(tuple(_status(page)))
    if page.directions:
        yield Heading("Directions")
        yield Items(tuple(map(_spans, page.directions)))
    # Of a model on a server its name is told, and not its address.
    model = page.model.rpartition("#")[2] or "a model"
    told = f"Summary, directions and what is marked (drafted) were drafted by {model}; all else was read"
    yield Paragraph((f"{told} from the file, of the content ", Mono(page.source[:12]), "."), "quiet")


def _definition(each: OutlinedDefinition, path: str) -> Iterator[Block]:
    yield Heading(each.name, 3)
    yield OutputBlock(each.signature, language_of(path)[1])
    about = _spans(each.doc) if each.doc else (*_spans(each.does), _DRAFTED) if each.does else ()
    if about:
        yield Paragraph(about)
    given = [item for item in each.parameters if item.name not in _OWN]
    if given:
        rows = tuple(row(Mono(item.name), Mono(item.text)) for item in given)
        yield Table(("parameter", "as written"), rows)
    yield Paragraph((f"{each.kind}, lines {each.line}-{each.last_line}",), "quiet")


def _short(definitions: Sequence[OutlinedDefinition]) -> Block:
    rows = (row(Mono(each.signature), str(each.line), _spans(each.doc or each.does)) for each in definitions)
    return Table(("definition", "line", "what it does"), tuple(rows), frozenset({1}))


def _status(page: DocPage) -> Iterator[Spans]:
    public = [each for each in page.definitions if each.is_public]
    said = sum(bool(each.doc) for each in public)
    language = language_of(page.path)[0]
    yield (f"{language}, {plural(page.lines, 'line')}, {plural(len(page.definitions), 'definition')}.",)
    if public:
        yield (f"{said} of {len(public)} public definitions have documentation in the file.",)
    if page.tests:
        names: list[str | Mono] = []
        for each in page.tests[:_MAX_TESTS]:
            names += [Mono(each), ", "]
        yield ("Tests that name or import it: ", *names[:-1], ".")
    else:
        yield (Toned("No test names or imports it.", "doubt"),)
    if page.is_broken:
        yield (Toned("Parts of it could not be read by its grammar.", "bad"),)
    for line, text in page.marks[:_MAX_MARKS]:
        yield (f"Line {line}: ", Mono(text))
    if len(page.marks) > _MAX_MARKS:
        yield (f"{len(page.marks) - _MAX_MARKS} more marks such as TODO.",)


def index_text(pages: Sequence[DocPage], form: PageForm) -> str:
    return written("Pages", index_blocks(pages, form), form)


def index_blocks(pages: Sequence[DocPage], form: PageForm) -> Iterator[Block]:
    yield Heading("Pages", 1)
    yield Paragraph((f"{plural(len(pages), 'source file')} with a page.",))
    rows = tuple(
        row(
            Link(page.path, file_of(page.path, form)),
            language_of(page.path)[0],
            str(sum(each.is_public for each in page.definitions)),
            _spans(_first_sentence(page.summary)),
        )
        for page in sorted(pages, key=lambda page: page.path.split("/"))
    )
    if rows:
        yield Table(("file", "language", "public", "what it is for"), rows, frozenset({2}))


def _spans(text: str) -> Spans:
    """A text in which names stand between backticks."""
    parts = _CODE.split(text)
    return tuple(Mono(part) if place % 2 else part for place, part in enumerate(parts) if part)


def _first_sentence(text: str) -> str:
    head, dot, _ = " ".join(text.split()).partition(". ")
    return f"{head}{dot}".strip()
