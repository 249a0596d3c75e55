"""The open questions of a session, and the first answer to each.

An answer comes from the approver of this process, from a command (`approve`), from the clock, or from a new
message that makes the question pointless. What is asked and answered is recorded by the session, not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager

import msgspec

from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision
from mainspring.parts import Approver


class _Open(msgspec.Struct, frozen=True):
    question: ApprovalAsked
    answer: asyncio.Future[ApprovalGiven | None]


class Questions:
    """`refusal` says why an answer does not count. Without an approver only commands answer."""

    def __init__(
        self,
        refusal: Callable[[ApprovalGiven], str],
        *,
        approver: Approver | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self._refusal = refusal
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
        allowed = asyncio.timeout(self._timeout_s)
        try:
            async with allowed, asyncio.TaskGroup() as group:
                consulting = group.create_task(self._consult(asked))
                await asked.answer
                consulting.cancel()
        except TimeoutError:
            if not allowed.expired():
                raise
            return _closed(asked.question, "expire")
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        return asked.answer.result()

    def answer(self, given: ApprovalGiven) -> bool:
        """Answers a question; False when it counts and nobody waits for it here."""
        asked = self._open.get(given.call)
        is_double = asked is not None and asked.answer.done()
        if why := "it was answered already" if is_double else self._refusal(given):
            raise UsageError(
                f"The call {given.call} is not waiting for this answer: {why}.",
                remedy="`mainspring show` tells what became of it.",
            )
        if asked is not None:
            asked.answer.set_result(given)
        return asked is not None

    def abandon(self) -> None:
        """Takes what the user says now for the answers that they did not give."""
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_result(_closed(asked.question, "abandon"))

    async def _consult(self, asked: _Open) -> None:
        given = await self._approver(asked.question) if self._approver else await asked.answer
        if asked.answer.done():
            return
        if given is None:
            asked.answer.set_result(None)
        else:
            self.answer(given)


def _closed(question: ApprovalAsked, decision: Decision) -> ApprovalGiven:
    return ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=decision,
        by="mainspring" if decision == "expire" else "user",
    )
