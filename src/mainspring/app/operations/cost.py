"""What was spent, from the journals' index, without reading the journals whole."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

from mainspring.app.stores import sessions_of
from mainspring.catalog import Purpose, Spent, local_day
from mainspring.settings import Config

CostKey = Literal["model", "source", "session", "day"]


class CostRow(msgspec.Struct, frozen=True):
    """`key` is a model, a source, a session or a day."""

    key: str
    spent: Spent


class UnreadableSession(msgspec.Struct, frozen=True):
    """A session that cannot be read whole, so it may have cost more."""

    session: str
    problem: str


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent by each key, the dearest first (days in their order), and in all."""

    rows: tuple[CostRow, ...]
    total: Spent
    unreadable: tuple[UnreadableSession, ...] = ()


async def costs(config: Config, *, session: str = "", by: CostKey = "model", day: str = "") -> Costs:
    """What a session, or all of them, spent, on a day (`2026-01-31`, local time) or ever. What was
    reserved and never settled, because the run was killed, counts as spent."""
    store = sessions_of(config)
    wanted = await store.find(session) if session else ""
    totals: dict[str, Spent] = {}
    unreadable: list[UnreadableSession] = []
    for each in await store.spends():
        if wanted and each.id != wanted:
            continue
        if each.problem:
            unreadable.append(UnreadableSession(each.id, each.problem))
        for purpose, spent in each.spent.items():
            if not day or purpose.day == day:
                key = _key(by, each.id, purpose)
                totals[key] = totals.get(key, Spent()).plus(spent)
    total = Spent()
    for spent in totals.values():
        total = total.plus(spent)
    rows = sorted(totals.items(), key=lambda row: row[0] if by == "day" else (-row[1].usd, row[0]))
    return Costs(
        rows=tuple(CostRow(key, spent) for key, spent in rows), total=total, unreadable=tuple(unreadable)
    )


def today() -> str:
    """The day that the clock of this machine shows."""
    return local_day(time.time_ns() // 1000)


def _key(by: CostKey, session: str, purpose: Purpose) -> str:
    match by:
        case "session":
            return session
        case "day":
            return purpose.day
        case "source":
            return purpose.source
        case "model":
            return purpose.model
