"""What whoever runs children is given: how the session of one is opened, and how one with checks works."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import msgspec

from mainspring.agents.files import Agent
from mainspring.approvals.questions import Approver
from mainspring.events import ChildStarted, Recorded
from mainspring.session.session import Session


class ChildPlace(msgspec.Struct, frozen=True):
    """Where a child works, and what it may read beside that."""

    folder: Path
    readable: tuple[Path, ...] = ()


class ChildOpener(Protocol):
    """Opens the session of a child."""

    def __call__(
        self, started: ChildStarted, agent: Agent, place: ChildPlace, approver: Approver, *, is_new: bool
    ) -> AbstractAsyncContextManager[Session]: ...


class CheckedTurns(Protocol):
    """Has a child work on its task, or go on with it, and runs its checks."""

    def __call__(self, session: Session, started: ChildStarted) -> AsyncGenerator[Recorded]: ...
