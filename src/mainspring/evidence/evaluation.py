"""The controller measures: it runs the evaluation itself, as often as the goal says, and reads METRIC lines.

The files that decide the result are hashed when the goal is set and again around every evaluation. When they
were changed, it runs in a copy of the workspace in which they are what they were. Where that is not possible,
the change is said with the measurements, which then count for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mainspring.errors import PathRefused
from mainspring.events import Evaluation, FrozenFile, Measurement, MeasurementsTaken, Parameter
from mainspring.evidence.commands import Ran, kept, run_line
from mainspring.evidence.frozen_copy import Fetch, frozen_copy
from mainspring.evidence.metrics import AS_FROZEN, EVALUATOR_CHANGED, MIN_REPEATS
from mainspring.evidence.readings import read_lines
from mainspring.sandbox import Confinement, Sandbox
from mainspring.sandbox.files import Files
from mainspring.tools.globs import glob_regex
from mainspring.tools.walk import walked
from mainspring.workspace import Keep
from mainspring.workspace.stable_read import hash_file
from mainspring.workspace.tree import entry_of

_MAX_FROZEN = 5_000
_MAX_FLAGGED = 5
_MAX_FAILURES = 2


def merged(before: Evaluation, given: Evaluation) -> Evaluation:
    """What is given, and where nothing is, what was before. Whatever was frozen once stays so."""
    return Evaluation(
        command=given.command or before.command,
        repeats=given.repeats or before.repeats,
        frozen=tuple(dict.fromkeys((*before.frozen, *given.frozen))),
        better=given.better or before.better,
        metric=given.metric or before.metric,
        hashes=before.hashes,
        results=tuple(dict.fromkeys((*before.results, *given.results))),
    )


async def with_hashes(
    evaluation: Evaluation, files: Files, *, before: Evaluation | None = None
) -> Evaluation:
    """The evaluation as it is recorded with the goal: its frozen files as they are now, and those that were
    frozen `before` as they were then."""
    before = before or Evaluation()
    new = tuple(name for name in evaluation.frozen if name not in before.frozen)
    found = {frozen.path: frozen for frozen in await asyncio.to_thread(hashes_of, new, files)}
    found |= {frozen.path: frozen for frozen in before.hashes}
    return msgspec.structs.replace(evaluation, hashes=tuple(found[path] for path in sorted(found)))


async def _nothing_kept(_: str) -> bytes | None:
    return None


async def evaluate(
    evaluation: Evaluation,
    *,
    iteration: int,
    sandbox: Sandbox,
    files: Files,
    keep: Keep,
    fetch: Fetch = _nothing_kept,
    timeout_s: float = 600.0,
) -> MeasurementsTaken | None:
    """Measures; None when the goal has no evaluation. A machine that fails is a `SandboxError`. `fetch` gives
    the frozen contents that were kept."""
    if not evaluation.command.strip():
        return None
    changes = await asyncio.to_thread(frozen_changes, evaluation, files)
    # A command that names the workspace by its full path would not run in the copy.
    if changes and str(files.policy.workspace) not in evaluation.command:
        now = await asyncio.to_thread(hashes_of, evaluation.frozen, files)
        async with frozen_copy(files, evaluation.hashes, now, fetch) as copy:
            if copy is not None:
                told = [f"{AS_FROZEN}, since {each}" for each in changes]
                policy = copy.policy
                return await _measured(evaluation, iteration, sandbox, copy, keep, timeout_s, told, policy)
    return await _measured(evaluation, iteration, sandbox, files, keep, timeout_s)


async def _measured(
    evaluation: Evaluation,
    iteration: int,
    sandbox: Sandbox,
    files: Files,
    keep: Keep,
    timeout_s: float,
    told: Sequence[str] = (),
    policy: Confinement | None = None,
) -> MeasurementsTaken:
    flags = dict.fromkeys([*told, *await asyncio.to_thread(changes_of, evaluation, files)])
    values: list[Measurement] = []
    parameters: dict[Parameter, None] = {}
    runs: list[Ran] = []
    repeats = evaluation.repeats or MIN_REPEATS
    for number in range(1, repeats + 1):
        ran = await run_line(sandbox, files, evaluation.command, timeout_s, policy=policy)
        runs.append(ran)
        if not ran.is_passed:
            flags[f"run {number} of {repeats} failed, {ran.told}"] = None
            if len([run for run in runs if not run.is_passed]) == _MAX_FAILURES:
                break
            continue
        readings = read_lines(ran.finished.stdout.decode("utf-8", "replace"), evaluation.command)
        values += readings.values
        parameters |= dict.fromkeys(readings.parameters)
        flags |= dict.fromkeys(readings.notes)
        flags |= dict.fromkeys(_missing(evaluation, readings.values))
    flags |= dict.fromkeys(await asyncio.to_thread(changes_of, evaluation, files))
    shown = next((run for run in runs if not run.is_passed), runs[-1])
    return MeasurementsTaken(
        iteration=iteration,
        values=tuple(values),
        is_ours=True,
        flags=tuple(flags),
        exit_codes=tuple(run.finished.exit_code for run in runs),
        output=await kept(shown, keep),
        duration_s=sum(run.finished.duration_s for run in runs),
        parameters=tuple(parameters),
    )


def changes_of(evaluation: Evaluation, files: Files) -> list[str]:
    """A flag for each frozen file that is not what it was when the goal was set."""
    return [f"{EVALUATOR_CHANGED}: {change}" for change in frozen_changes(evaluation, files)]


def frozen_changes(evaluation: Evaluation, files: Files) -> list[str]:
    """How each frozen file is another than it was when it was frozen; many are summed up."""
    before = {frozen.path: frozen.sha256 for frozen in evaluation.hashes}
    now = {frozen.path: frozen.sha256 for frozen in hashes_of(evaluation.frozen, files)}
    changed: list[str] = []
    for path in sorted(before.keys() | now.keys()):
        old, new = before.get(path, ""), now.get(path, "")
        if old != new:
            how = "is new" if not old else "is gone" if not new else "is another"
            changed.append(f"{path} {how}")
    if len(changed) > _MAX_FLAGGED:
        left = len(changed) - _MAX_FLAGGED
        changed[_MAX_FLAGGED:] = [f"{left} more files"]
    return changed


def hashes_of(frozen: tuple[str, ...], files: Files) -> tuple[FrozenFile, ...]:
    """The files that these paths, folders and patterns name, and what is in them."""
    found: dict[str, FrozenFile] = {}
    for name in frozen:
        for path in _named(name, files)[:_MAX_FROZEN]:
            found[path] = FrozenFile(path=path, sha256=content_hash(files, path))
    return tuple(found[path] for path in sorted(found))


def content_hash(files: Files, path: str) -> str:
    """The hash of a file that may be read; empty when there is none."""
    try:
        real = files.resolve(path)
        if files.policy.refuses_read(real):
            return ""
        entry = entry_of(real.lstat())
    except (OSError, PathRefused):
        return ""
    sha256, _, _ = hash_file(str(real), entry, is_stopped=lambda: False)
    return sha256


def _named(name: str, files: Files) -> list[str]:
    workspace = files.policy.workspace
    place = workspace / name
    if place.is_dir():
        return [f"{name.rstrip('/')}/{path}" for path in walked(files, Path(place).resolve()).paths]
    if any(sign in name for sign in "*?[{") and not place.exists():
        pattern = glob_regex(name)
        return [path for path in walked(files, workspace).paths if pattern.fullmatch(path)]
    return [name]


def _missing(evaluation: Evaluation, values: tuple[Measurement, ...]) -> list[str]:
    if not values:
        return ["the evaluation printed no METRIC line"]
    if evaluation.metric and all(value.metric != evaluation.metric for value in values):
        return [f"the evaluation printed no METRIC {evaluation.metric}"]
    return []
