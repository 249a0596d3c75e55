"""The result of a goal: its best measurement, and what the work changed in files up to there."""

from __future__ import annotations

from collections.abc import Collection

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, FilesChanged
from mainspring.evidence.metrics import Better, Metrics, Summary
from mainspring.journal import JournalReader, events_in
from mainspring.report.result_facts import BestResult, FileDiff, MeasuredValue
from mainspring.workspace.diffs import unified
from mainspring.workspace.restore import RestoreStep, as_change, is_same, net

SHOWN_DIFFS = 30
MAX_DIFF_LINES = 200
_MAX_LINE = 500
_INSTRUCTIONS = ("instructions",)
_Wanted = tuple[str, Better]


def best_result(metrics: Metrics, wanted: Collection[_Wanted], ended: dict[int, int]) -> BestResult | None:
    """The first of the wanted metrics that was measured; `ended` is the event that ended each iteration."""
    for name, better in wanted:
        course, rows = metrics.course(name, better), metrics.counted(name)
        if course is not None and rows:
            best = course.best
            return BestResult(
                metric=name,
                unit=metrics.unit(name),
                better=better,
                first=_value(rows[0]),
                best=_value(best),
                is_sure=course.is_sure,
                is_ours=best.is_ours,
                flags=metrics.doubts(best.iteration),
                parameters=metrics.parameters(best),
                state_seq=ended.get(best.iteration, 0),
            )
    return None


async def file_diffs(
    journal: JournalReader, until: int | None, left_out: Collection[str]
) -> tuple[tuple[FileDiff, ...], int]:
    """What the work did to files up to an event, and of how many files more; without what we wrote."""
    changed = [
        recorded.event
        async for recorded in events_in(journal, kinds=("FilesChanged",), until=until)
        if isinstance(recorded.event, FilesChanged) and recorded.event.calls != _INSTRUCTIONS
    ]
    steps = [step for step in net(changed) if not is_same(step.now, step.then)]
    files = [step for step in steps if step.path not in left_out and not _is_folder(step)]
    files.sort(key=lambda step: step.path)
    shown = [await _diff(journal, step) for step in files[:SHOWN_DIFFS]]
    return tuple(shown), max(len(files) - SHOWN_DIFFS, 0)


async def _diff(journal: JournalReader, step: RestoreStep) -> FileDiff:
    change = as_change(RestoreStep(step.path, step.then, step.now))
    before = await _content(journal, step.then.blob if step.then else None)
    after = await _content(journal, step.now.blob if step.now else None)
    lines = [] if before is None or after is None else list(unified(change, before, after))
    return FileDiff(
        path=step.path,
        kind=change.kind,
        diff="".join(
            line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}…\n" for line in lines[:MAX_DIFF_LINES]
        ),
        lines_left_out=max(len(lines) - MAX_DIFF_LINES, 0),
    )


async def _content(journal: JournalReader, blob: Blob | None) -> bytes | None:
    try:
        return await journal.get(blob) if blob else b""
    except JournalDamaged:
        return None  # the row is right without it, and verify tells what is damaged


def _is_folder(step: RestoreStep) -> bool:
    return any(state is not None and state.kind == "folder" for state in (step.now, step.then))


def _value(row: Summary) -> MeasuredValue:
    return MeasuredValue(iteration=row.iteration, median=row.median, spread=row.sd, repeats=row.repeats)
