"""What came of an iteration: what it left behind, whether it is done, and what the next one is told.

Nothing here decides when a goal ends, except that it is done: said in the last message, or by `finish`, and
borne out by every check. Done that is not borne out goes back to the agent with what failed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from mainspring.events import CheckEnded, IterationEnded, TurnEnded
from mainspring.events.counts import plural
from mainspring.evidence.checks import failing_text, look_for, run_check
from mainspring.evidence.grades import accepted, weakest
from mainspring.evidence.readings import read_lines
from mainspring.goals import protocol
from mainspring.goals.decide import Stop, time_left_s
from mainspring.goals.findings import Findings
from mainspring.goals.fold import Goal, Iteration, last_message
from mainspring.goals.memory import GoalMemory, new_memory, read_memory, update_memory
from mainspring.goals.profiles import Profile
from mainspring.goals.prompt import MAX_LINES, Brief
from mainspring.journal import events_in
from mainspring.turns.runtime import Runtime
from mainspring.workspace.skills import find_skills

_MAX_DETAIL = 300
_MAX_TOLD = 5
_MAX_SKILLS = 50
_A_WAIT_S = 60.0
"""A shorter pause is none that excuses an iteration from getting on."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


class Judge:
    """Looks at one goal's iterations, for one process."""

    def __init__(self, runtime: Runtime, profile: Profile, findings: Findings) -> None:
        self._runtime = runtime
        self._recorder = runtime.recorder
        self._files = runtime.workbench.files
        self._profile = profile
        self._findings = findings

    async def brief(self, goal: Goal, number: int, news: Sequence[str] = ()) -> Brief:
        """What the next iteration is told. The memory file is made when it is not there."""
        workspace = self._runtime.state.workspace
        current = goal.current
        await self._findings.look(
            current.number if current else goal.iterations, current.started_seq if current else 0
        )
        await self._findings.keep_deciding(goal.now)
        if number == 1 and current is None:
            await self._findings.begin(goal.now)
        memory = await self._remember(goal)
        tally = self._runtime.state.ledger.tally("goal")
        said = await self.said(goal.last_seq)
        lines, changed = self._findings.changed_lines(goal.iterations, MAX_LINES)
        return Brief(
            profile=self._profile,
            goal=goal.now,
            iteration=number,
            spent_usd=tally.usd,
            time_left_s=time_left_s(goal, goal.now.rules, self._runtime.workbench.reach.clock()),
            memory=memory.told,
            skills=await asyncio.to_thread(_skills, workspace),
            artifacts=lines,
            artifacts_total=changed,
            findings=await self._findings.lines(goal.now),
            failing=tuple([await self._told(check) for check in goal.failing]),
            news=(*news, *_news(goal), *(f"Your last message: {problem}" for problem in said.problems)),
            woke=goal.woke,
            is_read_only=self._is_read_only,
        )

    @property
    def _is_read_only(self) -> bool:
        return self._files.policy.mode == "read-only"

    async def look_again(self, goal: Goal) -> None:
        """Records what the last iteration, or what it had started, made since its end."""
        await self._findings.look(goal.iterations, goal.last_seq)
        at_us = self._runtime.workbench.reach.clock()
        await self._update(goal, lambda memory: self._findings.noted(memory, at_us))

    async def said(self, since: int) -> protocol.AgentSignals:
        """What the last message since an event asks for."""
        return protocol.read(await last_message(self._runtime.journal, since), done=self._profile.done)

    async def end(
        self, goal: Goal, current: Iteration, ending: TurnEnded
    ) -> tuple[IterationEnded, Stop | None]:
        """What to record about an iteration whose turn has ended, and the end of the goal when it is done."""
        changed = [*await self._findings.gather(goal.now, current)]
        if current.is_plan_new:
            changed.append("plan")
        text = await last_message(self._runtime.journal, current.started_seq)
        said = protocol.read(text, done=self._profile.done)
        stop: Stop | None = None
        outcome, detail = "continued", _detail(ending, text)
        if ending.ending == "failed":
            outcome, detail = "failed", ending.detail
        elif ending.ending == "done" and (said.is_done or current.finished):
            checks = await self._checks(goal, current.number)
            failing = [check for check in checks if not check.passed]
            outcome = "refused" if failing else "done"
            if failing:
                named = "; ".join(check.check for check in failing)
                detail = f"{len(failing)} of {len(checks)} checks failed: {named}"
            else:
                detail = accepted(checks)
                stop = Stop("done", detail, weakest(check.grade for check in checks))
        ended = IterationEnded(
            iteration=current.number,
            outcome=outcome,
            detail=detail[:_MAX_DETAIL],
            is_waiting=self._is_waiting(said),
            exit_code=current.exit_code,
            changed=tuple(changed),
            cost_usd=current.cost_usd,
            tokens=current.tokens,
        )
        await self._remember(goal, ended)
        return ended, stop

    def _is_waiting(self, said: protocol.AgentSignals) -> bool:
        running = [item.started for item in self._runtime.state.processes.open]
        is_held = self._profile.waits == "processes" and any(not item.is_service for item in running)
        return bool(said.pids or said.jobs) or (said.wait_s or 0.0) >= _A_WAIT_S or is_held

    async def _checks(self, goal: Goal, iteration: int) -> list[CheckEnded]:
        """Looks at every condition of being done, on record."""
        wanted, workspace = goal.now.checks, self._runtime.state.workspace
        found = [look_for(name, workspace, iteration=iteration) for name in wanted.files]
        if found:
            await self._runtime.record(*found)
        for line in wanted.commands:
            sandbox, files = await self._runtime.sandbox(), self._files
            ended = await run_check(line, sandbox, files, self._recorder.put_blob, iteration=iteration)
            ended = await self._findings.graded_check(ended, goal.now)
            found.append(ended)
            await self._runtime.record(ended)
        if proofs := await self._findings.proofs(goal.now, iteration):
            await self._runtime.record(*proofs)
        return [*found, *proofs]

    async def _told(self, check: CheckEnded) -> str:
        output = await self._recorder.get_blob(check.output) if check.output else b""
        return failing_text(check, output)

    async def _remember(self, goal: Goal, ended: IterationEnded | None = None) -> GoalMemory:
        """Brings the memory file up to date; one that cannot be used is put aside, on record."""
        first, now, at_us = goal.first, goal.now, self._runtime.workbench.reach.clock()

        def change(memory: GoalMemory) -> GoalMemory:
            if now.text != first.text and not _is_told(now.text, memory):
                memory = memory.with_goal(now.text, at_us, now.by)
            if ended is None:
                return memory
            new = f"new: {', '.join(ended.changed)}" if ended.changed else "nothing new"
            memory = memory.with_progress(ended.iteration, ended.outcome, f"{new}. {ended.detail}", at_us)
            return self._findings.noted(memory, at_us)

        return await self._update(goal, change)

    async def _recalled(self, goal: Goal, begun: GoalMemory) -> GoalMemory:
        """The memory where no file can be written: the file as it is, and what the journal knows."""
        path, sections = goal.now.memory, self._profile.sections
        found = await asyncio.to_thread(read_memory, self._files, path, sections)
        memory = found if isinstance(found, GoalMemory) and found.text else begun
        async for recorded in events_in(self._runtime.journal, kinds=("IterationEnded",)):
            if isinstance(ended := recorded.event, IterationEnded):
                memory = memory.with_progress(ended.iteration, ended.outcome, ended.detail, recorded.time_us)
        text = await last_message(self._runtime.journal, goal.last_seq)
        return memory.with_message(text) if goal.iterations and text else memory

    async def note(self, goal: Goal, key: str, text: str) -> None:
        """Leaves one line of ours in the memory file."""
        at_us = self._runtime.workbench.reach.clock()
        await self._update(goal, lambda memory: memory.with_note(key, text, at_us))

    async def _update(self, goal: Goal, change: Callable[[GoalMemory], GoalMemory]) -> GoalMemory:
        """Changes the memory file; in mode plan nothing is written."""
        first, name, at_us = goal.first, self._recorder.session, self._runtime.workbench.reach.clock()
        begun = new_memory(
            self._profile.sections,
            request=first.text,
            source=first.source,
            at_us=goal.started_us,
            goal=name,
        )
        if self._is_read_only:
            return await self._recalled(goal, begun)
        updated = await asyncio.to_thread(
            update_memory,
            self._files,
            goal.now.memory,
            begun,
            lambda memory: change(memory.of_goal(name, begun, at_us)),
        )
        if updated.kept_aside:
            await self._runtime.record(updated.kept_aside)
        return updated.memory


def _is_told(text: str, memory: GoalMemory) -> bool:
    first, *_ = text.strip().splitlines()
    return first in memory.section(memory.sections.changes)


def _skills(workspace: Path) -> tuple[str, ...]:
    """Those that have no valid head are named by their path: they can be read as well."""
    found, broken = find_skills(workspace / "skills", workspace / ".agents" / "skills", root=workspace)
    lines = [f"{skill.name}: {skill.description} ({skill.path.relative_to(workspace)})" for skill in found]
    lines += [f"{each.path.relative_to(workspace)} ({each.problem})" for each in broken]
    more = len(lines) - _MAX_SKILLS
    return (*lines[:_MAX_SKILLS], *([f"and {plural(more, 'more skill')}"] if more > 0 else []))


def _news(goal: Goal) -> tuple[str, ...]:
    """What became of the iteration before, when the next one should know."""
    last = goal.last
    if last is None or last.outcome == "done":
        return ()
    if last.outcome == "failed":
        return (f"Turn {last.iteration} failed: {last.detail}",)
    if not last.changed and not last.is_waiting:
        return (f"Turn {last.iteration} changed nothing. Do something else than before.",)
    return ()


def _detail(ending: TurnEnded, text: str) -> str:
    if ending.ending != "done":
        return f"{ending.ending}: {ending.detail}"
    lines = [line for line in protocol.spoken_lines(text) if line and not line.startswith("<")]
    spoken = [line for line in lines if not line.startswith(("METRIC ", "PARAM "))]
    if spoken or not lines:
        return spoken[-1] if spoken else ""
    told = [f"{item.metric} is {item.value:g} {item.unit}".rstrip() for item in read_lines(text).values]
    return f"The agent reported that {', '.join(told[-_MAX_TOLD:])}." if told else ""
