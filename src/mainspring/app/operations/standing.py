"""How a session stands at this moment: its plan, what it sleeps for, and who answered what it asked."""

from __future__ import annotations

import msgspec

from mainspring.app.operations.sessions import journal_of
from mainspring.events import ApprovalGiven, OnQuota, OnTime, PlanItem, PlanSet, WaitStarted
from mainspring.folds.state import load_state
from mainspring.journal import events_in, last_event
from mainspring.settings import Config
from mainspring.waits.describe import joined


class OpenWaiting(msgspec.Struct, frozen=True, kw_only=True):
    """A wait that goes on. `until_us` is when it ends at the latest, as far as the clock decides that."""

    what: str
    reason: str = ""
    began_us: int = 0
    until_us: int | None = None


class SessionNow(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    mode: str = ""
    steps: int = 0
    plan: tuple[PlanItem, ...] = ()
    waits: tuple[OpenWaiting, ...] = ()


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The one answer that counted, and when it was given."""

    session: str
    seq: int
    time_us: int
    given: ApprovalGiven


async def session_now(config: Config, session: str) -> SessionNow:
    async with journal_of(config, session) as reader:
        state = await load_state(reader)
        plan = await last_event(reader, PlanSet)
        return SessionNow(
            session=reader.session,
            mode=state.mode,
            steps=state.step,
            plan=plan.items if plan else (),
            waits=tuple(_waiting(each.started) for each in state.waits.open),
        )


async def answer_given(config: Config, session: str, call: str) -> GivenAnswer | None:
    """What was answered to the question of a call: the first answer counted. None when nobody has."""
    async with journal_of(config, session) as reader:
        async for recorded in events_in(reader, kinds=("ApprovalGiven",)):
            if isinstance(recorded.event, ApprovalGiven) and recorded.event.call == call:
                return GivenAnswer(
                    session=reader.session,
                    seq=recorded.seq,
                    time_us=recorded.time_us,
                    given=recorded.event,
                )
    return None


def _waiting(started: WaitStarted) -> OpenWaiting:
    times = [each.at_us for each in started.conditions if isinstance(each, OnTime | OnQuota) and each.at_us]
    bounds = [started.deadline_us] if started.deadline_us else []
    if times and started.needs == "any":
        bounds.append(min(times))
    elif times and len(times) == len(started.conditions):
        bounds.append(max(times))
    return OpenWaiting(
        what=joined(started),
        reason=started.reason,
        began_us=started.began_us,
        until_us=min(bounds) if bounds else None,
    )
