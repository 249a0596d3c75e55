"""The waits of a session, folded from its journal: which are open, which have ended, and what broke them off.

A wait of a call is over with the call. What a person says breaks off every open wait: they want to be heard.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.events import (
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    ChildEnded,
    ConditionMet,
    Recorded,
    Undone,
    UserSaid,
    WaitEnded,
    WaitStarted,
)

Awaited = (
    WaitStarted
    | ConditionMet
    | WaitEnded
    | UserSaid
    | ApprovalGiven
    | CallEnded
    | AssistantSaid
    | Undone
    | ChildEnded
)
"""The events that a wait may have to know."""

_REMEMBERED = 256


class OpenWait(msgspec.Struct, frozen=True):
    """`met` are the conditions that are on record as met, by their place."""

    started: WaitStarted
    since_us: int
    met: dict[int, ConditionMet] = {}
    is_interrupted: bool = False


class Waits:
    def __init__(self) -> None:
        self._open: dict[str, OpenWait] = {}
        self._ended: dict[str, WaitEnded] = {}
        self._answers: dict[str, str] = {}
        self._stirring: asyncio.Future[None] | None = None

    @property
    def open(self) -> tuple[OpenWait, ...]:
        return tuple(self._open.values())

    def get(self, wait: str) -> OpenWait | None:
        return self._open.get(wait)

    def ended(self, wait: str) -> WaitEnded | None:
        """How a wait ended, unless that is long ago."""
        return self._ended.get(wait)

    def answer(self, call: str) -> str:
        """What became of the question of a call since the last reply; empty while it is open."""
        return self._answers.get(call, "")

    def apply(self, recorded: Recorded) -> None:
        event = recorded.event
        if not isinstance(event, Awaited):
            return
        match event:
            case WaitStarted() | ConditionMet() | WaitEnded():
                self._apply_wait(event, recorded.time_us)
            case UserSaid():
                replace = msgspec.structs.replace
                self._open = {name: replace(wait, is_interrupted=True) for name, wait in self._open.items()}
            case ApprovalGiven() as given:
                self._answers[given.call] = given.decision
            case CallEnded() as ended:
                self._answers.setdefault(ended.call, ended.outcome)
                self._drop(ended.call)
            case AssistantSaid():
                self._answers = {}
                self._drop()
            case Undone(scope=scope) if scope != "files":
                self._open = {}
            case ChildEnded():
                pass
            case _:
                return
        if self._stirring is not None and not self._stirring.done():
            self._stirring.set_result(None)

    def stirring(self) -> asyncio.Future[None]:
        """Done when something was recorded that a wait may have to know. Never cancel it: it is shared."""
        if self._stirring is None or self._stirring.done():
            self._stirring = asyncio.get_running_loop().create_future()
        return self._stirring

    def _apply_wait(self, event: WaitStarted | ConditionMet | WaitEnded, time_us: int) -> None:
        known = self._open.get(event.wait)
        match event:
            case WaitStarted():
                since_us = known.since_us if known else time_us
                self._open[event.wait] = OpenWait(event, since_us, known.met if known else {})
            case ConditionMet() if known:
                met = {**known.met, event.condition: event}
                self._open[event.wait] = msgspec.structs.replace(known, met=met)
            case WaitEnded():
                self._open.pop(event.wait, None)
                self._ended[event.wait] = event
                while len(self._ended) > _REMEMBERED:
                    del self._ended[next(iter(self._ended))]
            case _:
                pass

    def _drop(self, call: str = "") -> None:
        """Forgets the wait of a call that is over, or of every call."""
        self._open = {
            name: wait
            for name, wait in self._open.items()
            if not wait.started.call or (call and wait.started.call != call)
        }
