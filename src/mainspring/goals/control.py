"""Tells the process that works on a goal to pause or stop, from another process; or records it, when nobody
works on it. The order lies beside the journal until the signal makes it be read.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Literal

from mainspring.errors import JournalOwned
from mainspring.events import GoalEnded, GoalPaused
from mainspring.journal.owner import owner_of
from mainspring.journal.store import Store

Order = Literal["pause", "stop"]
_FILE = "order"
_WITHIN_S = 30.0


async def tell(store: Store, session: str, order: Order, event: GoalPaused | GoalEnded) -> str:
    """Gives the order, and returns when it is on record; says what was done."""
    try:
        journal = await store.open(session)
    except JournalOwned:
        return await _signal(store, session, order)
    try:
        await journal.append(event)
    finally:
        await journal.close()
    return "nobody was at work on it; recorded"


def take_order(directory: Path) -> Order | None:
    """The order that somebody left for this process, once."""
    path = directory / _FILE
    try:
        text = path.read_text("utf-8")
        path.unlink()
    except FileNotFoundError:
        return None
    return "stop" if text == "stop" else "pause"


async def _signal(store: Store, session: str, order: Order) -> str:
    directory = store.directory(session)
    owner = owner_of(directory)
    if owner is None or not owner.is_alive:
        return "its process has just ended"
    if owner.host != os.uname().nodename:
        return f"it runs on {owner.host}; stop process {owner.pid} there"
    handle = os.pidfd_open(owner.pid)
    try:
        if owner_of(directory) != owner:
            return "its process has just ended"
        await asyncio.to_thread((directory / _FILE).write_text, order, "utf-8")
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        is_over = await _ends(handle)
    finally:
        os.close(handle)
    return "done" if is_over else f"told process {owner.pid}; it has not ended yet"


async def _ends(handle: int) -> bool:
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    loop.add_reader(handle, lambda: ended.done() or ended.set_result(None))
    try:
        done, _ = await asyncio.wait({ended}, timeout=_WITHIN_S)
        return bool(done)
    finally:
        loop.remove_reader(handle)
