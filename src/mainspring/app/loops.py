"""`exploop` and `drvloop` for programs: the classic loops with their defaults, giving their exit codes."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable
from contextlib import aclosing
from logging import Logger
from pathlib import Path
from typing import Any, Literal

import msgspec

from mainspring.app.arguments import EFFORT, NAME, TARGETS, TEXTS, Kind, check_arguments
from mainspring.app.blocking import blocking
from mainspring.app.goals import GoalOptions, goal_text, made_folder, start_goal, with_longest_wait
from mainspring.app.modes import CLASSIC_SANDBOXES, MODE_NAMES, RUNG_NAMES, classic_sandbox
from mainspring.documents.lines import as_text, ended_line
from mainspring.errors import InvalidValue, require_type
from mainspring.events import (
    Effort,
    Evaluation,
    Event,
    GoalChecks,
    GoalEnded,
    GoalPaused,
    StatusDelta,
    Target,
    TurnEnded,
    UserSaid,
)
from mainspring.secrets.screen import plain
from mainspring.session.session import Session

Progress = Literal["screen", "silent"] | Logger | Callable[[str], object]
_NUMBERS = ("max_cost_usd", "max_time_seconds", "stall_seconds", "wait_seconds", "max_wait_seconds")
_COUNTS = ("max_iterations", "max_tokens", "attempts")
_A_PATH: Kind = ("a path", lambda value: isinstance(value, str | Path))
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("goal", "user_prompt", "engine", "model", "mode", "sandbox"), NAME),
    **dict.fromkeys(("workspace", "repo_dir", "prompt_file"), _A_PATH),
    **dict.fromkeys(("checks", "files"), TEXTS),
    "targets": TARGETS,
    "effort": EFFORT,
    "evaluation": ("an Evaluation", lambda value: isinstance(value, Evaluation)),
}
_MAY_BE_0 = ("wait_seconds", "max_wait_seconds")


class LoopConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What every loop takes. `goal` is a text, or names the file that holds it. `checks` are commands that
    must exit with 0, `files` must exist and `targets` be reached before done is accepted. `allow_home` is
    as for `open`. What happens is told line by line as `progress` says: on the screen (standard error), to a
    logger, to a function, or `silent`. A wrong value is an `InvalidValue`, which is also a `ValueError`.

    The names that the loops had before work as well: `repo_dir` is the workspace, `user_prompt` the text of
    the goal, `prompt_file` the file that holds it; `sandbox` may be read-only, workspace-write or
    danger-full-access."""

    goal: str = ""
    workspace: Path | str = "."
    repo_dir: Path | str = ""
    user_prompt: str = ""
    prompt_file: Path | str = ""
    engine: str = ""
    model: str = ""
    effort: Effort | None = None
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
    attempts: int = 1
    allow_unpriced: bool = False
    allow_home: bool = False
    progress: Progress = "screen"

    def __post_init__(self) -> None:
        check_arguments(msgspec.structs.asdict(self), **_KINDS)
        for name in (*_NUMBERS, *_COUNTS):
            _check_number(name, getattr(self, name, None))
        for name, value, known in (
            ("sandbox", self.sandbox, (*RUNG_NAMES, *CLASSIC_SANDBOXES)),
            ("mode", self.mode, MODE_NAMES),
        ):
            if value and value not in known:
                raise InvalidValue(f"{name} cannot be {value!r}.", remedy=f"Use one of {', '.join(known)}.")
        if not (self.progress in ("screen", "silent") or isinstance(self.progress, Logger)) and not callable(
            self.progress
        ):
            raise InvalidValue(f"progress cannot be {self.progress!r}.", remedy="Use screen or silent.")
        if self.goal and (self.user_prompt or self.prompt_file):
            raise InvalidValue("goal and user_prompt or prompt_file are both given.", remedy="Give one.")
        if not (self.goal.strip() or self.user_prompt.strip() or self.prompt_file):
            raise InvalidValue(
                "goal is empty, and so are user_prompt and prompt_file.", remedy="Give a text or a file."
            )

    @property
    def given(self) -> str:
        """The goal, as a text or the name of a file."""
        if self.prompt_file and not self.user_prompt:
            path = Path(self.prompt_file)
            if not path.is_file():
                raise InvalidValue(f"prompt_file names {path}, which is no file.", remedy="Check its path.")
            return str(path)
        return self.goal or self.user_prompt


class ExploopConfig(LoopConfig, frozen=True, kw_only=True):
    wait_seconds: float = 1.0
    max_wait_seconds: float = 6000.0
    stall_seconds: float | None = None


class DrvloopConfig(LoopConfig, frozen=True, kw_only=True):
    max_iterations: int = 30


async def run_exploop_async(config: ExploopConfig) -> int:
    """Runs experiments until the goal is reached or a limit is; going on where an earlier run ended. The exit
    code: 0 done, 1 iterations or the longest wait used up, 130 stopped, else that of the engine."""
    require_type(config, ExploopConfig, "config")
    rules = {
        "wait_s": config.wait_seconds,
        "max_wait_s": config.max_wait_seconds,
        "stall_s": config.stall_seconds,
    }
    return await _pursued("exploop", config, rules)


async def run_drvloop_async(config: DrvloopConfig) -> int:
    """Derives the goal claim by claim, each decided by a check; exit codes as those of `run_exploop`."""
    require_type(config, DrvloopConfig, "config")
    return await _pursued("drvloop", config, {})


run_exploop, run_drvloop = blocking(run_exploop_async), blocking(run_drvloop_async)


async def _pursued(profile: str, config: LoopConfig, rules: dict[str, Any]) -> int:
    rules = {
        **rules,
        "max_iterations": config.max_iterations,
        "max_cost_usd": config.max_cost_usd,
        "max_tokens": config.max_tokens,
        "max_time_s": config.max_time_seconds,
        "attempts": config.attempts,
    }
    given = config.given
    goal_text(given)
    sandbox, mode = classic_sandbox(config.sandbox, config.mode)
    options = GoalOptions(
        folder=made_folder(Path(config.repo_dir or config.workspace)),
        profile=profile,
        engine=config.engine,
        checks=GoalChecks(commands=config.checks, files=config.files, targets=config.targets),
        rules=with_longest_wait({name: value for name, value in rules.items() if value is not None}),
        evaluation=config.evaluation,
        model=config.model,
        effort=config.effort,
        mode=mode,
        sandbox=sandbox,
        allow_unpriced=config.allow_unpriced,
        allow_home=config.allow_home,
    )
    async with start_goal(given, options) as pursuit:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_tell(pursuit.session, config.progress))
                ended = await pursuit.run()
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed
    return ended.exit_code if isinstance(ended, GoalEnded) else 130


async def _tell(session: Session, progress: Progress) -> None:
    """Tells what happens from here on, until this process's work is over."""
    say = _teller(progress)
    async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
        async for recorded in events:
            if text := _line(recorded.event):
                say(plain(text))
            if isinstance(recorded.event, GoalEnded | GoalPaused):
                return


def _teller(progress: Progress) -> Callable[[str], object]:
    if isinstance(progress, Logger):
        return progress.info
    if callable(progress):
        return progress
    return _write if progress == "screen" else lambda _: None


def _write(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _line(event: Event) -> str:
    match event:
        case StatusDelta():
            return f"◷ {event.text}"
        case TurnEnded():
            return ended_line(event, in_goal=True)
        case UserSaid():
            return ""  # the whole prompt of an iteration
        case _:
            return as_text(event)


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    is_count = name in _COUNTS
    least = "0 or more" if name in _MAY_BE_0 else "more than 0"
    wanted = f"a whole number of {least}" if is_count else f"a number of {least}"
    is_number = isinstance(value, int if is_count else int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and (value > 0 or (value == 0 and name in _MAY_BE_0)):
        return
    raise InvalidValue(f"{name} is {value!r}, and must be {wanted}.")
