"""A session that works for another one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.session.session import Session


class ChildSession(msgspec.Struct, frozen=True):
    """What `mainspring.open` is told of a session that works for its `parent` as an agent: its id is on
    record there before there is such a session."""

    parent: Session
    session: str
    agent: str
    readable: tuple[Path, ...] = ()
    """What it may read beside its workspace: the objects that its repository borrows."""
