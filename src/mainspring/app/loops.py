"""`exploop` and `drvloop` for programs: the classic loops with their defaults, giving their exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.blocking import run_blocking
from mainspring.app.goals import GoalOptions, start_goal
from mainspring.errors import UsageError
from mainspring.events import Evaluation, GoalChecks, GoalEnded, Target


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every loop takes. `goal` is a text, or names the file that holds it. `checks` are commands that
    must exit with 0, `files` must exist and `targets` be reached before done is accepted. `allow_home` is
    as for `open`."""

    goal: str
    workspace: Path | str = "."
    engine: str = ""
    model: str = ""
    mode: str = ""
    sandbox: str = ""
    checks: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    targets: tuple[Target, ...] = ()
    evaluation: Evaluation = Evaluation()
    max_iterations: int = 10
    max_cost_usd: float | None = None
    max_tokens: int | None = None
    max_time_seconds: float | None = None
    allow_unpriced: bool = False
    allow_home: bool = False


class ExploopConfig(LoopConfig, frozen=True, kw_only=True):
    wait_seconds: float = 1.0
    max_wait_seconds: float = 6000.0
    stall_seconds: float | None = None


class DrvloopConfig(LoopConfig, frozen=True, kw_only=True):
    max_iterations: int = 30


def run_exploop(config: ExploopConfig) -> int:
    """Runs experiments until the goal is reached or a limit is; going on where an earlier run ended. The exit
    code: 0 done, 1 iterations or the longest wait used up, 130 stopped, else that of the engine."""
    return run_blocking(run_exploop_async(config))


def run_drvloop(config: DrvloopConfig) -> int:
    """Derives the goal claim by claim, each decided by a check; exit codes as those of `run_exploop`."""
    return run_blocking(run_drvloop_async(config))


async def run_exploop_async(config: ExploopConfig) -> int:
    """As `run_exploop`, for async code."""
    rules = {
        "wait_s": _number("wait_seconds", config.wait_seconds, is_zero_fine=True),
        "max_wait_s": _number("max_wait_seconds", config.max_wait_seconds),
        "stall_s": _number("stall_seconds", config.stall_seconds),
    }
    return await _pursued("exploop", config, rules)


async def run_drvloop_async(config: DrvloopConfig) -> int:
    """As `run_drvloop`, for async code."""
    return await _pursued("drvloop", config, {})


async def _pursued(profile: str, config: LoopConfig, rules: dict[str, Any]) -> int:
    rules = {
        **rules,
        "max_iterations": _number("max_iterations", config.max_iterations),
        "max_cost_usd": _number("max_cost_usd", config.max_cost_usd),
        "max_tokens": _number("max_tokens", config.max_tokens),
        "max_time_s": _number("max_time_seconds", config.max_time_seconds),
    }
    options = GoalOptions(
        folder=Path(config.workspace),
        profile=profile,
        engine=config.engine,
        checks=GoalChecks(commands=config.checks, files=config.files, targets=config.targets),
        rules={name: value for name, value in rules.items() if value is not None},
        evaluation=config.evaluation,
        model=config.model,
        mode=config.mode,
        sandbox=config.sandbox,
        allow_unpriced=config.allow_unpriced,
        allow_home=config.allow_home,
    )
    async with start_goal(config.goal, options) as pursuit:
        ended = await pursuit.run()
    return ended.exit_code if isinstance(ended, GoalEnded) else 130


def _number(name: str, value: float | None, *, is_zero_fine: bool = False) -> float | None:
    if value is None or value > 0 or (is_zero_fine and value == 0):
        return value
    least = "0 or more" if is_zero_fine else "more than 0"
    raise UsageError(f"{name} is {value:g}, and must be {least}.")
