"""What the list of sessions shows about one, folded from its journal a few events at a time.

Reads only the kinds it needs, and of long texts only the one it shows, so that a large journal costs little.
"""

from __future__ import annotations

import msgspec

from mainspring.events import (
    AssistantSaid,
    ModelChosen,
    Recorded,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    UserSaid,
)
from mainspring.journal.file import JournalFile

_FOLDED = tuple(
    kind.__name__
    for kind in (
        SessionStarted,
        TurnStarted,
        TurnEnded,
        SpendReserved,
        SpendSettled,
        ModelChosen,
    )
)
_PAGE = 2000
_LINE_LENGTH = 200


class Fold(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state after `seq` events. `ending` is the newest; `is_open` says that a turn began after it."""

    seq: int = 0
    started_us: int = 0
    updated_us: int = 0
    workspace: str = ""
    title: str = ""
    last_line: str = ""
    last_line_seq: int = 0
    ending: str = "new"
    is_open: bool = False
    settled_usd: float = 0.0
    reserved_usd: dict[str, float] = {}
    inherited_seq: int = 0
    model: str = ""

    @property
    def cost_usd(self) -> float:
        return self.settled_usd + sum(self.reserved_usd.values())


def advance(fold: Fold, file: JournalFile) -> Fold:
    """The fold with every event of the file after it taken in."""
    newest = file.last()
    if newest is None or newest.seq < fold.seq:
        fold = Fold()
    if newest is None or newest.seq == fold.seq:
        return fold
    after, until = fold.seq, newest.seq
    fold = msgspec.structs.replace(fold, reserved_usd=dict(fold.reserved_usd))
    if after == 0:
        for first in file.read(limit=1):
            fold.started_us = first.time_us
    ended = after
    position = after
    while page := file.read(after=position, until=until, kinds=_FOLDED, limit=_PAGE):
        for recorded in page:
            ended = max(ended, _take(fold, recorded))
        position = page[-1].seq
    _take_texts(fold, file, after=after, until=until, ended=ended)
    fold.seq, fold.updated_us = until, newest.time_us
    return fold


def _take(fold: Fold, recorded: Recorded) -> int:
    """Takes one event in; gives its number when it ended a turn, else 0."""
    match recorded.event:
        case SessionStarted(workspace=workspace, parent_seq=parent_seq):
            fold.workspace, fold.inherited_seq = workspace, parent_seq
        case TurnStarted():
            fold.is_open = True
        case TurnEnded(ending=ending, detail=detail):
            fold.ending, fold.is_open = ending, False
            if detail:
                fold.last_line, fold.last_line_seq = _last_line(detail), recorded.seq
            return recorded.seq
        case SpendReserved() | SpendSettled() if recorded.seq <= fold.inherited_seq:
            pass  # a fork does not pay for its parent
        case SpendReserved(spend=spend, usd=usd):
            fold.reserved_usd[spend] = usd
        case SpendSettled(spend=spend, usd=usd):
            fold.reserved_usd.pop(spend, None)
            fold.settled_usd += usd
        case ModelChosen(model=model):
            fold.model = model
        case _:
            pass
    return 0


def _take_texts(fold: Fold, file: JournalFile, *, after: int, until: int, ended: int) -> None:
    if not fold.title:
        for recorded in file.read(after=after, until=until, kinds=("UserSaid",), limit=1):
            if isinstance(recorded.event, UserSaid):
                fold.title = _first_line(recorded.event.text)
    if file.read(after=ended, until=until, kinds=("UserSaid",), limit=1):
        fold.is_open = True
    said = file.last("AssistantSaid")
    if said is not None and said.seq > fold.last_line_seq and isinstance(said.event, AssistantSaid):
        line = _last_line(said.event.text)
        if line:
            fold.last_line, fold.last_line_seq = line, said.seq


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_LINE_LENGTH]


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:_LINE_LENGTH]
