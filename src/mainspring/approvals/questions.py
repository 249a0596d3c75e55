"""The open questions of a session, and the next answer to each that counts.

An answer comes from the approver of this process, from a command (`approve`), from another process by way of
the inbox, from the clock, or from a new message that makes the question pointless. What is asked and answered
is recorded by whoever asks, not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from mainspring.approvals.quorums import NotEntitled
from mainspring.disk.inbox import AnswerCommand, Inbox, LeftCommand
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision, Origin

_MAX_TRIES = 20
"""How often one who answers is asked again after an edit that cannot be used; a program may never learn."""
_LOOK_S = 0.5
_ANSWERED = "it was answered already"


class Approver(Protocol):
    """Who answers when a call needs a person. Questions of one step come side by side."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class _Open(msgspec.Struct, frozen=True):
    question: ApprovalAsked
    answer: asyncio.Future[ApprovalGiven | None]


class Questions:
    """`refusal` says why an answer does not count, `bad_edit` why its edited arguments cannot be used: then
    an answer of a command leaves the question open; so does one of somebody who may not give it, for whom
    `check_entitled` raises and of whom `on_refused` is told. Without an approver only commands answer."""

    def __init__(
        self,
        refusal: Callable[[ApprovalGiven], str],
        *,
        approver: Approver | None = None,
        timeout_s: float | None = None,
        inbox: Inbox | None = None,
        bad_edit: Callable[[ApprovalGiven], str] = lambda _: "",
        check_entitled: Callable[[ApprovalGiven], None] = lambda _: None,
        on_refused: Callable[[NotEntitled], Awaitable[None]] | None = None,
    ) -> None:
        self._check_entitled = check_entitled
        self._on_refused = on_refused
        self._refusal = refusal
        self._bad_edit = bad_edit
        self._inbox = inbox
        self._taken: dict[str, LeftCommand] = {}
        self._approver = approver
        self._timeout_s = timeout_s
        self._open: dict[str, _Open] = {}

    @contextmanager
    def opened(self, question: ApprovalAsked) -> Generator[None]:
        """From here on the question can be answered: before anybody hears of it."""
        answer = asyncio.get_running_loop().create_future()
        self._open[question.call] = _Open(question=question, answer=answer)
        try:
            yield
        finally:
            del self._open[question.call]

    async def first_answer(self, call: str) -> ApprovalGiven | None:
        """The first that counts; `expire` when none came in time, None when there is nobody to ask."""
        asked = self._open[call]
        self._look(call)
        if asked.answer.done():
            return asked.answer.result()
        allowed = asyncio.timeout(self._timeout_s)
        try:
            async with allowed, asyncio.TaskGroup() as group:
                waiting = [group.create_task(self._consult(asked)), group.create_task(self._watch(call))]
                await asked.answer
                for task in waiting:
                    task.cancel()
        except TimeoutError:
            if not allowed.expired():
                raise
            return _closed(asked.question, "expire")
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return asked.answer.result()

    def answer(self, given: ApprovalGiven) -> bool:
        """Answers a question; False when it counts and nobody waits for it here."""
        self._check_entitled(given)
        if not self._refusal(given) and (why := self._bad_edit(given)):
            raise UsageError(f"The call {given.call} cannot be edited so, and still waits: {why}")
        return self._answer(given)

    def _answer(self, given: ApprovalGiven) -> bool:
        asked = self._open.get(given.call)
        is_double = asked is not None and asked.answer.done()
        if why := _ANSWERED if is_double else self._refusal(given):
            raise UsageError(
                f"The call {given.call} is not waiting for this answer: {why}.",
                remedy="`mainspring show` shows what became of it.",
            )
        if asked is not None:
            asked.answer.set_result(given)
        return asked is not None

    def abandon(self) -> None:
        """Takes what the user says now for the answers that they did not give."""
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_result(_closed(asked.question, "abandon"))

    def recorded(self, call: str) -> None:
        """The answer to a call is in the journal: what was left for it is no longer needed."""
        if self._inbox is not None:
            if left := self._taken.pop(call, None):
                self._inbox.done(left)
            self._decline(self._inbox, call)

    def sweep(self) -> None:
        """Declines what was left for questions that are not open any more, as after a crash."""
        if self._inbox is not None:
            self._inbox.clear()
            self._decline(self._inbox)

    def _decline(self, inbox: Inbox, call: str = "") -> None:
        for left, given in _answers(inbox, call):
            if why := self._refusal(given):
                inbox.refuse(left, why)
            elif left.is_taken:
                inbox.put_back(left)

    async def _watch(self, call: str) -> None:
        while self._inbox is not None:
            await asyncio.sleep(_LOOK_S)
            if await self._inbox.is_filled():
                self._look(call)

    def look(self, *, before: LeftCommand) -> None:
        """Takes the answers that were left before another command."""
        for call in self._open:
            self._look(call, before=before)

    def _look(self, call: str, *, before: LeftCommand | None = None) -> None:
        """Takes the first answer that another process left and that counts."""
        if (inbox := self._inbox) is None:
            return
        for left, given in _answers(inbox, call):
            if self._open[call].answer.done():
                return  # what is left may be another person's yes; it is looked at once this is on record
            is_known = (known := self._taken.get(call)) is not None and known.id == left.id
            if is_known or (before and left.id > before.id) or (taken := inbox.take(left)) is None:
                continue
            try:
                self.answer(given)
            except (UsageError, NotEntitled):
                inbox.refuse(taken, self._refusal(given) or self._bad_edit(given) or _ANSWERED)
            else:
                self._taken[call] = taken

    async def _consult(self, asked: _Open) -> None:
        question = asked.question
        for tries_left in reversed(range(_MAX_TRIES)):
            given = await self._approver(question) if self._approver else await asked.answer
            if asked.answer.done():
                return
            if given is None:
                asked.answer.set_result(None)
                return
            why, is_entitled = await self._objection(given)
            if not is_entitled and not tries_left:
                asked.answer.set_result(None)  # nobody here may answer it: it waits for somebody who may
                return
            if not why or not tries_left:
                self._answer(given)
                return
            reason = f"{asked.question.reason} ({why.removesuffix('.')})"
            question = msgspec.structs.replace(asked.question, reason=reason)

    async def _objection(self, given: ApprovalGiven) -> tuple[str, bool]:
        """Why whoever is here is asked again, empty when not; and whether they may answer at all."""
        try:
            self._check_entitled(given)
        except NotEntitled as error:
            if self._on_refused is not None:
                await self._on_refused(error)
            return error.message, False
        why = "" if self._refusal(given) else self._bad_edit(given)
        return why and f"the edit cannot be used: {why}", True


def _answers(inbox: Inbox, call: str = "") -> list[tuple[LeftCommand, ApprovalGiven]]:
    """The answers that were left for a call, or for any, the oldest first."""
    left = [
        (each, _of_person(each.command.given, each.origin))
        for each in inbox.waiting(AnswerCommand)
        if isinstance(each.command, AnswerCommand)
    ]
    return [(each, given) for each, given in left if not call or given.call == call]


def _of_person(given: ApprovalGiven, origin: Origin) -> ApprovalGiven:
    """The answer of one person; nobody says for others that they agreed."""
    return msgspec.structs.replace(given, origin=given.origin or origin, agreed=())


def _closed(question: ApprovalAsked, decision: Decision) -> ApprovalGiven:
    return ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=decision,
        by="mainspring" if decision == "expire" else "user",
    )
