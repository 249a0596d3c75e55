"""Tells which lines that a session changed no test runs, and which lines tests ran before a turn and no
longer do, by what was measured when all tests ran.

It is recorded as a check of the files, so it stands among the others, and goes when a test runs the lines.
What was not measured is recorded as not checked.
"""

from __future__ import annotations

import difflib

import msgspec

from mainspring.checks.told import listed
from mainspring.context.history import read_all
from mainspring.context.mentions import is_source
from mainspring.events import (
    CHECKS_SOURCE,
    Blob,
    ChangesChecked,
    CheckedFile,
    CheckFinding,
    Event,
    FilesChanged,
    FileState,
    NoteAdded,
    SuiteEnded,
)
from mainspring.events.counts import plural
from mainspring.secrets.injection import suspicions
from mainspring.tools.text import lines_of
from mainspring.turns.runtime import Runtime
from mainspring.turns.suite import coverage_of
from mainspring.workspace.affected import is_test
from mainspring.workspace.coverage import BY, Coverage, Range, lost, untested_of

NOT_MEASURED = "which changed lines tests run"
_MAX_ROUNDS = 2
_MAX_FILES = 200
_SHOWN_CODE = 60
_LEAST_FALL = 0.1
_TOLD = "{lines}\nAdd tests that run them, or say in your answer why there are none."
_FLAKY = "a flaky test failed in the run that was measured"
_KINDS = ("FilesChanged", "ChangesChecked")
_Findings = dict[str, tuple[CheckFinding, ...]]


class _Texts(msgspec.Struct):
    """A file when the session began, and now."""

    before: Blob | None
    now: FileState | None


class _Record(msgspec.Struct):
    """What the journal has: changed files, what stands against files, what is known not to be measured."""

    changed: dict[str, _Texts] = {}
    standing: _Findings = {}
    not_checked: set[str] = set()


class UntestedLines:
    """Looks at the runs of all tests in one session's turns."""

    def __init__(self) -> None:
        self._turn = self._rounds = 0
        self._content = ""

    async def look(self, runtime: Runtime, ended: SuiteEnded, baseline: SuiteEnded) -> None:
        """Compares what the tests reach now with the changed lines, and with what they reached before."""
        if ended.content and ended.content == self._content:  # the same run, and it was told
            return
        self._content = ended.content
        record = await _read(runtime)
        now = await coverage_of(runtime, ended)
        if ended.flaky:  # a test that failed does not run all that it runs
            ended, now = msgspec.structs.replace(ended, not_covered=_FLAKY), None
        if now is None:
            await self.tell_not_measured(runtime, ended, is_told=False)
            return
        found, unknown = await _untested(runtime, record, now)
        before = await coverage_of(runtime, baseline)
        for path, ranges in lost(before, now, record.changed).items() if before else ():
            if not is_test(path) and (runtime.state.workspace / path).is_file():
                found[path] = tuple(_finding(each, "lost") for each in ranges)
        for path, known in record.standing.items():  # what was lost in an earlier turn stays so
            if path not in record.changed and path not in found:
                is_there = (runtime.state.workspace / path).is_file()
                found[path] = tuple(each for each in known if is_there and _is_missing(now, path, each))
        files = [
            CheckedFile(path=path, by=(BY,), findings=each)
            for path, each in found.items()
            if path in record.changed or each != record.standing.get(path)
        ]
        new = [
            (path, each)
            for path, these in found.items()
            for each in these
            if not any(_holds(known, each) for known in record.standing.get(path, ()))
        ]
        await self._record(runtime, files, unknown - record.not_checked, new, _fall(ended, baseline))

    async def tell_not_measured(self, runtime: Runtime, ended: SuiteEnded, *, is_told: bool = True) -> None:
        """Says once why nobody knows which lines the tests reach."""
        text = f"{NOT_MEASURED}: {ended.not_covered}"
        if not ended.not_covered or text in (await _read(runtime)).not_checked:
            return
        events: list[Event] = [ChangesChecked(not_checked=(text,), is_late=True)]
        if is_told:
            events.append(NoteAdded(text=f"Not checked: {text}", source=CHECKS_SOURCE))
        await runtime.record(*events, is_durable=False)

    async def _record(
        self,
        runtime: Runtime,
        files: list[CheckedFile],
        unknown: set[str],
        new: list[tuple[str, CheckFinding]],
        fall: str,
    ) -> None:
        if self._turn != runtime.state.turn:
            self._turn, self._rounds = runtime.state.turn, 0
        events: list[Event] = []
        if files or unknown:
            events.append(
                ChangesChecked(files=tuple(files), not_checked=tuple(sorted(unknown)), is_late=True)
            )
        if new and self._rounds < _MAX_ROUNDS:
            self._rounds += 1
            lines = "\n".join(filter(None, (await listed(runtime, new), fall)))
            text = _TOLD.format(lines=lines)
            events.append(NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text)))
        if events:
            await runtime.record(*events, is_durable=False)


async def _untested(runtime: Runtime, record: _Record, now: Coverage) -> tuple[_Findings, set[str]]:
    """What no test runs of the changed files, and of which nobody knows."""
    found: _Findings = {}
    unknown: list[str] = []
    for path, texts in list(record.changed.items())[:_MAX_FILES]:
        name = runtime.recorder.vault.expand(path)
        if not is_source(name) or is_test(name) or name.endswith("conftest.py"):
            continue
        if texts.now is None:
            found[path] = ()
            continue
        blob = texts.now.blob if texts.now.kind == "file" else None
        is_measured = name in now.files or (name.endswith(".py") and "coverage.py" in now.by)
        if blob is None or not is_measured:
            unknown.append(path)
            continue
        after = (await runtime.recorder.get_blob(blob)).decode("utf-8", "replace")
        before = await runtime.recorder.get_blob(texts.before) if texts.before else b""
        lines = lines_of(after)
        changed = _changed_lines(lines_of(before.decode("utf-8", "replace")), lines)
        ranges = untested_of(name, after, now, changed)
        found[path] = tuple(_finding(each, "untested", lines[each[0] - 1]) for each in ranges)
    return found, {f"which lines of {path} tests run: {now.by} does not say" for path in unknown}


def _finding(lines: Range, rule: str, code: str = "") -> CheckFinding:
    first, last = lines
    which = "this line" if first == last else f"these {last - first + 1} lines"
    at = f", from `{code.strip()[:_SHOWN_CODE]}`" if code else ""
    told = {"untested": f"no test runs {which}{at}", "lost": f"tests ran {which} before, and no longer do"}
    return CheckFinding(by=BY, rule=rule, message=told[rule], line=first, last_line=last, severity="warning")


def _holds(known: CheckFinding, finding: CheckFinding) -> bool:
    """Whether a finding that was told before is about the same lines, or more."""
    return (
        known.message == finding.message or known.line <= finding.line <= finding.last_line <= known.last_line
    )


def _is_missing(now: Coverage, path: str, finding: CheckFinding) -> bool:
    known = now.files.get(path)
    return known is None or any(first <= finding.line <= last for first, last in known.missing)


def _changed_lines(before: list[str], after: list[str]) -> list[int]:
    """The numbers of the lines that a change wrote."""
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    return [
        number + 1
        for tag, _, _, first, end in matcher.get_opcodes()
        if tag != "equal"
        for number in range(first, end)
    ]


def _fall(now: SuiteEnded, before: SuiteEnded) -> str:
    if not (now.lines and before.lines):
        return ""
    is_, was = (100 * each.reached / each.lines for each in (now, before))
    if was - is_ < _LEAST_FALL:
        return ""
    return f"Tests run {is_:.1f} % of {plural(now.lines, 'line')}; before this turn it was {was:.1f} %."


async def _read(runtime: Runtime) -> _Record:
    record = _Record()
    for item in await read_all(runtime.journal, kinds=_KINDS):
        match item.event:
            case FilesChanged(changes=changes):
                for change in changes:
                    moved = record.changed.pop(change.renamed_from, None)
                    first = moved.before if moved else change.before.blob if change.before else None
                    record.changed.setdefault(change.path, _Texts(first, None)).now = change.after
            case ChangesChecked(files=files, not_checked=unknown):
                record.not_checked |= {*unknown}
                for file in files:
                    if BY in file.by:
                        record.standing[file.path] = tuple(each for each in file.findings if each.by == BY)
            case _:
                pass
    return record
