"""Tells which tests a turn has made weaker: compared with what their files held when the turn began.

It is recorded as a check of the changed files, so it stands among the others, and goes when it is put right.
"""

from __future__ import annotations

import msgspec

from mainspring.checks.told import listed
from mainspring.context.history import read_all
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
)
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime
from mainspring.workspace.weakened_tests import BY, PythonTest, cases_in, is_about_tests, weakened

_MAX_FILES = 200
_KINDS = ("FilesChanged", "ChangesChecked")
_TOLD = (
    "Tests were made weaker in this turn:\n{lines}\nIf the task does not ask for that, put it back; otherwise"
    " say so in your answer."
)


class _Texts(msgspec.Struct):
    """A file when the turn began, and now."""

    before: Blob | None
    now: FileState | None


class WeakenedTests:
    """Looks at the changed tests of one session's turns."""

    def __init__(self) -> None:
        self._seen_seq = 0

    async def look(self, runtime: Runtime) -> None:
        if runtime.changed_seq is not None and runtime.changed_seq <= self._seen_seq:
            return
        self._seen_seq = runtime.last_seq
        began = await runtime.journal.last("TurnStarted")
        changed, standing = await _changed_tests(runtime, began.seq if began else 0)
        files: list[CheckedFile] = []
        new: list[tuple[str, CheckFinding]] = []
        gone = dict[str, tuple[CheckFinding, ...]].fromkeys(standing, ())  # renamed since
        for path, found in (gone | await _weakened(runtime, changed)).items():
            if found != standing.get(path, ()):
                files.append(CheckedFile(path=path, by=(BY,), findings=found))
                new += [(path, each) for each in found if each not in standing.get(path, ())]
        if files:
            events: list[Event] = [ChangesChecked(files=tuple(files), is_late=True)]
            if new:
                text = _TOLD.format(lines=await listed(runtime, new))
                events.append(NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text)))
            await runtime.record(*events, is_durable=False)


async def weakened_since(runtime: Runtime, seq: int) -> dict[str, tuple[CheckFinding, ...]]:
    """What was taken from tests after an event, by file; files with nothing are left out."""
    changed, _ = await _changed_tests(runtime, seq)
    return {path: found for path, found in (await _weakened(runtime, changed)).items() if found}


async def texts_of_tests(runtime: Runtime, seq: int) -> dict[str, tuple[str | None, str | None]]:
    """What the tests that were changed after an event held then, and hold now."""
    changed, _ = await _changed_tests(runtime, seq)
    return await _read_all(runtime, changed)


async def _read_all(runtime: Runtime, changed: dict[str, _Texts]) -> dict[str, tuple[str | None, str | None]]:
    return {path: await _read(runtime, each) for path, each in list(changed.items())[:_MAX_FILES]}


async def _weakened(runtime: Runtime, changed: dict[str, _Texts]) -> dict[str, tuple[CheckFinding, ...]]:
    texts = await _read_all(runtime, changed)
    added = {
        path: _only_in(cases_in(after), cases_in(before))
        for path, (before, after) in texts.items()
        if path.endswith(".py")
    }
    found: dict[str, tuple[CheckFinding, ...]] = {}
    for path, (before, after) in texts.items():
        moved = {
            name: case for other, cases in added.items() if other != path for name, case in cases.items()
        }
        found[path] = tuple(weakened(runtime.recorder.vault.expand(path), before, after, moved))
    return found


def _only_in(cases: dict[str, PythonTest], others: dict[str, PythonTest]) -> dict[str, PythonTest]:
    return {name: case for name, case in cases.items() if name not in others}


async def _changed_tests(
    runtime: Runtime, after: int
) -> tuple[dict[str, _Texts], dict[str, tuple[CheckFinding, ...]]]:
    """The tests that were changed after an event, and what was found in them already."""
    changed: dict[str, _Texts] = {}
    standing: dict[str, tuple[CheckFinding, ...]] = {}
    for item in await read_all(runtime.journal, kinds=_KINDS, after=after):
        match item.event:
            case FilesChanged(changes=changes):
                for change in changes:
                    before = changed.get(change.renamed_from)
                    first = before.before if before else change.before.blob if change.before else None
                    if is_about_tests(change.path):
                        changed.pop(change.renamed_from, None)
                        changed.setdefault(change.path, _Texts(first, None)).now = change.after
                    elif is_about_tests(change.renamed_from):  # runners look for it no more
                        changed[change.renamed_from] = _Texts(first, None)
            case ChangesChecked(files=files):
                for file in files:
                    if BY in file.by:
                        standing[file.path] = tuple(each for each in file.findings if each.by == BY)
            case _:
                pass
    return changed, standing


async def _read(runtime: Runtime, file: _Texts) -> tuple[str | None, str | None]:
    """What a file held, and holds; nothing is compared where its content was not kept."""
    now = file.now.blob if file.now else None
    if file.now and now is None:
        return None, None
    contents = [await runtime.recorder.get_blob(blob) if blob else None for blob in (file.before, now)]
    before, after = (data.decode("utf-8", "replace") if data is not None else None for data in contents)
    return before, after
