"""What a session is built from: the ports it is given, and nothing that it keeps."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from mainspring import __version__
from mainspring.approvals import Policy
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.inbox import Inbox
from mainspring.catalog import Day
from mainspring.context.guards import IDLE_STEPS
from mainspring.events import (
    SCOPES,
    ApprovalAsked,
    ApprovalGiven,
    ChosenBy,
    Compacted,
    Effort,
    EffortChosen,
    EngineChosen,
    Event,
    Limits,
    ModeChosen,
    ModelChosen,
    PromptPart,
    PromptSet,
    Scope,
    SessionResumed,
    SessionStarted,
)
from mainspring.folds.caps import relimited
from mainspring.folds.state import State
from mainspring.journal import JournalReader
from mainspring.models import Model
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.tools.output import OutputType
from mainspring.tools.toolbox import Toolbox
from mainspring.turns.router import Router
from mainspring.turns.runtime import Engine, Turn
from mainspring.turns.upkeep import COMPACT_AT
from mainspring.waits.reach import Reach
from mainspring.workspace import TimeMachine, Unrecorded
from mainspring.workspace.instructions import NestedInstructions
from mainspring.workspace.memory import ProjectMemory


class Approver(Protocol):
    """Who answers when a call needs a person. Questions of one step come side by side."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class HistoryCompactor(Protocol):
    """Who makes a long history short."""

    async def __call__(
        self, turn: Turn, journal: JournalReader, *, reason: str, until: int
    ) -> Compacted | None:
        """What to record about the history up to an event, or None when nothing can be left out."""
        ...


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What a session is built from. `beginning` is done once, when the session is new, and recorded with its
    start. `told` are those of the limits that a person gave now: they count for an open turn as well.
    `parent` is the session whose caps this one shares."""

    model: Model
    fallbacks: tuple[Model, ...] = ()
    tier: str = ""
    tiers: Mapping[str, Model] = {}
    chosen_by: ChosenBy = "user"
    router: Router | None = None
    connect: Callable[[str], Model] | None = None
    ready: Callable[[Model], Awaitable[Model]] | None = None
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
    memory: ProjectMemory | None = None
    level: str = ""
    limits: Limits = Limits()
    told: Limits = Limits()
    time_machine: TimeMachine = Unrecorded()
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None
    grants: GrantFile | None = None
    processes: Path | None = None
    approver: Approver | None = None
    approval_timeout_s: float | None = None
    inbox: Inbox | None = None
    compactor: HistoryCompactor | None = None
    parent: Turn | None = None
    day: Day | None = None
    compact_at: float = COMPACT_AT
    idle_steps: int = IDLE_STEPS
    reach: Reach = Reach()
    output: OutputType | None = None

    @property
    def chosen(self) -> ModelChosen:
        names = tuple(model.name for model in self.fallbacks)
        return ModelChosen(model=self.model.name, fallbacks=names, tier=self.tier, by=self.chosen_by)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """How far a person's yes can reach."""
        return SCOPES if self.grants else SCOPES[:1]

    def tier_of(self, name: str, model: str) -> str:
        """The tier that was named, or that a model belongs to; empty when it belongs to none."""
        return next((tier for tier, its in self.tiers.items() if name == tier or model == its.name), "")


def opening(parts: Parts, state: State, session: str) -> list[Event]:
    """What a process records when it takes a journal over."""
    events: list[Event] = []
    if not state.session:
        events.append(SessionStarted(session=session, workspace=parts.workspace, version=__version__))
        events.append(PromptSet(system=parts.system, tools=parts.toolbox.specs, parts=parts.prompt))
    else:
        is_told = state.is_turn_open and parts.told != Limits()
        limits = relimited(state.limits, parts.told) if is_told else None
        host, pid = socket.gethostname(), os.getpid()
        events.append(SessionResumed(version=__version__, host=host, pid=pid, limits=limits))
    chosen = parts.chosen
    if (chosen.model, chosen.fallbacks, chosen.tier) != (state.model, state.fallbacks, state.task.tier):
        events.append(chosen)
    if parts.engine_name != (state.engine.engine or "builtin"):
        events.append(EngineChosen(engine=parts.engine_name))
    if parts.effort not in (None, state.effort):
        events.append(EffortChosen(effort=parts.effort))
    if (parts.mode, parts.level) != (state.mode, state.level):
        events.append(ModeChosen(mode=parts.mode, level=parts.level))
    return events
