"""Who may write: a row with a number that grows with every owner, and an end by the database's clock.

One kind of row for sessions and for named locks. An owner renews it before it ends; who finds it ended, or
knows that its process on this machine is gone, takes it with the next number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from mainspring.disk.log import log
from mainspring.disk.owner import Owner, is_gone, refusal, this_process
from mainspring.errors import JournalError, JournalOwned, JournalUnreachable
from mainspring.journal.postgres.connection import StoreConnection

_RENEWALS = 4
"""How often it is renewed before it would end."""

_TAKE = """
INSERT INTO mainspring.leases AS lease (name, epoch, owner, until)
VALUES ($1, 1, $2, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE
SET epoch = lease.epoch + 1, owner = $2, until = clock_timestamp() + make_interval(secs => $3)
WHERE lease.owner IS NULL OR lease.until <= clock_timestamp() OR lease.epoch = $4
RETURNING epoch
"""
_RENEW = """
UPDATE mainspring.leases SET until = clock_timestamp() + make_interval(secs => $3)
WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND until > clock_timestamp() RETURNING epoch
"""
_HELD = """
SELECT epoch FROM mainspring.leases
WHERE name = $1 AND epoch = $2 AND owner IS NOT NULL AND until > clock_timestamp() FOR SHARE
"""
GIVE_BACK = "UPDATE mainspring.leases SET owner = NULL WHERE name = $1 AND epoch = $2"
_EPOCH = "SELECT epoch FROM mainspring.leases WHERE name = $1"
_LOOK = "SELECT epoch, owner, until > clock_timestamp() FROM mainspring.leases WHERE name = $1"


def of_session(session: str) -> str:
    return f"session/{session}"


async def take(connection: Any, name: str, lease_s: float, *, mine: bytes, shown: str) -> int:
    """The number under which this process may write; `JournalOwned` names the process that has it. `mine`
    is a `record` that stands for this opening alone, so that doing this again does no harm."""
    row: Any = await connection.fetchrow(_LOOK, name) or (0, None, False)
    epoch, recorded, _ = row
    if recorded == mine:
        return epoch
    owner = owner_in(row)
    gone = epoch if owner is not None and not owner.is_alive else 0
    taken = await connection.fetchval(_TAKE, name, mine, lease_s, gone)
    if taken is None:
        raise refusal(shown, await look(connection, name))
    return taken


def record() -> bytes:
    """This process, as the owner from now on."""
    return msgspec.json.encode(this_process())


async def renew(connection: Any, name: str, epoch: int, lease_s: float) -> bool:
    """Whether this process still has it; then it has it for another while."""
    return await connection.fetchval(_RENEW, name, epoch, lease_s) is not None


async def require_day(connection: Any, name: str, epoch: int) -> None:
    """Raises when somebody else has taken the day since; that its time is over does no harm."""
    if await connection.fetchval(_EPOCH, name) != epoch:
        raise JournalUnreachable(
            "This process stalled while it set money of the day aside; others may have too.",
            remedy="Nothing was spent. Resume the session.",
        )


async def keep_renewed(connection: StoreConnection, name: str, epoch: int) -> None:
    """Renews it until it is lost, or this is cancelled. A database that cannot be reached is tried again."""
    lease_s = connection.address.lease_s
    is_held = True
    while is_held:
        await asyncio.sleep(lease_s / _RENEWALS)
        try:
            is_held = await connection.use(lambda c: renew(c, name, epoch, lease_s))
        except JournalError as error:
            log("lease not renewed", name=name, error=error.message)
    log("lease lost", name=name)


def fenced(
    session: str, epoch: int, statement: str, *given: object
) -> Callable[[Any], Coroutine[Any, Any, None]]:
    """Changes a session in one transaction, unless somebody else has taken it."""

    async def change(connection: Any) -> None:
        await require(connection, session, epoch)
        await connection.execute(statement, session, *given)

    return change


async def require(connection: Any, session: str, epoch: int) -> None:
    """Raises when somebody else has taken the session; nobody does until the transaction ends."""
    if await connection.fetchval(_HELD, of_session(session), epoch) is None:
        raise lost(session)


async def give_back(connection: Any, name: str, epoch: int) -> None:
    await connection.execute(GIVE_BACK, name, epoch)


async def look(connection: Any, name: str) -> Owner | None:
    """Who has it, or had it when its time ran out (`is_alive` tells which)."""
    return owner_in(await connection.fetchrow(_LOOK, name))


def owner_in(row: Any) -> Owner | None:
    """The owner in a row of number, record and whether its time is left."""
    if row is None or row[1] is None:
        return None
    owner = msgspec.json.decode(row[1], type=Owner)
    return msgspec.structs.replace(owner, is_alive=row[2] and not is_gone(owner))


def lost(session: str) -> JournalOwned:
    return JournalOwned(
        f"This process is no longer the owner of session {session}; it wrote nothing.",
        remedy="Resume the session when nobody else works on it.",
    )
