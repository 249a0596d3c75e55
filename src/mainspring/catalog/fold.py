"""What the list of sessions shows about one, folded from its journal a few events at a time.

Reads only the kinds it needs, and of long texts only the one it shows, so that a large journal costs little.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice
from typing import Protocol

import msgspec

from mainspring.catalog.families import FAMILY_KINDS, family_end, family_title, first_line, last_line
from mainspring.catalog.spent import Purpose, Reserved, Spent
from mainspring.events import (
    AssistantSaid,
    Event,
    GoalEnded,
    GoalPaused,
    GoalSet,
    IterationStarted,
    ModelChosen,
    Origin,
    Recorded,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    UserSaid,
    WaitEnded,
    WaitStarted,
)
from mainspring.events.counts import rounded_usd
from mainspring.events.moments import date_of

_FOLDED = tuple(
    kind.__name__
    for kind in (
        SessionStarted,
        UserSaid,
        TurnStarted,
        TurnEnded,
        SpendReserved,
        SpendSettled,
        ModelChosen,
        GoalSet,
        GoalPaused,
        GoalEnded,
        IterationStarted,
        WaitStarted,
        WaitEnded,
        *FAMILY_KINDS,
    )
)
_PAGE = 2000
_SHORT = 100


class SessionFold(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state after `seq` events. `ending` is the newest; `is_open` says that a turn began after it.
    `goal_state` is empty while somebody should be at work on the goal, and `waits` are those that have not
    ended."""

    seq: int = 0
    started_us: int = 0
    updated_us: int = 0
    workspace: str = ""
    title: str = ""
    last_line: str = ""
    last_line_seq: int = 0
    ending: str = "new"
    is_open: bool = False
    settled: dict[str, Spent] = {}
    reserved: dict[str, Reserved] = {}
    inherited_seq: int = 0
    model: str = ""
    goal: str = ""
    goal_state: str = ""
    is_verified: bool = False
    grade: str = ""
    iterations: int = 0
    waits: tuple[str, ...] = ()
    parent: str = ""
    agent: str = ""
    person: str = ""
    project: str = ""

    @property
    def cost_usd(self) -> float:
        return rounded_usd(sum(spent.usd for spent in self.spent().values()))

    def spent(self) -> dict[Purpose, Spent]:
        """What was spent for each purpose; what is reserved and not settled counts as spent."""
        totals = {_purpose(key): spent for key, spent in self.settled.items()}
        for held in self.reserved.values():
            purpose = _purpose(held.key)
            totals[purpose] = totals.get(purpose, Spent()).plus(held.spent)
        return totals


def local_day(time_us: int) -> str:
    """The day (`2026-01-31`) that this machine's clock shows at a moment: caps of a day, `cost` and schedules
    all mean this one."""
    at = date_of(time_us)
    try:
        return at.astimezone().date().isoformat()
    except ValueError:  # TZ may name a zone that is a whole day away, which no date can have
        return at.date().isoformat()


class EventSource(Protocol):
    """A journal that is read without an event loop."""

    def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]: ...

    def last(self, *kinds: str) -> Recorded | None: ...


class _Page:
    """Events that were read already: so few that picking some by questions would take longer."""

    def __init__(self, events: list[Recorded]) -> None:
        self._events = events

    def read(
        self, *, after: int = 0, until: int | None = None, kinds: Collection[str] = (), limit: int = 1000
    ) -> list[Recorded]:
        end = self._events[-1].seq if until is None and self._events else until or 0
        found = (each for each in self._events if after < each.seq <= end)
        return list(
            islice((each for each in found if not kinds or type(each.event).__name__ in kinds), limit)
        )

    def last(self, *kinds: str) -> Recorded | None:
        return next((each for each in reversed(self._events) if type(each.event).__name__ in kinds), None)


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session in the list. `state` is new, running, crashed, damaged, or how the newest turn ended;
    `goal_state` is running, interrupted, paused, or how the goal ended. `is_waiting` says that whoever runs
    it sleeps until something happens; `parent` is the session that it was forked from or, with an `agent`,
    that it works for; `grade` is what the evidence of a goal that is done is worth: verified, checked or
    claimed; `project` is the folder that the workspace is a copy of."""

    id: str
    started_us: int
    updated_us: int
    workspace: str
    title: str
    last_line: str
    state: str
    cost_usd: float
    model: str
    events: int
    goal: str = ""
    goal_state: str = ""
    iterations: int = 0
    is_verified: bool = False
    grade: str = ""
    is_waiting: bool = False
    parent: str = ""
    agent: str = ""
    project: str = ""

    @property
    def folder(self) -> str:
        """The folder that it works for, as people and policies name it."""
        return self.project or self.workspace


def row_of(name: str, fold: SessionFold, *, problem: str, is_owned: Callable[[], bool]) -> SessionRow:
    """How a session stands in the list; asks who owns it only when that makes a difference."""
    state, last_line = fold.ending, fold.last_line
    if problem:
        state, last_line = "damaged", problem
    elif fold.is_open:
        state = "running" if is_owned() else "crashed"
    goal_state = fold.goal_state
    if fold.goal and not goal_state:
        goal_state = "running" if is_owned() else "interrupted"
    return SessionRow(
        id=name,
        started_us=fold.started_us,
        updated_us=fold.updated_us,
        workspace=fold.workspace,
        title=fold.title,
        last_line=last_line,
        state=state,
        cost_usd=fold.cost_usd,
        model=fold.model,
        events=fold.seq,
        goal=fold.goal,
        goal_state=goal_state,
        iterations=fold.iterations,
        is_verified=fold.is_verified,
        grade=fold.grade,
        is_waiting=bool(fold.waits),
        parent=fold.parent,
        agent=fold.agent,
        project=fold.project,
    )


def advance(fold: SessionFold, file: EventSource) -> SessionFold:
    """The fold with every event of the file after it taken in."""
    newest = file.last()
    if newest is None or newest.seq < fold.seq:
        fold = SessionFold()
    if newest is None or newest.seq == fold.seq:
        return fold
    after, until = fold.seq, newest.seq
    if until - after <= _SHORT:
        file = _Page(file.read(after=after, until=until, limit=_SHORT))
    fold = msgspec.structs.replace(fold, settled=dict(fold.settled), reserved=dict(fold.reserved))
    if after == 0:
        for first in file.read(limit=1):
            fold.started_us = first.time_us
    ended = after
    position = after
    while page := file.read(after=position, until=until, kinds=_FOLDED, limit=_PAGE):
        for recorded in page:
            ended = max(ended, take(fold, recorded))
        position = page[-1].seq
    _take_texts(fold, file, after=after, until=until, ended=ended)
    fold.seq, fold.updated_us = until, newest.time_us
    return fold


def take(fold: SessionFold, recorded: Recorded) -> int:
    """Takes one event in; gives its number when it ended a turn, else 0."""
    match recorded.event:
        case SessionStarted() as started:
            fold.workspace, fold.parent, fold.agent = started.workspace, started.parent, started.agent
            fold.inherited_seq, fold.project = started.parent_seq, started.project
            _take_person(fold, started.origin)
        case SpendReserved() | SpendSettled() | UserSaid() if recorded.seq <= fold.inherited_seq:
            pass  # a fork does not pay for its parent, nor its parent's people for it
        case UserSaid(origin=origin):
            _take_person(fold, origin)
        case TurnStarted():
            fold.is_open = True
        case TurnEnded(ending=ending, detail=detail):
            fold.ending, fold.is_open, fold.waits = ending, False, ()
            if detail:
                fold.last_line, fold.last_line_seq = last_line(detail), recorded.seq
            return recorded.seq
        case SpendReserved() as reserved if not reserved.child:
            model = reserved.model or fold.model
            fold.reserved[reserved.spend] = _reserved(reserved, model, recorded.time_us, fold.person)
        case SpendSettled() as settled:
            _settle(fold, settled)
        case ModelChosen(model=model):
            fold.model = model
        case _:
            _take_work(fold, recorded)
    return 0


def _take_family(fold: SessionFold, event: Event, seq: int) -> None:
    if title := family_title(event):
        fold.title, fold.is_open = last_line(title), True
    elif ended := family_end(event):
        line, is_done = ended
        fold.ending, fold.is_open = ("done" if is_done else "failed"), False
        fold.last_line, fold.last_line_seq = last_line(line), seq


def _take_work(fold: SessionFold, recorded: Recorded) -> None:
    match recorded.event:
        case (
            GoalSet() | GoalPaused() | GoalEnded() | IterationStarted() | WaitStarted() | WaitEnded() as event
        ):
            _take_goal(fold, event)
            if isinstance(event, GoalSet) and recorded.seq > fold.inherited_seq:
                _take_person(fold, event.origin)
        case event:
            _take_family(fold, event, recorded.seq)


def _take_goal(
    fold: SessionFold, event: GoalSet | GoalPaused | GoalEnded | IterationStarted | WaitStarted | WaitEnded
) -> None:
    match event:
        case GoalSet():
            fold.goal = fold.title = first_line(event.text)
            fold.goal_state = ""
        case IterationStarted():
            fold.iterations, fold.goal_state, fold.waits = event.iteration, "", ()
        case GoalPaused(by=by):
            fold.goal_state = "paused" if by == "user" else ""
        case GoalEnded(ending=ending, is_verified=is_verified, grade=grade):
            fold.goal_state, fold.is_verified, fold.waits = ending, is_verified, ()
            fold.grade = grade if ending == "done" else ""
        case WaitStarted(wait=wait):
            fold.waits = (*(name for name in fold.waits if name != wait), wait)
        case WaitEnded(wait=wait):
            fold.waits = tuple(name for name in fold.waits if name != wait)


def _reserved(reserved: SpendReserved, model: str, time_us: int, person: str) -> Reserved:
    spent = Spent(
        usd=reserved.usd,
        held_tokens=reserved.tokens,
        requests=1,
        steps=int(reserved.source == "step"),
        unsettled=1,
        unpriced=int(not reserved.priced),
    )
    key = msgspec.json.encode((local_day(time_us), model, reserved.source, person)).decode()
    return Reserved(key, spent)


def _purpose(key: str) -> Purpose:
    return Purpose(*msgspec.json.decode(key, type=tuple[str, str, str, str]))


def _take_person(fold: SessionFold, origin: Origin | None) -> None:
    """Whose work it is from here on; what the daemon and workers start is nobody's."""
    if origin is not None and origin.user and origin.face != "daemon":
        fold.person = origin.user


def _settle(fold: SessionFold, settled: SpendSettled) -> None:
    held = fold.reserved.pop(settled.spend, None)
    if held is None:
        # A child's spend, which stands in the child's own journal.
        return
    usage = settled.usage
    spent = Spent(
        usd=settled.usd,
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        requests=1,
        steps=0 if settled.is_failed else held.spent.steps,
        unpriced=held.spent.unpriced,
        saved_usd=settled.saved_usd,
    )
    fold.settled[held.key] = fold.settled.get(held.key, Spent()).plus(spent)


def _take_texts(fold: SessionFold, file: EventSource, *, after: int, until: int, ended: int) -> None:
    if not fold.title:
        for recorded in file.read(after=after, until=until, kinds=("UserSaid",), limit=1):
            if isinstance(recorded.event, UserSaid):
                fold.title = first_line(recorded.event.text)
    if file.read(after=ended, until=until, kinds=("UserSaid",), limit=1):
        fold.is_open = True
    said = file.last("AssistantSaid")
    if said is not None and said.seq > fold.last_line_seq and isinstance(said.event, AssistantSaid):
        line = last_line(said.event.text)
        if line:
            fold.last_line, fold.last_line_seq = line, said.seq
