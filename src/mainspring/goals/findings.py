"""What a goal's work has left behind, as far as it can be measured: files, metrics, claims.

Looks at the workspace before and after each iteration, records what it finds, and tells it in lines for the
next prompt. What was found earlier is folded from the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from mainspring.errors import PathRefused, SandboxError
from mainspring.events import (
    ArtifactsChanged,
    CallEnded,
    CheckEnded,
    GoalSet,
    Measurement,
    MeasurementsTaken,
    ProcessEnded,
)
from mainspring.goals.artifacts import Artifact, Artifacts, makers, read_artifacts
from mainspring.goals.evaluation import evaluate
from mainspring.goals.fold import Iteration, last_message
from mainspring.goals.looking import GoalFolder
from mainspring.goals.memory import Memory
from mainspring.goals.metrics import Metrics, Summary
from mainspring.goals.profiles import Profile
from mainspring.goals.readings import MAX_BYTES, Readings, read_file, read_lines
from mainspring.session import Session

_MADE_KINDS = ("AssistantSaid", "FilesChanged")
_TOLD_KINDS = ("CallEnded", "ProcessEnded")
_PAGE = 500
_MAX_VALUES = 5000
_MAX_NOTES = 20
_MAX_METRICS = 20
RESULT_FILES = (".json", ".jsonl", ".csv", ".tsv")


class Findings:
    def __init__(self, session: Session, profile: Profile, cache: Path) -> None:
        self._session = session
        self._profile = profile
        workspace = session.state.workspace
        own = tuple(workspace / name for name in (profile.memory, profile.claims) if name)
        self._folder = GoalFolder(session.files, workspace, cache, include=profile.artifacts, left_out=own)
        self._artifacts: Artifacts | None = None
        self._changed: ArtifactsChanged | None = None
        self._metrics: Metrics | None = None

    async def look(self, iteration: int, since: int = 0) -> bool:
        """Records what changed in the files since the last look; whether anything did. The commands recorded
        after `since` may have made it."""
        known = self._artifacts or await read_artifacts(self._session.journal)
        self._artifacts = known
        made_by = await self._makers(since) if since else {}
        changed = await self._folder.look(known.present, iteration, made_by, self._session.put_blob)
        if changed is None:
            return False
        await self._session.emit(changed)
        known.apply(changed, await self._session.get_blob(changed.listing) if changed.listing else None)
        self._changed = changed
        return True

    async def gather(self, goal: GoalSet, current: Iteration) -> list[str]:
        """Records what an iteration left behind; says of what kinds something is new."""
        kinds: list[str] = []
        if await self.look(current.number, current.started_seq):
            kinds.append("files")
        if await self._measure(goal, current):
            kinds.append("metrics")
        return kinds

    async def _measure(self, goal: GoalSet, current: Iteration) -> bool:
        """Reads what was reported, and measures ourselves when the goal says how."""
        metrics = await self._known_metrics()
        before = {name: metrics.table(name) for name in metrics.names}
        found = [await self._reported(current)]
        try:
            found.append(
                await evaluate(
                    goal.evaluation,
                    iteration=current.number,
                    sandbox=await self._session.sandbox(),
                    files=self._session.files,
                    keep=self._session.put_blob,
                )
                if goal.evaluation.command
                else None
            )
        except SandboxError as error:
            found.append(MeasurementsTaken(iteration=current.number, is_ours=True, flags=(error.message,)))
        for event in found:
            if event is not None:
                await self._session.emit(event)
                metrics.apply(event)
        return any(_is_news(before.get(name, ()), metrics.table(name)) for name in metrics.names)

    async def _reported(self, current: Iteration) -> MeasurementsTaken | None:
        """The METRIC lines that commands printed or the agent said, and the result files it wrote."""
        values, notes = list[Measurement](), dict[str, None]()
        async for text, source in self._texts(current.started_seq):
            readings = read_lines(text, source)
            values += readings.values
            notes |= dict.fromkeys(readings.notes)
        for item in self._artifacts.made if self._artifacts else ():
            if item.iteration == current.number and item.path.endswith(RESULT_FILES):
                readings = await asyncio.to_thread(self._result_file, item.path)
                values += readings.values
                notes |= dict.fromkeys(readings.notes)
        if not values:
            said = read_lines(await last_message(self._session.journal, current.started_seq), "said")
            values += said.values
        if not values and not notes:
            return None
        return MeasurementsTaken(
            iteration=current.number, values=tuple(values[:_MAX_VALUES]), flags=tuple(notes)[:_MAX_NOTES]
        )

    def _result_file(self, path: str) -> Readings:
        try:
            return read_file(path, self._session.files.read(path, max_bytes=MAX_BYTES + 1).data)
        except (PathRefused, OSError) as error:
            return Readings(notes=(f"{path} could not be read: {error}",))

    async def _texts(self, since: int) -> AsyncGenerator[tuple[str, str]]:
        """What commands printed and the agent said since an event; a line said twice is one line."""
        while page := await self._session.journal.read(after=since, kinds=_TOLD_KINDS, limit=_PAGE):
            for recorded in page:
                match recorded.event:
                    case CallEnded(output=output):
                        yield output, f"event {recorded.seq}"
                    case ProcessEnded(handle=handle) if process := self._session.state.processes.get(handle):
                        data = await asyncio.to_thread(process.background.output, 0, MAX_BYTES)
                        yield data.data.decode("utf-8", "replace"), f"process {handle}"
                    case _:
                        pass
            since = page[-1].seq

    async def _known_metrics(self) -> Metrics:
        if self._metrics is None:
            self._metrics, since = Metrics(), 0
            while page := await self._session.journal.read(after=since, kinds=("MeasurementsTaken",)):
                for recorded in page:
                    if isinstance(recorded.event, MeasurementsTaken):
                        self._metrics.apply(recorded.event)
                since = page[-1].seq
        return self._metrics

    def changed_lines(self, iteration: int) -> tuple[str, ...]:
        """The files that the last iteration, or something since, changed."""
        known = self._artifacts.all if self._artifacts else ()
        return tuple(_line(item) for item in known if item.iteration == iteration and iteration)

    async def lines(self, goal: GoalSet) -> tuple[str, ...]:
        """What is known about metrics and claims."""
        metrics, evaluation = await self._known_metrics(), goal.evaluation
        lines: list[str] = []
        for name in metrics.names[:_MAX_METRICS]:
            if name == evaluation.metric and evaluation.better:
                lines += metrics.lines(name, evaluation.better)
            else:
                lines.append(metrics.newest(name))
        return tuple(lines)

    async def proofs(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """What the metrics and the claims say about being done."""
        metrics, found = await self._known_metrics(), list[CheckEnded]()
        for target in goal.checks.targets:
            passed, detail = metrics.reached(target, needs_ours=bool(goal.evaluation.command))
            check = f"{target.metric} {target.relation} {target.value:g}"
            found.append(
                CheckEnded(iteration=iteration, check=check, kind="target", passed=passed, detail=detail)
            )
        return found

    def noted(self, memory: Memory, at_us: int) -> Memory:
        """The memory file with what we know about the files."""
        if self._changed is None:
            return memory
        listing = self._changed.listing
        handle = f"blob:{listing.sha256}" if listing else f"mainspring artifacts {self._session.id}"
        return memory.with_artifacts(self._changed, handle, at_us)

    async def _makers(self, since: int) -> dict[str, str]:
        made: dict[str, str] = {}
        while page := await self._session.journal.read(after=since, kinds=_MADE_KINDS, limit=_PAGE):
            made |= makers(page)
            since = page[-1].seq
        return made


def _line(item: Artifact) -> str:
    if item.is_deleted:
        return f"{item.path} was deleted"
    made_by = f", made by `{item.made_by}`" if item.made_by else ""
    moved = f", renamed from {item.renamed_from}" if item.renamed_from else ""
    return f"{item.path} ({item.size:,} bytes{moved}{made_by})"


def _is_news(before: Sequence[Summary], now: Sequence[Summary]) -> bool:
    """Whether a metric has values that it did not have."""
    if len(before) == len(now):
        return False
    known = {value for row in before for value in row.values}
    return any(value not in known for value in now[-1].values)
