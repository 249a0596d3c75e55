"""What is known of a session before anybody chooses: what its journal says, and where it works."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.errors import UsageError
from mainspring.events import (
    EngineChosen,
    Limits,
    ModeChosen,
    ModelChosen,
    SessionResumed,
    SessionStarted,
    SpendReserved,
    TurnStarted,
)
from mainspring.folds.caps import is_money_capped
from mainspring.journal import JournalReader
from mainspring.secrets.redaction import expanded
from mainspring.secrets.vault import Vault


class KnownSession(msgspec.Struct, frozen=True):
    """What a session is known to work with before anybody chooses. `limits` are what it was told to spend in
    its whole life; `is_unpriced` says that a person let it work under them without a price, `allows_home`
    that they let it work in a folder that holds their home, settings or data."""

    place: Path
    limits: Limits = Limits()
    is_unpriced: bool = False
    model: ModelChosen | None = None
    mode: str = ""
    engine: EngineChosen | None = None
    allows_home: bool = False


async def recall(journal: JournalReader, vault: Vault) -> KnownSession:
    """What a session works with, as its journal says, with the names and paths as they are."""
    started = await journal.last("SessionStarted")
    model, mode = await journal.last("ModelChosen"), await journal.last("ModeChosen")
    engine, spend = await journal.last("EngineChosen"), await journal.last("SpendReserved")
    if started is None or not isinstance(started.event, SessionStarted):
        raise UsageError("This session has no beginning: nothing was recorded in it.")
    limits = await _limits_given_before(journal)
    is_unpriced = spend is not None and isinstance(spend.event, SpendReserved) and not spend.event.priced
    resumed = await journal.last("SessionResumed")
    return KnownSession(
        limits=limits,
        is_unpriced=is_unpriced and is_money_capped(limits),
        place=workspace_at(
            Path(vault.expand(started.event.workspace)),
            remedy=f"Go on in another one: mainspring fork {started.event.session} -C FOLDER",
        ),
        model=expanded(model.event, vault) if model and isinstance(model.event, ModelChosen) else None,
        mode=mode.event.level or mode.event.mode if mode and isinstance(mode.event, ModeChosen) else "",
        engine=expanded(engine.event, vault) if engine and isinstance(engine.event, EngineChosen) else None,
        allows_home=started.event.allows_home
        or (resumed is not None and isinstance(resumed.event, SessionResumed) and resumed.event.allows_home),
    )


async def _limits_given_before(journal: JournalReader) -> Limits:
    """The limits that a person gave a session: with its last turn, or when that was resumed."""
    turn = await journal.last("TurnStarted")
    if turn is None or not isinstance(turn.event, TurnStarted):
        return Limits()
    given = turn.event.limits
    for resumed in await journal.read(after=turn.seq, kinds=("SessionResumed",)):
        if isinstance(resumed.event, SessionResumed) and resumed.event.limits:
            session = resumed.event.limits.session
            given = Limits(max_cost_usd=session.usd, max_tokens=session.tokens)
    return given


def workspace_at(path: Path, *, remedy: str = "Choose one with -C.") -> Path:
    """A folder to work in; `UsageError` when it is not there."""
    place = path.expanduser().resolve()
    if not place.is_dir():
        raise UsageError(f"The workspace {place} is not a folder.", remedy=remedy)
    return place
