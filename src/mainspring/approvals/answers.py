"""Which answer to a request still counts: a fold over the journal, and one question to it.

An answer is bound to a call and the hash of its arguments. Only the first answer to a request that is still
open counts, or as many as its quorums take; a replayed, stale or double one, and one after the call was
cancelled, abandoned, expired or the turn ended, is refused with a reason. A new reply of the model forgets
the requests of the one before. Pure: the journal alone rebuilds it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.approvals.grants import arguments_pattern, arguments_sha256, is_pattern
from mainspring.approvals.quorums import OpenRequest, name_of
from mainspring.events import (
    KEEPS_CALLS_OPEN,
    ApprovalAdded,
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    CallStarted,
    GoalEnded,
    GoalSet,
    NoteAdded,
    TurnEnded,
    Undone,
    UserSaid,
)

Consenting = (
    ApprovalAsked
    | ApprovalAdded
    | ApprovalGiven
    | CallStarted
    | CallEnded
    | UserSaid
    | NoteAdded
    | TurnEnded
    | AssistantSaid
    | Undone
    | GoalSet
    | GoalEnded
)
"""The events that requests and answers follow from."""


NOT_EDITABLE = "it cannot be edited, because the agent runs it itself; allow or refuse it as it is"
SEVERAL_AGREE = "it cannot be edited, because several people must agree; refuse it and say what to run"


class Requests(msgspec.Struct, frozen=True):
    """Requests by call: those that wait for a person, and what became of the others. `left` were open when a
    turn was blocked; `unused` are answers to those that nothing has followed from yet. `added` are those who
    agreed to an open one so far, `owners` and `goal_owners` whose commands led to the turn."""

    open: Mapping[str, ApprovalAsked] = {}
    closed: Mapping[str, str] = {}
    left: tuple[str, ...] = ()
    unused: tuple[tuple[ApprovalAsked, ApprovalGiven], ...] = ()
    added: Mapping[str, tuple[ApprovalAdded, ...]] = {}
    owners: tuple[str, ...] = ()
    goal_owners: tuple[str, ...] = ()
    is_turn_over: bool = False

    def after(self, event: Consenting) -> Requests:
        """The requests once this was recorded."""
        return self._taken(event)._led_by(event)

    def _taken(self, event: Consenting) -> Requests:
        match event:
            case CallStarted() | CallEnded():
                return self._without(event)._close(event.call, "the call is no longer waiting")
            case ApprovalAsked():
                return self._asked(event)
            case ApprovalAdded():
                return self._added(event)
            case ApprovalGiven():
                return self._answered(event)._close(event.call, "it was answered already")
            case UserSaid():
                return self._close_all("a new message abandoned it")
            case TurnEnded():
                return self._ended(event)
            case AssistantSaid():
                return msgspec.structs.replace(self, open={}, closed={}, left=(), added={})
            case Undone():
                return self._close_all("it was undone")
            case _:
                return self

    def refusal(self, answer: ApprovalGiven) -> str:
        """Why an answer does not count; empty when it does."""
        asked = self.open.get(answer.call)
        if asked is None:
            return self.closed.get(answer.call, "nothing like it was asked")
        return misfit(asked, answer) or OpenRequest(asked, self.added.get(answer.call, ())).unentitled(answer)

    def request(self, call: str) -> OpenRequest | None:
        """An open question, with those who agreed so far."""
        asked = self.open.get(call)
        return OpenRequest(asked, self.added.get(call, ())) if asked else None

    def counted(self, answer: ApprovalGiven) -> ApprovalGiven | ApprovalAdded:
        """What is recorded of an answer that counts: that it decides, or that one of several agreed."""
        request = self.request(answer.call)
        return request.counted(answer) if request else answer

    @property
    def everybody(self) -> tuple[str, ...]:
        """Whose commands led to what is asked now."""
        return tuple(dict.fromkeys(filter(None, (*self.owners, *self.goal_owners))))

    def earlier_answer(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """What a person said to the same question while nobody was there to go on with it."""
        same = [given for asked, given in self.unused if _is_same(asked, question)]
        return msgspec.structs.replace(same[-1], call=question.call) if same else None

    def _asked(self, event: ApprovalAsked) -> Requests:
        closed = {call: why for call, why in self.closed.items() if call != event.call}
        return msgspec.structs.replace(
            self,
            open={**self.open, event.call: event},
            closed=closed,
            left=tuple(call for call in self.left if call != event.call),
            added={call: each for call, each in self.added.items() if call != event.call},
        )

    def _added(self, event: ApprovalAdded) -> Requests:
        if event.call not in self.open:
            return self
        added = (*self.added.get(event.call, ()), event)
        return msgspec.structs.replace(self, added={**self.added, event.call: added})

    def _ended(self, event: TurnEnded) -> Requests:
        if event.ending in KEEPS_CALLS_OPEN:
            return msgspec.structs.replace(self, left=tuple(self.open))
        return self._close_all("its turn has ended")

    def _led_by(self, event: Consenting) -> Requests:
        """Whoever says something, or adds a note, is one of those who led to what follows, until the turn is
        over; and whoever sets a goal or changes it, until the goal has ended."""
        match event:
            case UserSaid() | NoteAdded(source="user"):
                earlier = () if self.is_turn_over else self.owners
                owners = tuple(dict.fromkeys((*earlier, name_of(event.origin))))
                return msgspec.structs.replace(self, owners=owners, is_turn_over=False)
            case TurnEnded() if event.ending not in KEEPS_CALLS_OPEN:
                return msgspec.structs.replace(self, is_turn_over=True)
            case GoalSet():
                owners = tuple(dict.fromkeys((*self.goal_owners, name_of(event.origin))))
                return msgspec.structs.replace(self, goal_owners=owners)
            case GoalEnded():
                return msgspec.structs.replace(self, goal_owners=())
            case _:
                return self

    def _answered(self, given: ApprovalGiven) -> Requests:
        asked = self.open.get(given.call)
        if asked is None:
            return self
        others = tuple(each for each in self.unused if not _is_same(each[0], asked))
        is_late = given.call in self.left
        return msgspec.structs.replace(self, unused=(*others, (asked, given)) if is_late else others)

    def _without(self, event: CallStarted | CallEnded) -> Requests:
        """A call that was only closed, because its agent is gone, will be wanted again under another name."""
        if isinstance(event, CallEnded) and event.outcome in ("cancelled", "unknown"):
            return self
        unused = tuple(each for each in self.unused if each[0].call != event.call)
        return msgspec.structs.replace(self, unused=unused)

    def _close(self, call: str, why: str) -> Requests:
        if call not in self.open:
            return self
        still_open = {each: asked for each, asked in self.open.items() if each != call}
        added = {each: those for each, those in self.added.items() if each != call}
        return msgspec.structs.replace(self, open=still_open, closed={**self.closed, call: why}, added=added)

    def _close_all(self, why: str) -> Requests:
        closed = {**self.closed, **dict.fromkeys(self.open, why)}
        return msgspec.structs.replace(self, open={}, closed=closed, left=(), unused=(), added={})


def _is_same(asked: ApprovalAsked, question: ApprovalAsked) -> bool:
    return (asked.tool, asked.arguments_sha256) == (question.tool, question.arguments_sha256)


def misfit(asked: ApprovalAsked, answer: ApprovalGiven) -> str:
    """Why this is no answer to this question, or a yes cannot reach as far as it says; empty when it can."""
    if asked.arguments_sha256 != answer.arguments_sha256:
        return "it was given for other arguments"
    if asked.arguments_sha256 != arguments_sha256(asked.arguments):
        return "the request itself does not fit its hash"
    if answer.scope not in asked.scopes:
        return f"it cannot be allowed for {answer.scope} here, only for {', '.join(asked.scopes)}"
    if answer.edited_arguments is not None and not asked.is_editable:
        return SEVERAL_AGREE if asked.quorums else NOT_EDITABLE
    if answer.edited_arguments is not None and answer.scope != "once":
        return "edited arguments can be allowed only once"
    if not answer.pattern:
        return ""
    kinds = {kind for offer in asked.offers for kind in ("command", "path", "host") if getattr(offer, kind)}
    if not kinds and len(asked.offers) == 1:
        is_told = arguments_pattern(answer.pattern) is not None
        return "" if is_told else "a pattern for this call names its arguments, as in operation=read*"
    if len(kinds) != 1:
        return "this call can be allowed only as it is, not by a pattern"
    return "" if kinds != {"command"} or is_pattern(answer.pattern) else "the pattern's quotes do not close"
