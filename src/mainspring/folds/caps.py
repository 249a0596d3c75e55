"""What limits mean for each scope: the plain fields and the caps of a scope are one cap. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import msgspec

from mainspring.events import Cap, CapScope, Limits

OWN_SCOPES: tuple[CapScope, ...] = ("turn", "session", "goal")
"""The scopes that one journal knows all about."""

UNCAPPED = Cap()


class Caps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for every run, by scope; options of a run replace them."""

    turn: Cap = Cap()
    """Limits of one turn."""
    session: Cap = Cap()
    """Limits of one session, over all its turns."""
    goal: Cap = Cap()
    """Limits of one goal, over all its iterations."""
    day: Cap = Cap()
    """Limits of all sessions together in one day of local time: usd, tokens or steps."""


class TeamLeft(msgspec.Struct, frozen=True, kw_only=True):
    """A cap of a team, what is spent of it, what it is about, and the rule that says so."""

    cap_usd: float
    spent_usd: float
    about: str
    rule: str


class TeamCaps(Protocol):
    """What a team lets people spend, whatever their own limits are."""

    async def is_capped(self) -> bool:
        """Whether it caps anything; costs little."""
        ...

    async def left(self) -> TeamLeft | None:
        """The cap that leaves the least; None when there is none."""
        ...


def cap_of(limits: Limits, scope: CapScope) -> Cap:
    """The cap of a scope, the plain fields taken in; where both are set the lower one holds."""
    match scope:
        case "turn":
            plain = Cap(steps=limits.max_steps, calls=limits.max_calls, time_s=limits.timeout_s)
            return _lower(plain, limits.turn)
        case "session":
            return _lower(Cap(usd=limits.max_cost_usd, tokens=limits.max_tokens), limits.session)
        case "goal":
            return limits.goal
        case "day":
            return limits.day


@lru_cache(maxsize=16)
def own_caps(limits: Limits) -> tuple[tuple[CapScope, Cap], ...]:
    """The scopes that one journal knows all about and that are capped. Asked many times in each step."""
    return tuple((scope, cap) for scope in OWN_SCOPES if (cap := cap_of(limits, scope)) != UNCAPPED)


def relimited(limits: Limits, told: Limits) -> Limits:
    """The limits of a turn once a person has told others: what they did not tell stays."""
    return Limits(
        turn=filled(cap_of(told, "turn"), cap_of(limits, "turn")),
        session=filled(cap_of(told, "session"), cap_of(limits, "session")),
        goal=filled(told.goal, limits.goal),
        day=filled(told.day, limits.day),
    )


def lasting(told: Limits, before: Limits) -> Limits:
    """What is told now, and what was told before for the whole session where nothing is told now."""
    is_usd_told = told.max_cost_usd is not None or told.session.usd is not None
    is_tokens_told = told.max_tokens is not None or told.session.tokens is not None
    return msgspec.structs.replace(
        told,
        max_cost_usd=told.max_cost_usd if is_usd_told else before.max_cost_usd,
        max_tokens=told.max_tokens if is_tokens_told else before.max_tokens,
    )


def filled(told: Cap, usual: Cap) -> Cap:
    """A cap as told, and the usual one where nothing was told."""
    chosen = ((name, getattr(told, name)) for name in Cap.__struct_fields__)
    return Cap(**{name: getattr(usual, name) if value is None else value for name, value in chosen})


def is_spend_capped(limits: Limits) -> bool:
    """Whether any scope caps money or tokens."""
    caps = (*(cap for _, cap in own_caps(limits)), limits.day)
    return any(cap.usd is not None or cap.tokens is not None for cap in caps)


def is_money_capped(limits: Limits) -> bool:
    return any(cap_of(limits, scope).usd is not None for scope in (*OWN_SCOPES, "day"))


def _lower(first: Cap, second: Cap) -> Cap:
    if second == UNCAPPED:
        return first
    lowest = {
        name: min((value for value in values if value is not None), default=None)
        for name in Cap.__struct_fields__
        if (values := (getattr(first, name), getattr(second, name)))
    }
    return Cap(**lowest)
