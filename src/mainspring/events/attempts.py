"""What happens when one task is tried several times: how replies are sampled, each attempt, and which one
was kept."""

from mainspring.events.base import Event, Id, Sha256
from mainspring.events.values import Cap, Ending, Value

MAX_ATTEMPTS = 20


class SamplingChosen(Event, frozen=True):
    """How replies are sampled from the next step on, where the model takes that; None is its own choice."""

    temperature: float | None = None
    seed: int | None = None
    reason: str = ""


class AlternativeTried(Event, frozen=True):
    """The tests failed after the reply of `step`, and its alternative of this `number` is tried: a `new` line
    of a file in the place of the `old` one, or before it where it `is_added`. What the tests say follows."""

    step: int
    number: int
    path: str = ""
    line: int = 0
    old: str = ""
    new: str = ""
    is_added: bool = False


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
    `is_usual` says that nobody asked for them.

    With a `base` they are a farm: each attempt at `task` is a session of its own, in a worktree of its own
    that begins at that commit of `base_branch`, and `judge` is the model that decides between equals, in a
    session of its own. `is_unpriced` says that a person let models without a price work under the cap."""

    attempts: int
    checks: tuple[str, ...] = ()
    cap: Cap = Cap()
    before: SessionUse = SessionUse()
    is_usual: bool = False
    task: str = ""
    base: Sha256 = ""
    base_branch: str = ""
    judge: str = ""
    judge_session: Id = ""
    is_unpriced: bool = False


class AttemptStarted(Event, frozen=True):
    """`before` is what the session had used by then. In a farm `session` is the attempt's own, recorded
    before there is such a session, `folder` its worktree, and `hint` what it alone is told."""

    attempt: int
    before: SessionUse = SessionUse()
    session: Id = ""
    model: str = ""
    hint: str = ""
    branch: str = ""
    folder: str = ""


class AttemptEnded(Event, frozen=True):
    """What came of an attempt: how its turn ended, which checks passed, what it changed (`changed_lines` is
    the size of the diff), and what it used. In a farm `commit` is the tip of its branch, empty when it
    changed nothing, and `risks` are what a person should look at."""

    attempt: int
    ending: Ending
    detail: str = ""
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    changed_lines: int = 0
    used: SessionUse = SessionUse()
    commit: Sha256 = ""
    risks: tuple[str, ...] = ()

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
