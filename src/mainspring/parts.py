"""What a session is built from: the ports it is given, and nothing that it keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from mainspring.approvals import Policy
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.secrets import Vault
from mainspring.events import ApprovalAsked, ApprovalGiven, Compacted, Event, Limits
from mainspring.models import Model
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.tools.toolbox import Toolbox
from mainspring.turn import Engine, Turn
from mainspring.workspace import TimeMachine, Unrecorded


class Approver(Protocol):
    """Who answers when a call needs a person. Questions of one step come side by side."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class Compactor(Protocol):
    """Who makes a long history short."""

    async def __call__(self, turn: Turn) -> Compacted: ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is built from. `beginning` is done once, when the session is new, and recorded with its
    start."""

    model: Model
    toolbox: Toolbox
    policy: Policy
    sandbox: Callable[[], Awaitable[Sandbox]]
    files: Files
    engine: Engine
    workspace: str
    mode: str
    system: str
    level: str = ""
    limits: Limits = Limits()
    time_machine: TimeMachine = Unrecorded()
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None
    vault: Vault | None = None
    grants: GrantFile | None = None
    approver: Approver | None = None
    approval_timeout_s: float | None = None
    compactor: Compactor | None = None
