"""The open questions of a session and who answers them: its approver or a command, whichever comes first.

An answer is bound by a hash to the arguments that the person saw. What is asked and answered is recorded by
the session, not here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven


class Approver(Protocol):
    """Who answers when a call needs a person."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class _Open(msgspec.Struct, frozen=True):
    question: ApprovalAsked
    answer: asyncio.Future[ApprovalGiven | None]


class Questions:
    """Without an approver only commands answer."""

    def __init__(self, approver: Approver | None) -> None:
        self._approver = approver
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
        asked = self._open[call]
        given = await (_consult(self._approver, asked) if self._approver else asked.answer)
        if given is not None:
            _check(asked.question, given)
        return given

    def answer(self, given: ApprovalGiven) -> None:
        asked = self._open.get(given.call)
        if asked is None or asked.answer.done():
            raise UsageError(
                f"The call {given.call} is not waiting for an answer.", remedy="It may be over by now."
            )
        _check(asked.question, given)
        asked.answer.set_result(given)

    def abandon(self) -> None:
        """Takes what the user says now for the answers that they did not give."""
        for asked in self._open.values():
            if not asked.answer.done():
                sha256 = asked.question.arguments_sha256
                given = ApprovalGiven(call=asked.question.call, arguments_sha256=sha256, decision="abandon")
                asked.answer.set_result(given)


async def _consult(approver: Approver, asked: _Open) -> ApprovalGiven | None:
    async def consult() -> None:
        given = await approver(asked.question)
        if not asked.answer.done():
            asked.answer.set_result(given)

    try:
        async with asyncio.TaskGroup() as group:
            consulting = group.create_task(consult())
            given = await asked.answer
            consulting.cancel()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return given


def _check(question: ApprovalAsked, given: ApprovalGiven) -> None:
    if (question.call, question.arguments_sha256) != (given.call, given.arguments_sha256):
        raise UsageError(f"The answer is for other arguments than those of the call {question.call}.")
