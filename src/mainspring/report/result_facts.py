"""The parts of a report about its result: the number that matters, the state of the files that gave it, what
changed, and what did not work or is left running."""

from __future__ import annotations

import msgspec

from mainspring.events import Blob


class FailedEvaluation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An evaluation of ours that measured nothing; `output` is the end of what its last failing run said."""

    seq: int
    iteration: int
    flags: tuple[str, ...] = ()
    output_blob: Blob | None = None
    output: str = ""


class LeftProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A process that an outside engine left running; `seq` is the event of that engine's end."""

    pid: int
    iteration: int
    seq: int
    is_ended: bool = False


class MeasuredValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The median of an iteration with its standard deviation."""

    iteration: int
    median: float
    spread: float = 0.0
    repeats: int = 1


class BestResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The number that matters, from the first iteration that has it to the best. After event `state_seq` the
    files were as they were for it; `flags` say what makes it doubtful."""

    metric: str
    unit: str = ""
    better: str = ""
    first: MeasuredValue
    best: MeasuredValue
    is_sure: bool = False
    is_ours: bool = False
    flags: tuple[str, ...] = ()
    parameters: str = ""
    state_seq: int = 0


class FileDiff(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one file from before the goal to the state that the report is about. `diff` may be the
    beginning of it; then `lines_left_out` says how much is not there."""

    path: str
    kind: str
    diff: str = ""
    lines_left_out: int = 0
