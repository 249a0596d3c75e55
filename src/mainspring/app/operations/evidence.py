"""Which lines of what a session changed have evidence, read from its journal; and that as a document."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.checks.evidence_of_lines import (
    KINDS,
    EvidenceFact,
    LineState,
    ProvenFile,
    ProvenLine,
    blobs_of,
    proven_files,
)
from mainspring.context.history import read_all
from mainspring.documents.blocks import (
    Block,
    Collapsible,
    Heading,
    Items,
    Mono,
    Paragraph,
    Spans,
    Table,
    Tone,
    Toned,
    row,
)
from mainspring.documents.html import as_html
from mainspring.events.counts import plural
from mainspring.settings import Config

_TONES: dict[LineState, Tone] = {
    "covered": "good",
    "against": "bad",
    "uncovered": "doubt",
    "context": "quiet",
}
_MAX_SHOWN = 2_000
_MAX_FILES = 100


class SessionEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """The changed files of a session with the evidence for each line."""

    session: str
    files: tuple[ProvenFile, ...] = ()
    covered: int = 0
    against: int = 0
    uncovered: int = 0


async def evidence_of(config: Config, session: str) -> SessionEvidence:
    """What is on record for and against each line that a session changed."""
    async with journal_of(config, session) as reader:
        events = await read_all(reader, kinds=KINDS)
        contents = {sha256: await reader.get(blob) for sha256, blob in blobs_of(events).items()}
        name = reader.session
    files = [each for each in proven_files(events, contents) if each.lines or each.problem]
    return SessionEvidence(
        session=name,
        files=tuple(files),
        covered=sum(each.covered for each in files),
        against=sum(each.against for each in files),
        uncovered=sum(each.uncovered for each in files),
    )


def evidence_page(found: SessionEvidence) -> str:
    """The same as one HTML page: a diff whose lines have the colour of their evidence."""
    return "".join(as_html(f"Evidence of session {found.session}", _blocks(found)))


def changes_section(found: SessionEvidence) -> Iterator[Block]:
    """The same as a part of a report; nothing where nothing was changed."""
    if not found.files:
        return
    yield Heading("What was changed, and its evidence")
    yield _total(found)
    shown = found.files[:_MAX_FILES]
    for each in shown:
        yield from _file(each, is_open=False)
    if len(found.files) > len(shown):
        text = f"{len(found.files) - len(shown)} more files: mainspring evidence {found.session}"
        yield Paragraph((text,), "quiet")


def _blocks(found: SessionEvidence) -> Iterator[Block]:
    yield Heading(f"Evidence of session {found.session}", 1)
    yield _total(found)
    for each in found.files:
        yield from _file(each, is_open=True)


def _total(found: SessionEvidence) -> Paragraph:
    return Paragraph(
        (
            Toned(f"{found.covered} covered", "good"),
            ", ",
            Toned(f"{found.against} with something against them", "bad"),
            ", ",
            Toned(f"{found.uncovered} without evidence", "doubt"),
            f", of the lines that it changed in {plural(len(found.files), 'file')}.",
        )
    )


def _file(file: ProvenFile, *, is_open: bool) -> Iterator[Block]:
    counts = f" {file.covered} covered, {file.against} against, {file.uncovered} without"
    facts: tuple[Spans, ...] = tuple(
        (Toned(fact.kind, _tone(fact)), f" {fact.text} (event {fact.seq})") for fact in file.facts
    )
    blocks: list[Block] = [Items(facts)] if facts else []
    if file.problem:
        blocks.append(Paragraph((file.problem,), "quiet"))
    else:
        rows = tuple(_row(each) for each in file.lines[:_MAX_SHOWN])
        blocks.append(Table(("line", "evidence", "code"), rows, frozenset({0})))
    if len(file.lines) > _MAX_SHOWN:
        blocks.append(Paragraph((f"{len(file.lines) - _MAX_SHOWN} more lines are not shown.",), "quiet"))
    yield Collapsible((Mono(file.path), counts), tuple(blocks), is_open=is_open, level=2)


def _tone(fact: EvidenceFact) -> Tone:
    """That nothing was found by a scan is no evidence, and has no colour."""
    return "bad" if not fact.is_good else "quiet" if fact.kind == "scan" else "good"


def _row(line: ProvenLine) -> tuple[Spans, ...]:
    said = ", ".join(line.by) or ("" if line.state == "context" else "none")
    return row(
        str(line.number),
        Toned(said, _TONES[line.state]),
        (Toned(line.mark, _TONES[line.state]), Mono(_indented(line.text))),
    )


def _indented(text: str) -> str:
    """A line of code whose indentation stays where blanks are taken together."""
    rest = text.expandtabs(4).lstrip(" ")
    return "\u00a0" * (len(text.expandtabs(4)) - len(rest)) + rest
