"""Checks the files that the last step changed, whoever changed them: an edit, a command, another agent.

It hangs on what the time machine recorded, so it reads the very content that was recorded, before and after.
Only what was not wrong before the session is told, errors first, ten lines at most; the rest is behind a
handle. What could not be checked is told once, so that silence never looks like clean. A linter that is late
is told at the next step, unless the file has changed since.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from mainspring.approvals.trust import TrustSubject
from mainspring.checks import MAX_BYTES, ChangeChecker, ChangedFile, Checker, NotChecked
from mainspring.checks.broken_names import BrokenNames
from mainspring.checks.changed_lines import Unignored, line_checks
from mainspring.checks.linter_facts import linter_rows
from mainspring.checks.linters import LIMIT_S, find_linters
from mainspring.checks.pins import names_dependencies
from mainspring.checks.programs import folders_of
from mainspring.checks.rounds import CheckRound, LateCheck, WaitingFile, collect, started
from mainspring.checks.servers import SessionLanguageServers
from mainspring.checks.settings import ChecksSettings
from mainspring.checks.syntax import Complexity, Security, Syntax, parsing_checks
from mainspring.checks.told import SHOWN, listed
from mainspring.context.history import read_all
from mainspring.context.mentions import is_source
from mainspring.documents.findings import in_one_line
from mainspring.events import (
    CHECKS_SOURCE,
    Blob,
    ChangesChecked,
    CheckFinding,
    Event,
    FileChange,
    FilesChanged,
    NoteAdded,
)
from mainspring.events.counts import plural
from mainspring.sandbox.policy import is_hidden_name
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime
from mainspring.workspace.git import Git

MAX_FILES = 50
_LAST_WAIT_S = 5.0
_MAX_ASKED = 2
_HEAD = 4096
_PARSED = (Syntax.name, Complexity.name, Security.name)
_KINDS = ("FilesChanged", "ChangesChecked")


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
        self._made: set[str] = set()
        self._renamed: set[str] = set()
        self._now: dict[str, str] = {}
        self._standing: dict[str, dict[str, tuple[CheckFinding, ...]]] = {}
        self._told_unchecked: set[str] = set()
        self._asked = 0
        self._late: list[LateCheck] = []
        self._syntax: Syntax | None = None
        self._linters = linter_rows(settings)
        self._line_checks: tuple[Checker | ChangeChecker, ...] = ()
        self._names: BrokenNames | None = None

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

    async def _changed(self, runtime: Runtime) -> list[WaitingFile]:
        """The files that changed since the last look, with what they were before the session."""
        if runtime.changed_seq is not None and runtime.changed_seq <= self._folded_seq:
            return []
        changed: dict[str, FileChange] = {}
        for item in await read_all(runtime.journal, kinds=_KINDS, after=self._folded_seq):
            match item.event:
                case FilesChanged(changes=changes):
                    for change in with_gone_names(changes):
                        self._follow(change)
                        changed[change.path] = change
                case ChangesChecked() as checked:
                    changed = {} if not checked.is_late else changed
                    self._remember(checked)
                case _:
                    pass
        self._folded_seq = runtime.last_seq
        runtime.changed_seq = runtime.changed_seq or 0
        return [
            WaitingFile(path, self._first[path], change.after, path in self._made)
            for path, change in changed.items()
        ]

    def _follow(self, change: FileChange) -> None:
        """Remembers what a file was before the session; one that was renamed is what it was elsewhere."""
        origin = change.renamed_from
        if origin:
            self._renamed.add(change.path)
        if origin in self._first:
            self._first[change.path] = self._first[origin]
            self._made |= {change.path} if origin in self._made else set()
        elif change.path not in self._first:
            self._first[change.path] = change.before.blob if change.before else None
            self._made |= {change.path} if change.before is None else set()

    async def _check(self, runtime: Runtime, waiting: Sequence[WaitingFile]) -> None:
        began, now, late = time.monotonic(), CheckRound(), list[LateCheck]()
        is_small = runtime.state.prompt.profile == "small"
        programs, missing = await self._programs(runtime, [file.path for file in waiting[:MAX_FILES]])
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
        await self._look_at_names(runtime, waiting[:MAX_FILES], now)
        if late:
            await asyncio.wait([each.task for each in late], timeout=self._settings.wait_ms / 1000)
        if read := [each.task for each in late if each.checker == Syntax.name and is_small]:
            await asyncio.wait(read)  # it decides whether the attempt goes on, and has a limit of its own
        self._late += [each for each in late if not each.task.done()]
        for each in late:
            if each.task.done():
                collect(now, each)
        if now.found or now.not_checked:
            await self._record(runtime, now.event(time.monotonic() - began, is_late=False))

    async def _look(
        self, runtime: Runtime, file: WaitingFile, programs: Sequence[Checker], now: CheckRound
    ) -> list[LateCheck]:
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
        if file.state.kind != "file":
            return []
        if is_source(file.path) and not is_known:
            now.not_checked.append(f"{file.path}: no check knows files of this kind")
        elif is_known and not file.state.blob:
            now.not_checked.append(f"{file.path}: its content is not kept")
        if not file.state.blob:
            return self._unkept(runtime, file)
        get = runtime.recorder.get_blob
        before = await get(file.before) if file.before else None
        changed = ChangedFile(runtime.recorder.vault.expand(file.path), before, await get(file.state.blob))
        if not is_known and (len(changed.after) > MAX_BYTES or b"\0" in changed.after[:_HEAD]):
            return []  # no source, and no text that somebody would write a secret into
        file.is_quiet = not is_known and file.path not in self._standing
        lines = self._line_checks = self._line_checks or self._made_line_checks(runtime)
        return started(file, changed, checkers) + started(
            file, changed, [each for each in lines if each.takes(file.path)]
        )

    async def _look_at_names(self, runtime: Runtime, waiting: Sequence[WaitingFile], now: CheckRound) -> None:
        """What the changes broke in the imports of the project, in whichever files that shows."""
        if self._settings.changed_lines == "off" or not any(BrokenNames.takes(file.path) for file in waiting):
            return
        began, recorder = time.monotonic(), runtime.recorder
        if self._names is None:
            self._syntax = self._syntax or Syntax(runtime.workbench.files.policy, runtime.sandbox)
            self._names = BrokenNames(runtime.workbench.files, self._syntax.outline)
        for path, blob in self._first.items():
            if BrokenNames.takes(path) and (real := recorder.vault.expand(path)) not in self._names.first:
                was_there = blob and path not in self._renamed
                self._names.first[real] = await recorder.get_blob(blob) if blob and was_there else None
        standing = {path for path, by in self._standing.items() if by.get(BrokenNames.name)}
        changed = [recorder.vault.expand(file.path) for file in waiting if BrokenNames.takes(file.path)]
        try:
            found = await self._names.broken(changed, standing)
        except NotChecked as error:
            now.not_checked.append(f"names: {error}")
            return
        for path, findings in found.items():
            if findings or path in standing:
                now.add(path, BrokenNames.name, findings)
        now.times[BrokenNames.name] = time.monotonic() - began

    def _unkept(self, runtime: Runtime, file: WaitingFile) -> list[LateCheck]:
        """What is looked at where a content is not on record."""
        files = runtime.workbench.files
        name = file.path.rpartition("/")[2]
        if not (file.is_new and self._settings.changed_lines == "on" and is_hidden_name(name, files.policy)):
            return []
        file.is_quiet, git = True, Git(files.policy.workspace, self._environment)
        return started(file, ChangedFile(file.path, None, b""), [Unignored(git)])

    def _made_line_checks(self, runtime: Runtime) -> tuple[Checker | ChangeChecker, ...]:
        return line_checks(self._settings, runtime.workbench.files, runtime.recorder.vault)

    async def _programs(self, runtime: Runtime, paths: Sequence[str]) -> tuple[list[Checker], dict[str, str]]:
        """The linters and language servers that may run, and why others do not."""
        policy, sandbox = runtime.workbench.files.policy, runtime.sandbox
        servers, missing = await self._servers.usable(policy, sandbox, paths)
        names = {server.name for server in servers}
        rows = [facts for facts in self._linters if facts.served_by not in names]
        folders = folders_of(paths)
        found, absent = await asyncio.to_thread(
            find_linters, policy, self._environment, sandbox, rows, folders
        )
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
        now = CheckRound()
        for each in done:
            if not each.task.cancelled() and self._now.get(each.file.path) == each.file.content:
                collect(now, each)
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
            left = f"Not checked: {in_one_line('; '.join(unchecked[:SHOWN]))}" if unchecked else ""
            text = "\n".join(filter(None, (found + await listed(runtime, new), left)))
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
        text = f"Not done yet: this must be right first.\n{await listed(runtime, errors)}"
        await runtime.record(NoteAdded(text=text, source=CHECKS_SOURCE, suspicious=suspicions(text)))
        return ""


def with_gone_names(changes: Sequence[FileChange]) -> Iterator[FileChange]:
    """The changes, each rename after what became of the old name."""
    paths = {change.path for change in changes}
    for change in changes:
        if (origin := change.renamed_from) and origin not in paths:
            yield FileChange(path=origin, kind="deleted", before=change.before)
        yield change


def _watched(file: WaitingFile) -> int:
    """What language servers call a change of a file: it was made, changed or deleted."""
    return 3 if file.state is None else 2 if file.before else 1


def _once(findings: Sequence[CheckFinding]) -> list[CheckFinding]:
    """What two checks find alike is told once."""
    return [*{(each.line, *_key(each)): each for each in reversed(findings)}.values()][::-1]


def _key(finding: CheckFinding) -> tuple[str, str]:
    return finding.rule, finding.message
