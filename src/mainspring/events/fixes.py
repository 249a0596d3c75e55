"""What happens while a command that fails is made to pass: what it said, what was suspected, how it ended."""

from typing import Literal

from mainspring.events.base import Event, Sha256
from mainspring.events.values import Cap, Value

FixOutcome = Literal[
    "fixed", "passes", "flaky", "unusable", "attempts", "budget", "limit", "failed", "stopped"
]
"""How it ended: the cause was removed; nothing fails; it fails and passes on the same files; the command
cannot run here; every attempt was made in vain; money or tokens are used up; a limit of steps or time was
reached; the model could not be asked; a person took the session elsewhere."""

Verdict = Literal["confirmed", "refuted", "open"]
"""Confirmed: the agent said so, and its attempt passed, by our own runs. Refuted: the agent said so, and
why. Open: neither; a fix that fails may also be a bad one for the right cause."""


class FixStarted(Event, frozen=True):
    """A command is to be made to pass. It must do so `repeat` times in a row, and each of `checks` once. A
    run of it, or of all tests of the project, may take `timeout_s`. `allows_weaker` says that a person lets
    tests be made weaker, `skips_suite` that they want no other tests run, `hint` what they know. With a
    `branch` the work happens in the worktree `folder` of the repository at `root`, which begins at the commit
    `base` of `base_branch`. All of it may use `cap`; `is_unpriced` says that a person lets models without a
    price work under it."""

    command: str
    attempts: int
    checks: tuple[str, ...] = ()
    repeat: int = 1
    timeout_s: float = 0.0
    hint: str = ""
    allows_weaker: bool = False
    skips_suite: bool = False
    root: str = ""
    folder: str = ""
    branch: str = ""
    base: Sha256 = ""
    base_branch: str = ""
    cap: Cap = Cap()
    is_unpriced: bool = False


class FaultPlace(Value, frozen=True):
    """A line that the output of a command points to. `is_recent` says that the file was changed lately."""

    path: str
    line: int
    is_recent: bool = False


class FaultReproduced(Event, frozen=True):
    """The command fails: `failed` of its `runs` on these files did. `places` are where its output points to,
    the most telling first, `tests` those that fail by name, `recent` what was changed lately."""

    runs: int
    failed: int
    exit_code: int | None = None
    tests: tuple[str, ...] = ()
    places: tuple[FaultPlace, ...] = ()
    recent: tuple[str, ...] = ()


class HypothesisJudged(Event, frozen=True):
    """What an agent suspected in an attempt, by its own number, and what came of it. `why` is what showed
    it."""

    attempt: int
    number: int
    text: str
    verdict: Verdict
    why: str = ""


class FixEnded(Event, frozen=True):
    """How it ended. `not_checked` is what nobody looked at, `left` are files that could not be put back after
    attempts in vain, `commit` the tip of the branch in a worktree."""

    outcome: FixOutcome
    detail: str
    attempt: int = 0
    files: tuple[str, ...] = ()
    changed_lines: int = 0
    not_checked: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    commit: Sha256 = ""
