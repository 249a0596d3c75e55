"""What happens when a change is reviewed by an agent with a fresh context: its beginning, its one end with
what was found, and what people or later changes made of that."""

from typing import Literal

from mainspring.events.base import Event, Id, Sha256
from mainspring.events.values import Origin, Value

Severity = Literal["high", "medium", "low"]
"""How bad a finding of a review is."""

ReviewCause = Literal["asked", "turn", "goal"]
"""Why a review is made: a person asked for it, or a turn or a goal wants to be done."""


class ReviewedFile(Value, frozen=True):
    """A file of the change, with the content that was reviewed; without one it was deleted, or not here."""

    path: str
    sha256: Sha256 = ""


class ReviewFinding(Value, frozen=True):
    """Something wrong in a change. `quote` is the code that it is about, as it stands at `line`; `why` is
    what happens, `reproduction` how to see it, `verified` how the reviewer made sure. `confidence` is what
    the reviewer thinks of it itself, from 0 to 100, which is no evidence. `problem` says why it could not be
    verified. `is_gone` says that the code stands in the diff alone: the change removed it, or was not applied
    here."""

    file: str
    line: int
    severity: Severity
    title: str
    why: str
    quote: str = ""
    reproduction: str = ""
    verified: str = ""
    confidence: int | None = None
    problem: str = ""
    is_gone: bool = False


class ReviewStarted(Event, frozen=True):
    """A change is about to be reviewed in the session `review`, which may not exist yet. `subject` says which
    change that is. Without a `ReviewEnded` nobody knows what it would have found."""

    review: Id
    subject: str
    cause: ReviewCause = "asked"
    files: tuple[ReviewedFile, ...] = ()


class ReviewEnded(Event, frozen=True):
    """What was found. Every one of `findings` was verified: its file, its line and the code that it quotes
    are there. Those in `unverified` could not be. `not_reviewed` names what was left out. `confidence` is
    what the reviewer thinks of its own review, from 0 to 100, for `reasons`: it is compared with what becomes
    of the change, and is no evidence. A review that did not come to its end says so in `failure`."""

    review: Id
    summary: str = ""
    findings: tuple[ReviewFinding, ...] = ()
    unverified: tuple[ReviewFinding, ...] = ()
    not_reviewed: tuple[str, ...] = ()
    confidence: int | None = None
    reasons: tuple[str, ...] = ()
    cost_usd: float = 0.0
    failure: str = ""


class FindingSettled(Event, frozen=True):
    """A person says what became of a finding of a review, by its number: it was right and is `fixed`, or it
    was none and is `dismissed`."""

    review: Id
    number: int
    verdict: Literal["fixed", "dismissed"]
    why: str = ""
    origin: Origin | None = None
