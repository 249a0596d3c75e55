"""Compares the project's tests with what they said before a turn changed anything.

They run before the first call of a turn that may change files (never again on the same content), the affected
ones after each change, all of them before the turn is done. What passed and fails now is run once more: a
test that passes then is flaky and named so. What is broken is told with its output and the changes since it
passed; after two rounds the rollback is offered to people, and the turn may end. A round of an outside agent
is a turn of its own. All of it stands in the journal, so a process that takes over goes on from there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from mainspring.checks.settings import ChecksSettings
from mainspring.checks.unproven import UnprovenEdits
from mainspring.checks.unrun import tell_unrun
from mainspring.checks.untested import UntestedLines
from mainspring.checks.weakened import WeakenedTests
from mainspring.context.history import read_all
from mainspring.events import (
    CHECKS_SOURCE,
    REGRESSIONS_SOURCE,
    TESTS_SOURCE,
    AssistantSaid,
    FilesChanged,
    NoteAdded,
    Recorded,
    RollbackOffered,
    SuiteCause,
    SuiteEnded,
    UserSaid,
)
from mainspring.events.counts import plural
from mainspring.secrets.injection import suspicions
from mainspring.turns.runtime import Runtime
from mainspring.turns.suite import (
    CALL_PREFIX,
    Compare,
    SuiteRun,
    results_of,
    run_suite,
)
from mainspring.turns.task_project import project_of_turn
from mainspring.workspace.affected import command_for
from mainspring.workspace.project import Project
from mainspring.workspace.test_results import TestResults, broken, excerpt, missing, unloaded

_MAX_ROUNDS = 2
_MAX_KEPT = 50
_MAX_TOLD = 5
_MAX_FILES = 10
_KINDS = ("AssistantSaid", "FilesChanged", "NoteAdded", "RollbackOffered", "SuiteEnded")
_NOT_RUN = (
    "Not compared with the project's tests: `{command}` takes longer than {seconds:g} s, or cannot run here."
    " Run what you need yourself."
)


class Baseline(msgspec.Struct, frozen=True):
    """What the tests said before something was changed; `seq` is where that stands."""

    seq: int
    ended: SuiteEnded
    results: TestResults

    @property
    def is_usable(self) -> bool:
        """Whether there is anything that a change could break."""
        return self.ended.outcome == "passed" or bool(self.results.passed)

    @property
    def is_missing(self) -> bool:
        return self.ended.outcome in ("slow", "unusable")


class Regressions:
    """The guard of one session, for its turns."""

    def __init__(self, settings: ChecksSettings) -> None:
        self._settings = settings
        self._looked_turn = 0
        self._weakened = WeakenedTests()
        self._unproven = UnprovenEdits()
        self._untested = UntestedLines() if settings.coverage == "on" else None
        self._baseline: tuple[int, Baseline] | None = None

    async def is_due(self, runtime: Runtime) -> bool:
        turn = runtime.state.turn
        if self._looked_turn == turn:
            return False
        since = await _turn_events(runtime)
        is_late = any(_is_work(item) or _is_baseline(item) for item in since)
        if is_late or not (await project_of_turn(runtime)).test:
            self._looked_turn = turn
            return False
        return True

    async def before_calls(self, runtime: Runtime) -> None:
        calls = runtime.state.open_calls
        if not await self.is_due(runtime):
            return
        self._looked_turn = runtime.state.turn
        if not any(call.is_started for call in calls):  # else they may have changed something already
            project = await project_of_turn(runtime)
            await self._run_all(runtime, project.test, "baseline")

    async def comparison(self, runtime: Runtime) -> Compare | None:
        baseline = await self._found_baseline(runtime)
        if baseline is None or not baseline.is_usable:
            if baseline and baseline.is_missing:
                await self._tell_not_compared(runtime, baseline.ended)
            return None
        ran = await read_all(runtime.journal, kinds=("SuiteEnded",))
        flaky = {name for item in ran if isinstance(item.event, SuiteEnded) for name in item.event.flaky}

        return compared_with(baseline, flaky)

    async def tell_broken(self, runtime: Runtime, ran: SuiteRun, project: Project) -> bool:
        runs = [item.event for item in await _turn_events(runtime) if isinstance(item.event, SuiteEnded)]
        known = {name for each in runs[:-1] for name in each.regressions}
        if known.issuperset(ran.ended.regressions):
            return False
        again = await run_again(runtime, ran, project, self._settings.suite_limit_s)
        text = await _account(runtime, again, ran.output)
        await runtime.record(
            NoteAdded(text=text, source=TESTS_SOURCE, suspicious=suspicions(text)), is_durable=False
        )
        return True

    async def after_step(self, runtime: Runtime) -> None:
        await self._weakened.look(runtime)
        if runtime.history.is_answered:
            await self._before_done(runtime)
        else:  # what is said after an answer asks for another one
            await self._unproven.look(runtime)
            baseline = await self._found_baseline(runtime) if self._untested else None
            if self._untested and baseline:
                await self._untested.tell_not_measured(runtime, baseline.ended)

    async def _before_done(self, runtime: Runtime) -> None:
        baseline = await self._found_baseline(runtime)
        since = await self._changed_since(runtime, baseline)
        found = await self._last_word(runtime, since, baseline) if baseline and since else None
        if baseline is None or found is None:
            return
        if not found[0].regressions:
            if found[0].outcome == "slow":
                await self._tell_not_compared(runtime, found[0])
            else:
                await tell_unrun(runtime, found[0], baseline.results, baseline.seq)
            if self._untested:
                await self._untested.look(runtime, found[0], baseline.ended)
            return
        if sum(map(_is_round, since)) < _MAX_ROUNDS:
            text = f"Not done yet. {await _account(runtime, *found)}"
            await runtime.record(NoteAdded(text=text, source=REGRESSIONS_SOURCE, suspicious=suspicions(text)))
        elif not any(isinstance(item.event, RollbackOffered) for item in since):
            await _offer_rollback(runtime, found[0], since)

    async def _changed_since(self, runtime: Runtime, baseline: Baseline | None) -> list[Recorded]:
        """What happened in the turn since its baseline; nothing where that cannot have broken anything."""
        if baseline is None or not baseline.is_usable:
            return []
        since = [item for item in await _turn_events(runtime) if item.seq > baseline.seq]
        return since if any(map(_is_work, since)) else []

    async def _last_word(
        self, runtime: Runtime, since: Sequence[Recorded], baseline: Baseline
    ) -> tuple[SuiteEnded, str] | None:
        """What all tests say of the files as they are now, and what was printed, if they have just run. They
        run by the command of before, also where the change brought another one."""
        command, word = baseline.ended.command, None
        project = msgspec.structs.replace(await project_of_turn(runtime), test=command)
        for item in since:
            if _is_work(item):
                word = None
            elif isinstance(item.event, SuiteEnded) and (word or item.event.command == command):
                word = item.event
        if word:
            return word, ""
        compare = await self.comparison(runtime)
        limit_s = self._settings.suite_limit_s
        ran = await self._run_all(runtime, command, "done", compare)
        if ran is None:
            return None
        ended = await run_again(runtime, ran, project, limit_s) if ran.ended.regressions else ran.ended
        return ended, ran.output

    async def _run_all(
        self, runtime: Runtime, command: str, cause: SuiteCause, compare: Compare | None = None
    ) -> SuiteRun | None:
        return await run_suite(
            runtime,
            command,
            cause,
            timeout_s=self._settings.suite_limit_s,
            compare=compare,
            is_measured=self._untested is not None,
        )

    async def _tell_not_compared(self, runtime: Runtime, ended: SuiteEnded) -> None:
        """Says once that nothing is compared; such tests do not run again in this session."""
        text = _NOT_RUN.format(command=ended.command, seconds=self._settings.suite_limit_s)
        known = await read_all(runtime.journal, kinds=("NoteAdded",))
        if not any(isinstance(item.event, NoteAdded) and item.event.text == text for item in known):
            await runtime.record(NoteAdded(text=text, source=CHECKS_SOURCE), is_durable=False)

    async def _found_baseline(self, runtime: Runtime) -> Baseline | None:
        """What is on record of the open turn."""
        turn = runtime.state.turn
        if self._baseline and self._baseline[0] == turn:
            return self._baseline[1]
        for item in await _turn_events(runtime):
            if isinstance(item.event, SuiteEnded) and item.event.cause == "baseline":
                found = Baseline(item.seq, item.event, await results_of(runtime, item.event))
                self._baseline = turn, found
                return found
        return None


def compared_with(baseline: Baseline, flaky: Collection[str] = ()) -> Compare:
    """Tells what passed in a baseline and fails now, but for what is known to be flaky."""

    def compare(ended: SuiteEnded, now: TestResults) -> SuiteEnded:
        worse = _worse(baseline, ended, now)
        is_whole = bool(now or ended.outcome == "passed") and ended.command == baseline.ended.command
        gone = missing(baseline.results, now) if is_whole else []
        return msgspec.structs.replace(
            ended,
            regressions=tuple(name for name in worse if name not in flaky)[:_MAX_KEPT],
            flaky=tuple(name for name in worse if name in flaky)[:_MAX_KEPT],
            missing=tuple(gone)[:_MAX_KEPT],
        )

    return compare


async def run_again(runtime: Runtime, ran: SuiteRun, project: Project, limit_s: float) -> SuiteEnded:
    """Runs what failed once more on the same content: what passes then is flaky."""
    names = ran.ended.regressions
    is_named = bool(ran.results) and all("::" in name for name in names)
    command = command_for(project, names) if is_named and "pytest" in project.test else ran.ended.command

    def compare(ended: SuiteEnded, now: TestResults) -> SuiteEnded:
        passed = set(now.passed if now else names if ended.outcome == "passed" else ())
        return msgspec.structs.replace(
            ended,
            regressions=tuple(name for name in names if name not in passed),
            flaky=tuple(name for name in names if name in passed),
            missing=ran.ended.missing,
        )

    again = await run_suite(runtime, command, "again", timeout_s=limit_s, compare=compare)
    return again.ended if again and again.ended.outcome in ("passed", "failed") else ran.ended


def _worse(baseline: Baseline, ended: SuiteEnded, now: TestResults) -> list[str]:
    """The tests that passed and fail; the command itself where only the whole run can be compared."""
    if baseline.results and now:
        is_whole = ended.command == baseline.ended.command
        return [*broken(baseline.results, now), *(unloaded(baseline.results, now) if is_whole else ())]
    is_same = ended.command == baseline.ended.command or bool(baseline.results)
    is_worse = ended.outcome == "failed" and baseline.ended.outcome == "passed"
    return [ended.command] if is_same and is_worse else []


async def _offer_rollback(runtime: Runtime, ended: SuiteEnded, since: Sequence[Recorded]) -> None:
    files = dict.fromkeys(path for item in since if _is_work(item) for path in _paths(item))
    await runtime.record(
        RollbackOffered(turn=runtime.state.turn, tests=ended.regressions, files=tuple(files)[:_MAX_KEPT])
    )


async def _turn_events(runtime: Runtime) -> list[Recorded]:
    return await read_all(runtime.journal, kinds=_KINDS, after=await work_began_seq(runtime))


async def work_began_seq(runtime: Runtime) -> int:
    """Where the work on what was last said began: an outside agent that is told what it broke takes another
    turn for that."""
    began, said, ended = [
        item.seq if (item := await runtime.journal.last(kind)) else 0
        for kind in ("TurnStarted", "UserSaid", "TurnEnded")
    ]
    if said > ended or not ended:
        return began
    is_new = True
    for item in await read_all(runtime.journal, kinds=("TurnStarted", "UserSaid")):
        if isinstance(item.event, UserSaid):
            is_new = True
        elif is_new:
            began, is_new = item.seq, False
    return began


def _is_work(item: Recorded) -> bool:
    """Whether the agent changed files here, and not a test that ran."""
    event = item.event
    is_tests = isinstance(event, FilesChanged) and all(each.startswith(CALL_PREFIX) for each in event.calls)
    return isinstance(event, FilesChanged) and bool(event.changes) and not is_tests


def _is_baseline(item: Recorded) -> bool:
    return isinstance(item.event, SuiteEnded) and item.event.cause == "baseline"


def _is_round(item: Recorded) -> bool:
    return isinstance(item.event, NoteAdded) and item.event.source == REGRESSIONS_SOURCE


def _paths(item: Recorded) -> list[str]:
    return [change.path for change in item.event.changes] if isinstance(item.event, FilesChanged) else []


async def _account(runtime: Runtime, ended: SuiteEnded, output: str) -> str:
    """What is broken, with its output and the changes since it passed."""
    lines: list[str] = []
    worse = ended.regressions
    if worse:
        lines.append(f"{plural(len(worse), 'test')} that passed before this turn, and fail now:")
    for name in worse[:_MAX_TOLD]:
        lines += [f"- {name}", *(excerpt(output, name) or "").splitlines()]
    if len(worse) > _MAX_TOLD:
        lines.append(f"and {len(worse) - _MAX_TOLD} more")
    if worse and not any(excerpt(output, name) for name in worse[:_MAX_TOLD]):
        lines.append(ended.summary)
    if worse and (changes := await _blamed(runtime, worse)):
        lines.append(f"Changed since they passed: {changes}")
    if ended.flaky:
        names = ", ".join(ended.flaky[:_MAX_TOLD])
        lines.append(f"Flaky, failing and passing on the same files, so not counted: {names}")
    return "\n".join(lines)


async def _blamed(runtime: Runtime, tests: Sequence[str]) -> str:
    """The steps, with their files, since none of these tests failed."""
    step, changes = 0, dict[int, dict[str, None]]()
    for item in await _turn_events(runtime):
        match item.event:
            case AssistantSaid():
                step = item.event.step
            case FilesChanged() if _is_work(item):
                changes.setdefault(step, {}).update(dict.fromkeys(_paths(item)))
            case SuiteEnded():
                results = await results_of(runtime, item.event)
                if not {*tests}.isdisjoint(results.passed) and {*tests}.isdisjoint(results.failed):
                    changes = {}
            case _:
                pass
    return "; ".join(f"step {at}: {', '.join([*paths][:_MAX_FILES])}" for at, paths in changes.items())
