"""What a session begins with, and what a process records when it takes the journal over."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mainspring import __version__
from mainspring.disk.scan import Scan
from mainspring.errors import UsageError
from mainspring.events import (
    RESUMED_SOURCE,
    ChosenBy,
    Effort,
    EffortChosen,
    EngineChosen,
    Event,
    Limits,
    ModeChosen,
    ModelChosen,
    NoteAdded,
    Profile,
    PromptPart,
    PromptSet,
    SessionResumed,
    SessionStarted,
    ToolSpec,
)
from mainspring.folds.caps import relimited
from mainspring.folds.state import State
from mainspring.journal import JournalReader
from mainspring.models import Model
from mainspring.models.pool import ModelPool
from mainspring.tools.output import OutputType
from mainspring.waits.describe import duration

if TYPE_CHECKING:
    from mainspring.turns.router import Router

_BUILTIN = "builtin"


class SessionModels(msgspec.Struct, frozen=True, kw_only=True):
    """The models of a session: the one it begins with, those it goes on with when that fails, and those of
    its tiers. `connect` makes one that is named later."""

    model: Model
    fallbacks: tuple[Model, ...] = ()
    tier: str = ""
    tiers: Mapping[str, Model] = {}
    chosen_by: ChosenBy = "user"
    router: Router | None = None
    connect: Callable[[str], Model] | None = None

    @property
    def all(self) -> tuple[Model, ...]:
        return (self.model, *self.fallbacks, *self.tiers.values())

    @property
    def chosen(self) -> ModelChosen:
        names = tuple(model.name for model in self.fallbacks)
        return ModelChosen(model=self.model.name, fallbacks=names, tier=self.tier, by=self.chosen_by)

    def tier_of(self, name: str, model: str) -> str:
        """The tier that was named, or that a model belongs to; empty when it belongs to none."""
        return next((tier for tier, its in self.tiers.items() if name == tier or model == its.name), "")

    def pool(self, ready: Callable[[Model], Awaitable[Model]] | None = None) -> ModelPool:
        """All of them, to be taken by name; `ready` prepares one before it is used."""
        return ModelPool(self.all[0], self.all[1:], connect=self.connect, ready=ready)


def output_type(kind: Any, engine: str) -> OutputType | None:
    """What answers must be, when a type or a schema was given."""
    if kind is None or isinstance(kind, OutputType):
        return kind
    if engine != _BUILTIN:
        raise UsageError(
            f"The engine {engine} cannot be told what form its answer must have.",
            remedy="Use the built-in engine for structured output.",
        )
    return OutputType(kind)


_OLD_S = 300.0
_LOOKED_BACK = 20


async def age_note(journal: JournalReader, workspace: Path, now_us: int, scan: Scan) -> list[Event]:
    """What a resumed session and its person are told: how old it is, and what changed since."""
    last = await journal.read(after=max(await journal.last_seq() - _LOOKED_BACK, 0))
    # What a person notes while nobody works is no work.
    worked = [
        each for each in last if not (isinstance(each.event, NoteAdded) and each.event.source == "user")
    ]
    left_us = (worked or last)[-1].time_us if last else now_us
    age_s = (now_us - left_us) / 1e6
    if age_s < _OLD_S:
        return []
    changes_since = import_module("mainspring.workspace.since").changes_since
    changes = await asyncio.to_thread(changes_since, workspace, left_us, scan)
    text = f"The session was left {duration(age_s)} ago. {changes}".strip()
    return [NoteAdded(text=text, source=RESUMED_SOURCE)]


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded when a session is opened. `given_limits` are those that a person gave now: they count
    for an open turn as well. `beginning` is done once, for a new session, and recorded with its start, as are
    `warnings`. With an `agent` the session works for its `parent`. `moved` says how the workspace came,
    `project` what it is a copy of; so many of its first events were `imported`."""

    models: SessionModels
    workspace: str
    mode: str
    level: str = ""
    system: str
    context: str = ""
    prompt: tuple[PromptPart, ...] = ()
    profile: Profile = "standard"
    engine_name: str = _BUILTIN
    effort: Effort | None = None
    given_limits: Limits = Limits()
    warnings: tuple[str, ...] = ()
    allows_home: bool = False
    parent: str = ""
    agent: str = ""
    beginning: Callable[[], Awaitable[Sequence[Event]]] | None = None
    moved: tuple[Event, ...] = ()
    project: str = ""
    imported: int = 0

    async def events(self, state: State, session: str, tools: tuple[ToolSpec, ...]) -> list[Event]:
        """What a process records when it takes a journal over that says `state`."""
        events: list[Event] = []
        is_new = not state.session
        if is_new:
            started = SessionStarted(
                session=session,
                workspace=self.workspace,
                version=__version__,
                parent=self.parent,
                allows_home=self.allows_home,
                agent=self.agent,
                project=self.project,
            )
            events.append(started)
            prompt = PromptSet(system=self.system, tools=tools, parts=self.prompt, context=self.context)
            events.append(msgspec.structs.replace(prompt, profile=self.profile))
        else:
            is_relimited = state.is_turn_open and self.given_limits != Limits()
            limits = relimited(state.limits, self.given_limits) if is_relimited else None
            host, pid = socket.gethostname(), os.getpid()
            resumed = SessionResumed(version=__version__, host=host, pid=pid, limits=limits)
            events += (msgspec.structs.replace(resumed, allows_home=self.allows_home), *self.moved)
        chosen = self.models.chosen
        if (chosen.model, chosen.fallbacks, chosen.tier) != (state.model, state.fallbacks, state.task.tier):
            events.append(chosen)
        if self.engine_name != (state.engine.engine or _BUILTIN):
            events.append(EngineChosen(engine=self.engine_name))
        if self.effort not in (None, state.effort):
            events.append(EffortChosen(effort=self.effort))
        if (self.mode, self.level) != (state.mode, state.level):
            events.append(ModeChosen(mode=self.mode, level=self.level))
        more = await self.beginning() if is_new and self.beginning else ()
        notes = (NoteAdded(text=text, source="mainspring") for text in self.warnings)
        return [*events, *more, *(notes if is_new else ())]
