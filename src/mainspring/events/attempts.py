"""What happens when one task is tried several times: how replies are sampled, each attempt, and which one
was kept."""

from __future__ import annotations

from mainspring.events.base import Event
from mainspring.events.values import Cap, Ending, Value

MAX_ATTEMPTS = 20


class SamplingChosen(Event, frozen=True):
    """How replies are sampled from the next step on, where the model takes that; None is its own choice."""

    temperature: float | None = None
    seed: int | None = None
    reason: str = ""


class SessionUse(Value, frozen=True):
    """What a session had used by then, as its ledger counts it."""

    usd: float = 0.0
    tokens: int = 0
    steps: int = 0
    calls: int = 0
    time_s: float = 0.0


class AttemptsStarted(Event, frozen=True):
    """What is said next is tried up to `attempts` times, each from the conversation and the files as they
    are here. One is enough when every command of `checks` exits with 0; without checks, when its turn is
    done. All of them together may use `cap`, beside the caps of the session; `before` was used before.
    `is_usual` says that nobody asked for them."""

    attempts: int
    checks: tuple[str, ...] = ()
    cap: Cap = Cap()
    before: SessionUse = SessionUse()
    is_usual: bool = False


class AttemptStarted(Event, frozen=True):
    """`before` is what the session had used by then."""

    attempt: int
    before: SessionUse = SessionUse()


class AttemptEnded(Event, frozen=True):
    """What came of an attempt: how its turn ended, which checks passed, what it changed (`changed_lines` is
    the size of the diff), and what it used."""

    attempt: int
    ending: Ending
    detail: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    changed_lines: int = 0
    used: SessionUse = SessionUse()

    @property
    def is_passed(self) -> bool:
        return not self.failed and (bool(self.passed) or self.ending == "done")


class AttemptsEnded(Event, frozen=True):
    """Conversation and files are those of the attempt `kept`. The others stay in the journal: `end_seqs` are
    the events at which the attempts ended, and going back to one of these takes that attempt."""

    kept: int
    reason: str
    is_passed: bool = False
    ending: Ending = "done"
    end_seqs: tuple[int, ...] = ()
