"""Checks the files that the last step changed, whoever changed them: an edit, a command, another agent.

It hangs on what the time machine recorded, so it reads the very content that was recorded, before and after.
Only what was not wrong before the session is told, errors first, ten lines at most; the rest is behind a
handle. What could not be checked is told once, so that silence never looks like clean. A linter that is late
is told at the next step, unless the file has changed since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mainspring.approvals.trust import TrustSubject
from mainspring.checks import ChangeChecker, ChangedFile, Checker, NotChecked, new_findings
from mainspring.checks.changed_lines import line_checks
from mainspring.checks.linter_facts import linter_rows
from mainspring.checks.linters import LIMIT_S, find_linters
from mainspring.checks.pins import names_dependencies
from mainspring.checks.servers import SessionLanguageServers
from mainspring.checks.settings import ChecksSettings
from mainspring.checks.syntax import Complexity, Security, Syntax, parsing_checks
from mainspring.context.history import read_all
from mainspring.context.mentions import is_source
from mainspring.documents.findings import line_of
from mainspring.events import (
    CHECKS_SOURCE,
    Blob,
    ChangesChecked,
    CheckedFile,
    CheckFinding,
    Event,
    FileChange,
    FilesChanged,
    FileState,
    NoteAdded,
)
from mainspring.events.counts import plural
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime

MAX_FILES = 50
_SHOWN = 10
_LAST_WAIT_S = 5.0
_MAX_ASKED = 2
_PARSED = (Syntax.name, Complexity.name, Security.name)
_KINDS = ("FilesChanged", "ChangesChecked")


class _Waiting(msgspec.Struct):
    """A file to be looked at: as it was when the session began, and as it is by the newest event."""

    path: str
    before: Blob | None
    state: FileState | None

    @property
    def content(self) -> str:
        return self.state.content_sha256 if self.state else ""


class _Late(msgspec.Struct):
    file: _Waiting
    checker: str
    task: asyncio.Task[list[CheckFinding]]
    began: float


class _Round(msgspec.Struct):
    """What one round of looking came to: findings by file and check, and what was left out."""

    found: dict[str, dict[str, list[CheckFinding]]] = {}
    not_checked: list[str] = []

    def add(self, path: str, by: str, findings: list[CheckFinding]) -> None:
        self.found.setdefault(path, {})[by] = findings

    def event(self, duration_s: float, *, is_late: bool) -> ChangesChecked:
        files = [
            CheckedFile(
                path=path,
                by=tuple(sorted(by)),
                findings=tuple(sorted((each for one in by.values() for each in one), key=_order)),
            )
            for path, by in self.found.items()
        ]
        return ChangesChecked(
            files=tuple(files),
            not_checked=tuple(dict.fromkeys(self.not_checked)),
            duration_s=round(duration_s, 6),
            is_late=is_late,
        )


class AfterChange:
    """The checks of one session, for its turns. `is_trusted` says whether a person approved code of the
    project; `servers` are those of the session, which somebody else ends."""

    def __init__(
        self,
        settings: ChecksSettings,
        environment: Mapping[str, str],
        is_trusted: Callable[[TrustSubject], bool],
        servers: SessionLanguageServers,
    ) -> None:
        self._settings = settings
        self._servers = servers
        self._environment = environment
        self._is_trusted = is_trusted
        self._folded_seq = 0
        self._first: dict[str, Blob | None] = {}
        self._now: dict[str, str] = {}
        self._standing: dict[str, dict[str, tuple[CheckFinding, ...]]] = {}
        self._told_unchecked: set[str] = set()
        self._asked = 0
        self._late: list[_Late] = []
        self._syntax: Syntax | None = None
        self._linters = linter_rows(settings)
        self._line_checks: tuple[Checker | ChangeChecker, ...] = ()

    async def __call__(self, runtime: Runtime) -> str:
        """Looks at what was changed since it last did, and records what there is to say; why the turn fails
        when errors block it and the model did not listen."""
        if waiting := await self._changed(runtime):
            await self._check(runtime, waiting)
        is_blocking = self._settings.after_change == "block" and runtime.history.is_answered
        if runtime.history.is_answered and self._late:
            limit = LIMIT_S if is_blocking else _LAST_WAIT_S
            await asyncio.wait([each.task for each in self._late], timeout=limit)
        await self._take_late(runtime)
        is_blocking = is_blocking and runtime.history.is_answered
        return await self._block(runtime) if is_blocking else ""

    async def close(self) -> None:
        for each in self._late:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in self._late), return_exceptions=True)
        if self._syntax:
            await self._syntax.close()

    async def _changed(self, runtime: Runtime) -> list[_Waiting]:
        """The files that changed since the last look, with what they were before the session."""
        if runtime.changed_seq is not None and runtime.changed_seq <= self._folded_seq:
            return []
        changed: dict[str, FileChange] = {}
        for item in await read_all(runtime.journal, kinds=_KINDS, after=self._folded_seq):
            match item.event:
                case FilesChanged(changes=changes):
                    for change in changes:
                        self._first.setdefault(change.path, change.before.blob if change.before else None)
                        changed[change.path] = change
                case ChangesChecked() as checked:
                    changed = {} if not checked.is_late else changed
                    self._remember(checked)
                case _:
                    pass
        self._folded_seq = runtime.last_seq
        runtime.changed_seq = runtime.changed_seq or 0
        return [_Waiting(path, self._first[path], change.after) for path, change in changed.items()]

    async def _check(self, runtime: Runtime, waiting: Sequence[_Waiting]) -> None:
        began, now, late = time.monotonic(), _Round(), list[_Late]()
        programs, missing = await self._programs(runtime)
        self._servers.changed({file.path: _watched(file) for file in waiting})
        for file in waiting[:MAX_FILES]:
            late += await self._look(runtime, file, programs, now)
        if len(waiting) > MAX_FILES:
            now.not_checked.append(f"{len(waiting) - MAX_FILES} more files of one step")
        names = {file.path for file in waiting}
        now.not_checked += [
            f"{facts.name}: {missing[facts.name]}"
            for facts in (*self._servers.rows, *self._linters)
            if facts.name in missing and any(name.endswith(facts.suffixes) for name in names)
        ]
        if late:
            await asyncio.wait([each.task for each in late], timeout=self._settings.wait_ms / 1000)
        self._late += [each for each in late if not each.task.done()]
        for each in late:
            if each.task.done():
                _collect(now, each)
        if now.found or now.not_checked:
            await self._record(runtime, now.event(time.monotonic() - began, is_late=False))

    async def _look(
        self, runtime: Runtime, file: _Waiting, programs: Sequence[Checker], now: _Round
    ) -> list[_Late]:
        """Starts the checks of one file."""
        self._now[file.path] = file.content
        for each in self._late:
            # Nobody wants to know any more. The parser answers in order, so it is not interrupted.
            if each.file.path == file.path and each.checker not in _PARSED:
                each.task.cancel()
        if file.state is None:  # it is gone, and with it what stood against it
            for by in self._standing.get(file.path, ()):
                now.add(file.path, by, [])
            return []
        syntax = self._syntax = self._syntax or Syntax(runtime.workbench.files.policy, runtime.sandbox)
        own = parsing_checks(syntax, self._settings)
        checkers = [checker for checker in (*own, *programs) if checker.takes(file.path)]
        is_known = bool(checkers) or names_dependencies(file.path)
        if file.state.kind != "file" or not (is_known or is_source(file.path)):
            return []
        if not is_known or not file.state.blob:
            why = "its content is not kept" if is_known else "no check knows files of this kind"
            now.not_checked.append(f"{file.path}: {why}")
            return []
        get = runtime.recorder.get_blob
        before = await get(file.before) if file.before else None
        changed = ChangedFile(runtime.recorder.vault.expand(file.path), before, await get(file.state.blob))
        lines = self._line_checks = self._line_checks or self._made_line_checks(runtime)
        return _started(file, changed, checkers) + _started(
            file, changed, [each for each in lines if each.takes(file.path)]
        )

    def _made_line_checks(self, runtime: Runtime) -> tuple[Checker | ChangeChecker, ...]:
        return line_checks(self._settings, runtime.workbench.files, runtime.recorder.vault)

    async def _programs(self, runtime: Runtime) -> tuple[list[Checker], dict[str, str]]:
        """The linters and language servers that may run, and why others do not."""
        policy, sandbox = runtime.workbench.files.policy, runtime.sandbox
        servers, missing = await self._servers.usable(policy, sandbox)
        names = {server.name for server in servers}
        rows = [facts for facts in self._linters if facts.served_by not in names]
        found, absent = await asyncio.to_thread(find_linters, policy, self._environment, sandbox, rows)
        allowed: list[Checker] = [*servers]
        for linter in found:
            if linter.subject is None or self._is_trusted(linter.subject):
                allowed.append(linter)
            else:
                absent[linter.name] = f"not approved; a person can: mainspring trust add {linter.name!r}"
        return allowed, absent | missing

    async def _take_late(self, runtime: Runtime) -> None:
        """Tells what linters found since; of files that were changed again, nothing."""
        done = [each for each in self._late if each.task.done()]
        self._late = [each for each in self._late if not each.task.done()]
        now = _Round()
        for each in done:
            if not each.task.cancelled() and self._now.get(each.file.path) == each.file.content:
                _collect(now, each)
        if runtime.history.is_answered:  # the turn ends before they do
            now.not_checked += [f"{each.file.path} by {each.checker}: still running" for each in self._late]
        if now.found or now.not_checked:
            began = min(each.began for each in (*done, *self._late))
            await self._record(runtime, now.event(time.monotonic() - began, is_late=True))

    async def _record(self, runtime: Runtime, checked: ChangesChecked) -> None:
        new = [
            (file.path, each)
            for file in checked.files
            for each in _once(file.findings)
            if _key(each) not in self._told(file.path)
        ]
        unchecked = [each for each in checked.not_checked if each not in self._told_unchecked]
        self._remember(checked)
        events: list[Event] = [checked]
        if new or (unchecked and not runtime.history.is_answered):
            found = f"{plural(len(new), 'new problem')} in what was changed:\n" if new else ""
            left = f"Not checked: {'; '.join(unchecked[:_SHOWN])}" if unchecked else ""
            text = "\n".join(filter(None, (found + await _list(runtime, new), left)))
            events.append(NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text)))
        await runtime.record(*events, is_durable=False)

    def _told(self, path: str) -> set[tuple[str, str]]:
        """What stands against a file, whichever check says it."""
        return {_key(each) for found in self._standing.get(path, {}).values() for each in found}

    def _remember(self, checked: ChangesChecked) -> None:
        for file in checked.files:
            standing = self._standing.setdefault(file.path, {})
            for by in file.by:
                standing[by] = tuple(each for each in file.findings if each.by == by)
        self._told_unchecked |= set(checked.not_checked)

    async def _block(self, runtime: Runtime) -> str:
        """Asks again while errors stand that this session made, a few times; then the turn fails."""
        standing = [
            (path, each) for path, by in self._standing.items() for found in by.values() for each in found
        ]
        errors = [(path, each) for path, each in standing if each.severity == "error"]
        if not errors or self._asked >= _MAX_ASKED:
            self._asked = 0
            return f"Checks still find {plural(len(errors), 'error')} in what was changed." if errors else ""
        self._asked += 1
        text = f"Not done yet: this must be right first.\n{await _list(runtime, errors)}"
        await runtime.record(NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text)))
        return ""


def _watched(file: _Waiting) -> int:
    """What language servers call a change of a file: it was made, changed or deleted."""
    return 3 if file.state is None else 2 if file.before else 1


def _started(
    file: _Waiting, changed: ChangedFile, checkers: Sequence[Checker | ChangeChecker]
) -> list[_Late]:
    """The checks as tasks: linters wait for the syntax, and say nothing of what cannot even be read."""
    began = time.monotonic()
    tasks: list[_Late] = []
    for checker in checkers:
        first = tasks[0].task if tasks and tasks[0].checker == Syntax.name else None
        task = asyncio.create_task(_find(checker, changed, first))
        tasks.append(_Late(file, checker.name, task, began))
    return tasks


async def _find(
    checker: Checker | ChangeChecker, changed: ChangedFile, first: asyncio.Task[list[CheckFinding]] | None
) -> list[CheckFinding]:
    if first:
        await asyncio.wait([first])
        if not first.cancelled() and not first.exception() and first.result():
            return []
    return await new_findings(checker, changed)


def _collect(now: _Round, late: _Late) -> None:
    """What a linter found, or why it could not tell; a fault of ours is raised."""
    error = late.task.exception()
    if isinstance(error, NotChecked):
        now.not_checked.append(f"{late.file.path} by {late.checker}: {error}")
    else:
        now.add(late.file.path, late.checker, late.task.result())


def _once(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """What two checks find alike is told once."""
    return [*{(each.line, *_key(each)): each for each in reversed(findings)}.values()][::-1]


def _order(finding: CheckFinding) -> tuple[bool, int]:
    return finding.severity != "error", finding.line


def _key(finding: CheckFinding) -> tuple[str, str]:
    return finding.rule, finding.message


async def _list(runtime: Runtime, findings: Sequence[tuple[str, CheckFinding]]) -> str:
    """Errors first, ten lines at most, the rest behind a handle."""
    ordered = sorted(findings, key=lambda found: _order(found[1])[0])
    lines = [line_of(path, each) for path, each in ordered]
    if len(lines) > _SHOWN:
        blob = await runtime.recorder.put_blob("\n".join(lines).encode())
        lines[_SHOWN:] = [f"and {len(lines) - _SHOWN} more: read `blob:{blob.sha256}`"]
    return "\n".join(lines)
