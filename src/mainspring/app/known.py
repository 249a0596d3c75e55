"""What is known of a session before anybody chooses: what its journal says, and where it works."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from mainspring.app.imported import narrower
from mainspring.app.team_guard import DAEMON
from mainspring.catalog import Sessions
from mainspring.context.history import read_all
from mainspring.errors import UsageError
from mainspring.events import (
    EngineChosen,
    Event,
    Limits,
    MachineChosen,
    ModeChosen,
    ModelChosen,
    Origin,
    Profile,
    PromptSet,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    TurnStarted,
    UserSaid,
)
from mainspring.folds.caps import is_money_capped
from mainspring.journal import JournalReader, last_event
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

_E = TypeVar("_E", bound=Event)
_N = TypeVar("_N", int, float)


class KnownSession(msgspec.Struct, frozen=True):
    """What a session is known to work with before anybody chooses. `limits` are what it was told to spend in
    its whole life; `machine` is where its commands run, empty for here; `is_unpriced` says that a person let
    it work under them without a price, `allows_home` that they let it work in a folder that holds their home,
    settings or data; `owner` is who said last what it works on. `moved` says how its workspace came here,
    `project` what folder that is a copy of; with a `store`, machines share it. Model, mode and limits of one
    that was imported may have been chosen elsewhere, in its first `imported` events."""

    place: Path
    limits: Limits = Limits()
    machine: str = ""
    is_unpriced: bool = False
    model: ModelChosen | None = None
    mode: str = ""
    engine: EngineChosen | None = None
    allows_home: bool = False
    profile: Profile | None = None
    owner: Origin | None = None
    moved: tuple[Event, ...] = ()
    store: Sessions | None = None
    project: Path | None = None
    is_model_imported: bool = False
    is_mode_imported: bool = False
    are_limits_imported: bool = False
    imported: int = 0

    @property
    def project_folder(self) -> Path:
        """The folder that the work is about."""
        return self.project or self.place

    def mode_or(self, usual: str) -> str:
        """The mode to go on in; one that was chosen elsewhere only if it allows less than what is usual."""
        return narrower(self.mode, usual) if self.is_mode_imported else self.mode or usual

    def told(self, config: Config) -> Limits:
        """What it was told to spend; what it was told elsewhere only within the caps that are usual here."""
        if not self.are_limits_imported:
            return self.limits
        caps = config.settings.caps.session
        usd, tokens = _least(self.limits.max_cost_usd, caps.usd), _least(self.limits.max_tokens, caps.tokens)
        return msgspec.structs.replace(self.limits, max_cost_usd=usd, max_tokens=tokens)


async def recall(journal: JournalReader, vault: Vault, *, imported: int = 0) -> KnownSession:
    """What a session works with, as its journal says, with the names and paths as they are. Of the first
    events, so many of which were `imported`, nothing counts that allows more than is usual here."""
    ours = partial(_last_after, journal, imported)
    started, spend = await last_event(journal, SessionStarted), await ours(SpendReserved)
    model, mode = await journal.last("ModelChosen"), await last_event(journal, ModeChosen)
    engine, prompt = await ours(EngineChosen), await last_event(journal, PromptSet)
    machine = await ours(MachineChosen)
    if started is None:
        raise UsageError("This session is empty: nothing was recorded in it.")
    turn, limits = await _limits_given_before(journal)
    resumed = await ours(SessionResumed)
    is_mode_ours = await ours(ModeChosen) is not None
    is_said_here = not imported or await ours(UserSaid) is not None
    return KnownSession(
        limits=limits,
        machine=machine.machine if machine else "",
        is_unpriced=spend is not None and not spend.priced and is_money_capped(limits),
        place=workspace_at(
            Path(vault.expand(started.workspace)),
            remedy=f"Go on in another one: mainspring fork {started.session} -C FOLDER",
        ),
        model=expanded(model.event, vault) if model and isinstance(model.event, ModelChosen) else None,
        mode=mode.level or mode.mode if mode else "",
        engine=expanded(engine, vault) if engine else None,
        allows_home=(not imported and started.allows_home) or (resumed is not None and resumed.allows_home),
        profile=prompt.profile if prompt else "standard",
        owner=await _owner(journal, started) if is_said_here else None,
        project=Path(vault.expand(started.project)) if started.project and not imported else None,
        is_model_imported=model is not None and model.seq <= imported,
        is_mode_imported=not is_mode_ours,
        are_limits_imported=turn <= imported,
        imported=imported,
    )


async def _last_after(journal: JournalReader, imported: int, kind: type[_E]) -> _E | None:
    """The newest event of a kind that was recorded here."""
    found = await journal.last(kind.__name__)
    return found.event if found and found.seq > imported and isinstance(found.event, kind) else None


async def project_folder_of(session: Session) -> Path:
    """The folder that the work of an open session is about."""
    started = await last_event(session.journal, SessionStarted)
    project = started.project if started else ""
    return Path(runtime_of(session).recorder.vault.expand(project)) if project else session.state.workspace


async def _owner(journal: JournalReader, started: SessionStarted) -> Origin | None:
    """Who said last what a session works on; what a daemon or worker goes on with is nobody's word."""
    last = await last_event(journal, UserSaid)
    if last is None or last.origin is None or last.origin.face != DAEMON:
        return (last and last.origin) or started.origin
    told = await read_all(journal, kinds=("UserSaid", "GoalSet"))
    origins = (origin for each in reversed(told) if (origin := getattr(each.event, "origin", None)))
    return next((origin for origin in origins if origin.face != DAEMON), started.origin)


async def _limits_given_before(journal: JournalReader) -> tuple[int, Limits]:
    """The limits that a person gave a session, with its last turn, or when that was resumed; and the event
    that has them."""
    turn = await journal.last("TurnStarted")
    if turn is None or not isinstance(turn.event, TurnStarted):
        return 0, Limits()
    seq, given = turn.seq, turn.event.limits
    for resumed in await journal.read(after=turn.seq, kinds=("SessionResumed",)):
        if isinstance(resumed.event, SessionResumed) and resumed.event.limits:
            session = resumed.event.limits.session
            seq, given = resumed.seq, Limits(max_cost_usd=session.usd, max_tokens=session.tokens)
    return seq, given


def _least(*values: _N | None) -> _N | None:
    return min((value for value in values if value is not None), default=None)


def workspace_at(path: Path, *, remedy: str = "Choose one with -C.") -> Path:
    """A folder to work in; `UsageError` when it is not there."""
    place = path.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy=remedy)
    return place
