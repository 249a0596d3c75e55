"""What a session is built from: the ports it is given, and nothing that it keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from mainspring.approvals import Policy
from mainspring.events import Compacted, Limits
from mainspring.journal import Journal
from mainspring.models import Model
from mainspring.questions import Approver
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.tools.toolbox import Toolbox
from mainspring.turn import Engine, Turn
from mainspring.upkeep import COMPACT_AT


class Compactor(Protocol):
    """Who makes a long history short."""

    async def __call__(self, turn: Turn, journal: Journal, *, reason: str, until: int) -> Compacted | None:
        """What to record about the history up to an event, or None when nothing can be left out."""
        ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is built from."""

    model: Model
    toolbox: Toolbox
    policy: Policy
    sandbox: Callable[[], Awaitable[Sandbox]]
    files: Files
    engine: Engine
    workspace: str
    mode: str
    system: str
    limits: Limits = Limits()
    approver: Approver | None = None
    compactor: Compactor | None = None
    compact_at: float = COMPACT_AT
