"""What a person is asked about a call, and what people answer."""

from typing import Annotated

from mainspring.events.base import Dropped, Event, Id, JsonText, Sha256
from mainspring.events.values import (
    SCOPES,
    AskedScript,
    BlockedBy,
    CapScope,
    Decision,
    Offer,
    Origin,
    Quorum,
    Scope,
)


class ApprovalAsked(Event, frozen=True):
    """A person must decide. The answer is bound to exactly these arguments by their hash. Without `offers` a
    yes for more than once covers this very call and no other. `rule` is what asked, `blocked_by` its kind.
    `estimate_usd` is None without a known price; `remaining_usd` is what is left of the tightest cap. A yes
    takes all `quorums` of a team, or one person without any; `owners` are whose commands led to the call."""

    call: Id
    tool: str
    arguments: JsonText
    arguments_sha256: Sha256
    reason: str = ""
    offers: Annotated[tuple[Offer, ...], Dropped()] = ()
    is_editable: bool = True
    scopes: tuple[Scope, ...] = SCOPES
    rule: str = ""
    blocked_by: BlockedBy = ""
    estimate_usd: float | None = None
    remaining_usd: float | None = None
    cap_usd: float | None = None
    cap_scope: CapScope | None = None
    scripts: tuple[AskedScript, ...] = ()
    quorums: tuple[Quorum, ...] = ()
    owners: tuple[str, ...] = ()


class ApprovalAdded(Event, frozen=True):
    """One of several people said yes; the question stays open for the others. The yes of the last one is
    `ApprovalGiven`."""

    call: Id
    arguments_sha256: Sha256
    person: str
    scope: Scope = "once"
    pattern: str = ""
    expires_us: int | None = None
    feedback: str = ""
    origin: Origin | None = None


class ApprovalGiven(Event, frozen=True):
    """`pattern` is what a person allowed in place of what was offered. `agreed` are the people who said yes,
    where a team wants to know; then it reaches as far as all of them said."""

    call: Id
    arguments_sha256: Sha256
    decision: Decision
    by: str = "user"
    feedback: str = ""
    edited_arguments: JsonText | None = None
    scope: Scope = "once"
    pattern: str = ""
    expires_us: int | None = None
    origin: Origin | None = None
    agreed: tuple[str, ...] = ()
