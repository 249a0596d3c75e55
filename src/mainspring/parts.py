"""What a session is built from: the ports it is given, and nothing that it keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from mainspring.approvals import Policy
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.secrets import Vault
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    ChosenBy,
    Compacted,
    Effort,
    Event,
    Limits,
    ModelChosen,
    PromptPart,
)
from mainspring.journal import Journal
from mainspring.models import Model
from mainspring.routing import Router
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.tools.toolbox import Toolbox
from mainspring.turn import Day, Engine, Turn
from mainspring.upkeep import COMPACT_AT
from mainspring.waits.reach import Reach
from mainspring.workspace import TimeMachine, Unrecorded
from mainspring.workspace.instructions import NestedInstructions
from mainspring.workspace.memory import Memory


class Approver(Protocol):
    """Who answers when a call needs a person. Questions of one step come side by side."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class Compactor(Protocol):
    """Who makes a long history short."""

    async def __call__(self, turn: Turn, journal: Journal, *, reason: str, until: int) -> Compacted | None:
        """What to record about the history up to an event, or None when nothing can be left out."""
        ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is built from. `beginning` is done once, when the session is new, and recorded with its
    start."""

    model: Model
    fallbacks: tuple[Model, ...] = ()
    tier: str = ""
    tiers: Mapping[str, Model] = {}
    chosen_by: ChosenBy = "user"
    router: Router | None = None
    connect: Callable[[str], Model] | None = None
    effort: Effort | None = None
    toolbox: Toolbox
    policy: Policy
    sandbox: Callable[[], Awaitable[Sandbox]]
    files: Files
    engine: Engine
    engine_name: str = "builtin"
    workspace: str
    mode: str
    system: str
    prompt: tuple[PromptPart, ...] = ()
    nested: NestedInstructions | None = None
    memory: Memory | None = None
    level: str = ""
    limits: Limits = Limits()
    time_machine: TimeMachine = Unrecorded()
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None
    vault: Vault | None = None
    grants: GrantFile | None = None
    processes: Path | None = None
    approver: Approver | None = None
    approval_timeout_s: float | None = None
    compactor: Compactor | None = None
    parent: Turn | None = None
    day: Day | None = None
    compact_at: float = COMPACT_AT
    reach: Reach = Reach()

    @property
    def chosen(self) -> ModelChosen:
        names = tuple(model.name for model in self.fallbacks)
        return ModelChosen(model=self.model.name, fallbacks=names, tier=self.tier, by=self.chosen_by)
