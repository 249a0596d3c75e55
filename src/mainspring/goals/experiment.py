"""What a goal measures: read from what commands printed, from result files, and by our own evaluation."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterable, Sequence

import msgspec

from mainspring.errors import PathRefused, SandboxError
from mainspring.events import (
    CallEnded,
    CheckEnded,
    GoalSet,
    Measurement,
    MeasurementsTaken,
    Parameter,
    ProcessEnded,
    ResultFile,
)
from mainspring.evidence.artifacts import Artifact, Artifacts
from mainspring.evidence.evaluation import evaluate
from mainspring.evidence.frozen_copy import Fetch
from mainspring.evidence.metrics import Metrics, Summary, asked_for
from mainspring.evidence.readings import MAX_BYTES, Readings, read_file, read_lines
from mainspring.goals.fold import Iteration, last_message
from mainspring.journal import events_in
from mainspring.secrets.redaction import expanded
from mainspring.tools.globs import glob_regex
from mainspring.turns.runtime import Runtime

RESULT_FILES = (".json", ".jsonl", ".csv", ".tsv")
_TOLD_KINDS = ("CallEnded", "ProcessEnded")
_PAGE = 500
_MAX_VALUES = 5000
_MAX_NOTES = 20
_MAX_NAMES = 100
_MAX_METRICS = 20
_MAX_FILES = 200


class Experiment:
    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._recorder = runtime.recorder
        self._files = runtime.workbench.files
        self._metrics: Metrics | None = None
        self._taken: set[tuple[int, bool]] = set()

    async def measure(
        self, goal: GoalSet, current: Iteration, artifacts: Artifacts, fetch: Fetch, doubts: tuple[str, ...]
    ) -> bool:
        """Reads what was reported, and measures ourselves when the goal says how, each once for an iteration,
        with `doubts` about who measures; whether there is news."""
        metrics = await self._known()
        if (current.number, False) not in self._taken:
            await self._record(await self._reported(goal, current, artifacts.made))
        if (current.number, True) not in self._taken:
            taken = await self._evaluated(goal, current.number, fetch)
            await self._record(taken and msgspec.structs.replace(taken, flags=(*taken.flags, *doubts)))
        return any(_is_news(metrics.counted(name), current.number) for name in metrics.names)

    async def begin(self, goal: GoalSet, present: Iterable[Artifact]) -> None:
        """Notes how far the result files go that are there before the first iteration: their rows are no
        measurements of it."""
        if (0, False) in self._taken or (await self._known()).files:
            return
        unread = self._unread(goal, present)
        read = [await asyncio.to_thread(self._result_file, item, goal) for item in unread]
        if files := tuple(file for _, file in read):
            await self._record(MeasurementsTaken(iteration=0, files=files))

    async def _record(self, event: MeasurementsTaken | None) -> None:
        if event is not None:
            await self._runtime.record(event)
            await self._apply(event)

    async def _apply(self, event: MeasurementsTaken) -> None:
        (await self._known()).apply(event)
        self._taken.add((event.iteration, event.is_ours))

    async def lines(self, goal: GoalSet) -> list[str]:
        """What the next iteration should know."""
        metrics, evaluation = await self._known(), goal.evaluation
        lines: list[str] = []
        names = sorted(metrics.names, key=lambda name: name not in asked_for(goal))
        for name in names[:_MAX_METRICS]:
            if name == evaluation.metric and evaluation.better:
                lines += metrics.lines(name, evaluation.better)
            else:
                lines += metrics.newest(name)
        if len(names) > _MAX_METRICS:
            lines.append(f"{len(names) - _MAX_METRICS} other metrics were measured as well.")
        return lines

    async def targets(self, goal: GoalSet, iteration: int) -> list[CheckEnded]:
        """Whether the metrics are where they should be."""
        metrics, found = await self._known(), list[CheckEnded]()
        for target in goal.checks.targets:
            passed, detail = metrics.reached(target, needs_ours=bool(goal.evaluation.command))
            check = f"{target.metric} {target.relation} {target.value:g}"
            grade = "claimed" if passed and not goal.evaluation.command else ""
            found.append(
                CheckEnded(
                    iteration=iteration, check=check, kind="target", passed=passed, detail=detail, grade=grade
                )
            )
        return found

    async def _evaluated(self, goal: GoalSet, iteration: int, fetch: Fetch) -> MeasurementsTaken | None:
        if not goal.evaluation.command:
            return None
        try:
            return await evaluate(
                goal.evaluation,
                iteration=iteration,
                sandbox=await self._runtime.sandbox(),
                files=self._files,
                keep=self._recorder.put_blob,
                fetch=fetch,
            )
        except SandboxError as error:
            return MeasurementsTaken(iteration=iteration, is_ours=True, flags=(error.message,))

    async def _reported(
        self, goal: GoalSet, current: Iteration, made: Iterable[Artifact]
    ) -> MeasurementsTaken | None:
        """The METRIC lines that commands printed or the agent said, and the result files it wrote. What a
        command printed is also in its files: that is one measurement."""
        printed, notes, parameters = list[Measurement](), dict[str, None](), dict[Parameter, None]()
        async for text, source in self._texts(current.started_seq):
            readings = read_lines(text, source)
            printed += readings.values
            notes |= dict.fromkeys(readings.notes)
            parameters |= dict.fromkeys(readings.parameters)
        said: list[Measurement] = []
        if not printed:
            message = await last_message(self._runtime.journal, current.started_seq)
            readings = read_lines(self._recorder.vault.expand(message), "said")
            said += readings.values
            notes |= dict.fromkeys(readings.notes)
            parameters |= dict.fromkeys(readings.parameters)
        filed, asked, files = list[Measurement](), asked_for(goal), list[ResultFile]()
        for item in self._unread(goal, made):
            readings, file = await asyncio.to_thread(self._result_file, item, goal)
            filed += _not_among([*printed, *filed], readings.values)
            notes |= dict.fromkeys(readings.notes)
            files.append(file)
        values, left_out = bounded([*printed, *_not_among(filed, said)], filed, asked)
        if not (values or notes or left_out or parameters or files):
            return None
        return MeasurementsTaken(
            iteration=current.number,
            values=values,
            flags=(*left_out, *notes)[:_MAX_NOTES],
            parameters=tuple(parameters)[:_MAX_NAMES],
            files=tuple(files),
        )

    def _unread(self, goal: GoalSet, known: Iterable[Artifact]) -> list[Artifact]:
        """The result files that may hold metrics of the goal and are other than when they were last read."""
        declared, read = goal.evaluation.results, self._metrics.files if self._metrics else {}
        found = [
            item
            for item in known
            if item.path.lower().endswith(RESULT_FILES)
            and (asked_for(goal) or _is_declared(item.path, declared))
            and (item.path not in read or read[item.path].sha256 != item.sha256)
        ]
        return found[:_MAX_FILES]

    def _result_file(self, item: Artifact, goal: GoalSet) -> tuple[Readings, ResultFile]:
        path, known = item.path, self._metrics.files.get(item.path) if self._metrics else None
        is_declared = _is_declared(path, goal.evaluation.results)
        try:
            data = self._files.read(path, max_bytes=MAX_BYTES + 1).data
            readings = read_file(path, data, asked_for(goal), is_declared=is_declared, known=known)
        except (PathRefused, OSError) as error:
            readings = Readings(notes=(f"{path} could not be read: {error}",))
        file = ResultFile(path=path, rows=readings.rows, rows_sha256=readings.rows_sha256, sha256=item.sha256)
        return readings, file

    async def _texts(self, since: int) -> AsyncGenerator[tuple[str, str]]:
        """What each command printed since an event."""
        async for recorded in events_in(self._runtime.journal, kinds=_TOLD_KINDS, after=since, limit=_PAGE):
            match recorded.event:
                case CallEnded(output=output):
                    yield self._recorder.vault.expand(output), f"event {recorded.seq}"
                case ProcessEnded(handle=handle) if process := self._runtime.state.processes.get(handle):
                    data = await asyncio.to_thread(process.background.output, 0, MAX_BYTES)
                    yield data.data.decode("utf-8", "replace"), f"process {handle}"
                case _:
                    pass

    async def _known(self) -> Metrics:
        if self._metrics is None:
            self._metrics = Metrics()
            async for recorded in events_in(self._runtime.journal, kinds=("MeasurementsTaken",)):
                if isinstance(recorded.event, MeasurementsTaken):
                    await self._apply(expanded(recorded.event, self._recorder.vault))
        return self._metrics


def _is_declared(path: str, declared: Iterable[str]) -> bool:
    return any(
        path == name.removeprefix("./") or glob_regex(name).fullmatch(path) is not None for name in declared
    )


def bounded(
    lines: Sequence[Measurement], filed: Sequence[Measurement], asked: Collection[str]
) -> tuple[tuple[Measurement, ...], tuple[str, ...]]:
    """What is kept of an iteration, and what is said of the rest: what the goal asks for comes first, then
    what was told on a line of its own, then what else stands in files."""
    ranked = sorted([*lines, *filed], key=lambda item: item.metric not in asked)
    names = dict.fromkeys(item.metric for item in ranked)
    kept = frozenset(list(names)[:_MAX_NAMES])
    values = [item for item in ranked if item.metric in kept]
    notes: list[str] = []
    if len(names) > len(kept):
        notes.append(f"there are {len(names):,} metrics: only the first {len(kept)} are kept")
    if len(values) > _MAX_VALUES:
        notes.append(f"there are {len(values):,} values: only the first {_MAX_VALUES:,} are kept")
    return tuple(values[:_MAX_VALUES]), tuple(notes)


def _not_among(known: Iterable[Measurement], told: Iterable[Measurement]) -> list[Measurement]:
    """What another source tells more often than it is known already."""
    left = Counter((item.metric, item.value) for item in known)
    more: list[Measurement] = []
    for item in told:
        if left[item.metric, item.value]:
            left[item.metric, item.value] -= 1
        else:
            more.append(item)
    return more


def _is_news(table: Sequence[Summary], iteration: int) -> bool:
    """Whether a metric has values in this iteration that it did not have before."""
    known = {value for row in table for value in row.values if row.iteration != iteration}
    return any(value not in known for row in table for value in row.values if row.iteration == iteration)
