"""Which lines of a session's changes have evidence after their last change, and which have none.

A fold of the journal: each line of a file knows the change that last touched it. Tests and commands speak for
the lines that were as they are now when they ran; linters, servers and reviews speak for a file only as they
last saw it. That a file can be parsed and holds no secret is told, and is no evidence; tests do not speak for
lines that they were measured not to run. Pure, but for the contents that it is given."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from mainspring.checks.run_commands import what_ran
from mainspring.context.mentions import is_source
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallEnded,
    ChangesChecked,
    CheckEnded,
    FileChange,
    FilesChanged,
    FileState,
    Recorded,
    ReviewEnded,
    ReviewStarted,
    SuiteEnded,
    Undone,
)
from mainspring.tools.text import lines_of
from mainspring.workspace.coverage import BY as COVERAGE
from mainspring.workspace.weakened_tests import BY

KINDS = (
    "AssistantSaid",
    "CallEnded",
    "ChangesChecked",
    "CheckEnded",
    "FilesChanged",
    "ReviewEnded",
    "ReviewStarted",
    "SuiteEnded",
    "Undone",
)
"""The kinds of events that the fold reads."""

EvidenceKind = Literal["tests", "lint", "types", "scan", "review", "run", "check", "coverage"]
LineState = Literal["covered", "against", "uncovered", "context"]

_UNTESTED = "no test runs it"
_NO_EVIDENCE = ("scan", "coverage")
_CONTEXT = 2
_MAX_LINES = 20_000
_TYPES = frozenset({"ty", "basedpyright", "pyrefly", "typescript", "gopls", "rust-analyzer", "clangd"})
_SCANS = frozenset(
    ("syntax", "complexity", "secrets", "imports", "security", "duplication", "vulnerabilities", BY)
)


class EvidenceFact(msgspec.Struct, frozen=True, kw_only=True):
    """Something on record that speaks for a file or against it; `lines` are those that it is against, and
    none of them means the whole file."""

    seq: int
    kind: EvidenceKind
    text: str
    is_good: bool
    lines: frozenset[int] = frozenset()
    is_exact: bool = False
    """Whether it speaks only for the content that it saw."""


class EditNode(msgspec.Struct, frozen=True, kw_only=True):
    """One edit of a file, and the numbers of events that are evidence for what it wrote and still stands."""

    seq: int
    step: int
    kind: str
    lines: int = 0
    evidence: tuple[int, ...] = ()


class ProvenLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a diff: `mark` is `+`, `-` or a blank, `number` counts in the new file (old for `-`). `by`
    says what speaks for it or against it."""

    mark: str
    number: int
    text: str
    state: LineState = "context"
    by: tuple[str, ...] = ()


class ProvenFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a session changed in a file, line by line. `problem` says why there are no lines."""

    path: str
    edits: tuple[EditNode, ...] = ()
    lines: tuple[ProvenLine, ...] = ()
    covered: int = 0
    against: int = 0
    uncovered: int = 0
    facts: tuple[EvidenceFact, ...] = ()
    problem: str = ""


class _Edit(msgspec.Struct, frozen=True):
    seq: int
    step: int
    change: FileChange


def proven_files(events: Sequence[Recorded], contents: Mapping[str, bytes]) -> list[ProvenFile]:
    """The files that a session changed, with the evidence for each line. `contents` has blobs by hash."""
    edits = _edits(events)
    return [
        _proven(path, of_path, _facts(path, events, of_path[-1].seq), contents)
        for path, of_path in edits.items()
    ]


def unproven_edits(events: Sequence[Recorded]) -> dict[str, list[int]]:
    """The files of the newest change, each with its edits since anything last spoke for it or against it."""
    edits = _edits(events)
    newest = max((each[-1].seq for each in edits.values()), default=0)
    found: dict[str, list[int]] = {}
    for path, of_path in edits.items():
        if of_path[-1].seq != newest or of_path[-1].change.after is None:
            continue
        facts = [*_of_runs(path, events), *_of_looks(path, events, 0)]
        last = max((each.seq for each in facts if each.kind not in _NO_EVIDENCE), default=0)
        found[path] = [each.seq for each in of_path if each.seq > last]
    return found


def blobs_of(events: Iterable[Recorded]) -> dict[str, Blob]:
    """The contents that the fold needs."""
    states = (
        state
        for item in events
        if isinstance(item.event, FilesChanged)
        for change in item.event.changes
        for state in (change.before, change.after)
    )
    return {state.blob.sha256: state.blob for state in states if state and state.blob}


def _edits(events: Iterable[Recorded]) -> dict[str, list[_Edit]]:
    """The edits of each file that still stand: those that somebody went back over do not count."""
    steps: dict[str, int] = {}
    found: dict[str, list[_Edit]] = {}
    restored = set[str]()
    for item in events:
        before, restored = restored, set[str]()
        match item.event:
            case AssistantSaid() as said:
                steps |= {call.call: said.step for call in said.calls}
            case FilesChanged(changes=changes, calls=calls):
                step = max((steps.get(call, 0) for call in calls), default=0)
                for change in changes:
                    if change.renamed_from:
                        found[change.path] = found.pop(change.renamed_from, [])
                    found.setdefault(change.path, []).append(_Edit(item.seq, step, change))
                restored = set[str]() if calls else {change.path for change in changes}
            case Undone(to_seq=to_seq, scope="files" | "both"):
                for path in before & found.keys():
                    found[path] = [each for each in found[path] if each.seq <= to_seq]
            case _:
                pass
    return {path: edits for path, edits in found.items() if edits}


def _facts(path: str, events: Sequence[Recorded], last_seq: int) -> list[EvidenceFact]:
    """What speaks for a file, in the order of the journal."""
    found = [*_of_runs(path, events), *_of_looks(path, events, last_seq)]
    return sorted(found, key=lambda each: each.seq)


def _of_runs(path: str, events: Iterable[Recorded]) -> Iterable[EvidenceFact]:
    """What ran: commands, tests and checks of goals."""
    commands: dict[str, str] = {}
    writers: set[str] = set()
    for item in events:
        match item.event:
            case AssistantSaid() as said:
                commands |= {call.call: call.arguments for call in said.calls if call.name == "shell"}
            case CallEnded(exit_code=code) as ended if code is not None and ended.call in commands:
                if text := what_ran(path, commands[ended.call], is_writer=ended.call in writers):
                    yield _fact(item, "run", f"`{text}`: exit code {code}", is_good=code == 0)
            case FilesChanged(calls=calls, changes=changes):
                writers |= {*calls} if any(each.path == path for each in changes) else set()
            case SuiteEnded(outcome="passed" | "failed") as ended if is_source(path):
                is_good = ended.outcome == "passed" or bool(not ended.regressions and ended.passed)
                if ended.cause != "baseline":
                    yield _fact(item, "tests", f"`{ended.command}` {ended.outcome}", is_good=is_good)
            case CheckEnded(kind="command") as ended:
                text = f"check `{ended.check}` {'passed' if ended.passed else 'failed'}"
                yield _fact(item, "check", text, is_good=ended.passed)
            case _:
                pass


def _of_looks(path: str, events: Iterable[Recorded], last_seq: int) -> Iterable[EvidenceFact]:
    """Who looked at the last content of a file: linters, servers, reviewers."""
    started: dict[str, Recorded] = {}
    for item in events:
        match item.event:
            case ChangesChecked() if item.seq > last_seq:
                yield from _of_checks(path, item)
            case ReviewStarted() as begun if item.seq > last_seq:
                started[begun.review] = item
            case ReviewEnded() as ended if ended.review in started:
                yield from _of_review(path, item, ended, started[ended.review])
            case _:
                pass


def _fact(item: Recorded, kind: EvidenceKind, text: str, *, is_good: bool) -> EvidenceFact:
    return EvidenceFact(seq=item.seq, kind=kind, text=text, is_good=is_good)


def _of_checks(path: str, item: Recorded) -> list[EvidenceFact]:
    checked = item.event
    if not isinstance(checked, ChangesChecked):
        return []
    found: list[EvidenceFact] = []
    for file in checked.files:
        if file.path != path:
            continue
        for by in file.by:
            bad = [each for each in file.findings if each.by == by]
            kind = _kind(by)
            found.append(
                EvidenceFact(
                    seq=item.seq,
                    kind=kind,
                    text=f"{by}: {bad[0].message}" if bad else f"{by}: clean",
                    is_good=not bad,
                    lines=frozenset(
                        number
                        for each in bad
                        for number in range(each.line, max(each.line, each.last_line) + 1)
                    ),
                    is_exact=True,
                )
            )
    return found


def _kind(by: str) -> EvidenceKind:
    if by == COVERAGE:
        return "coverage"
    return "scan" if by in _SCANS else "types" if by in _TYPES else "lint"


def _of_review(path: str, item: Recorded, ended: ReviewEnded, started: Recorded) -> list[EvidenceFact]:
    begun = started.event
    is_seen = isinstance(begun, ReviewStarted) and any(each.path == path for each in begun.files)
    if not is_seen or ended.failure or any(each.startswith(path) for each in ended.not_reviewed):
        return []
    bad = [each for each in ended.findings if each.file == path]
    text = f"review: {bad[0].title}" if bad else "review: nothing found"
    lines = frozenset(each.line for each in bad)
    return [EvidenceFact(seq=item.seq, kind="review", text=text, is_good=not bad, lines=lines, is_exact=True)]


def _proven(
    path: str, edits: Sequence[_Edit], facts: Sequence[EvidenceFact], contents: Mapping[str, bytes]
) -> ProvenFile:
    texts = [
        _lines(edits[0].change.before, contents),
        *(_lines(each.change.after, contents) for each in edits),
    ]
    if any(each is None for each in texts):
        nodes = tuple(EditNode(seq=each.seq, step=each.step, kind=each.change.kind) for each in edits)
        return ProvenFile(path=path, edits=nodes, facts=tuple(facts), problem="its lines are not kept")
    known = [each for each in texts if each is not None]
    blame = _blamed(known, [each.seq for each in edits])
    lines = list(_diff(known[0], known[-1], blame, edits[-1].seq, facts))
    nodes = tuple(
        EditNode(
            seq=each.seq,
            step=each.step,
            kind=each.change.kind,
            lines=sum(seq == each.seq for seq in blame),
            evidence=tuple(fact.seq for fact in facts if fact.is_good and _counts(fact, each.seq)),
        )
        for each in edits
    )
    counts = Counter(each.state for each in lines)
    return ProvenFile(
        path=path,
        edits=nodes,
        lines=tuple(lines),
        covered=counts["covered"],
        against=counts["against"],
        uncovered=counts["uncovered"],
        facts=tuple(facts),
    )


def _counts(fact: EvidenceFact, seq: int) -> bool:
    return fact.seq > seq and not (fact.is_good and fact.kind in _NO_EVIDENCE)


def _lines(state: FileState | None, contents: Mapping[str, bytes]) -> list[str] | None:
    if state is None:
        return []
    data = contents.get(state.blob.sha256) if state.blob and state.kind == "file" else None
    if data is None or b"\0" in data[:8192]:
        return None
    lines = lines_of(data.decode("utf-8", "replace"))
    return lines if len(lines) <= _MAX_LINES else None


def _blamed(texts: Sequence[list[str]], seqs: Sequence[int]) -> list[int]:
    """For each line of the last text the number of the change that wrote it; 0 for what was there before."""
    blame = [0] * len(texts[0])
    for before, after, seq in zip(texts, texts[1:], seqs, strict=False):
        new: list[int] = []
        for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            new += blame[a1:a2] if tag == "equal" else [seq] * (b2 - b1)
        blame = new
    return blame


def _diff(
    before: list[str], after: list[str], blame: Sequence[int], last_seq: int, facts: Sequence[EvidenceFact]
) -> Iterable[ProvenLine]:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        for tag, a1, a2, b1, b2 in group:
            if tag == "equal":
                for number in range(b1, b2):
                    yield ProvenLine(mark=" ", number=number + 1, text=after[number])
                continue
            for number in range(a1, a2):
                state, by = _judged(0, last_seq, facts)
                yield ProvenLine(mark="-", number=number + 1, text=before[number], state=state, by=by)
            for number in range(b1, b2):
                state, by = _judged(number + 1, blame[number] or last_seq, facts)
                yield ProvenLine(mark="+", number=number + 1, text=after[number], state=state, by=by)


def _judged(number: int, seq: int, facts: Sequence[EvidenceFact]) -> tuple[LineState, tuple[str, ...]]:
    """What the newest facts of each kind say of a line that was last changed at an event."""
    newest: dict[tuple[str, str], EvidenceFact] = {}
    for fact in facts:
        if _counts(fact, seq):
            newest[fact.kind, fact.text.partition(":")[0] if fact.is_exact else ""] = fact
    untested = any(each.kind == "coverage" and number in each.lines for each in newest.values())
    against = [
        each
        for each in newest.values()
        if not each.is_good and each.kind != "coverage" and (not each.lines or number in each.lines)
    ]
    if against:
        return "against", tuple(each.text for each in against)
    none = (*_NO_EVIDENCE, "tests") if untested else _NO_EVIDENCE
    for_it = [each for each in newest.values() if each.kind not in none and (each.is_good or each.lines)]
    kinds = tuple(dict.fromkeys(each.kind for each in for_it))
    return "covered" if kinds else "uncovered", (*kinds, _UNTESTED) if untested else kinds
