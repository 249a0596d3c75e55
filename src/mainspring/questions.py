"""Questions to a person, and the first answer to each.

An answer comes from the approver of this process, from a command (`approve`), from the clock, or from a new
message that makes the question pointless. Knows no journal: whoever asks records what was answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision


class Approver(Protocol):
    """Who answers when a call needs a person. Questions of one step come side by side."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None:
        """An answer, or None when there is nobody to ask."""
        ...


class Questions:
    """`refusal` says why an answer does not count, and nothing when it does."""

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
        self._open: dict[str, tuple[ApprovalAsked, asyncio.Future[ApprovalGiven | None]]] = {}

    async def ask(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """The first answer that counts; `expire` when none came in time, None when there is nobody to ask."""
        answered: asyncio.Future[ApprovalGiven | None] = asyncio.get_running_loop().create_future()
        self._open[question.call] = question, answered
        allowed = asyncio.timeout(self._timeout_s)
        try:
            async with allowed, asyncio.TaskGroup() as group:
                asking = group.create_task(self._relay(question, answered))
                await answered
                asking.cancel()
            return answered.result()
        except TimeoutError:
            if not allowed.expired():
                raise
            return _closed(question, "expire")
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            del self._open[question.call]

    def answer(self, given: ApprovalGiven) -> bool:
        """Answers a question; False when nobody waits for it here. Raises when the answer does not count."""
        why = self._refusal(given)
        _, answered = self._open.get(given.call, (None, None))
        if answered is not None and answered.done():
            why = "it was answered already"
        if why:
            raise UsageError(
                f"The answer to the call {given.call} does not count: {why}.",
                remedy="`mainspring show` tells what became of it.",
            )
        if answered is not None:
            answered.set_result(given)
        return answered is not None

    def abandon(self) -> None:
        """What a person says replaces the answers that they did not give."""
        for question, answered in self._open.values():
            if not answered.done():
                answered.set_result(_closed(question, "abandon"))

    async def _relay(self, question: ApprovalAsked, answered: asyncio.Future[ApprovalGiven | None]) -> None:
        if self._approver is None:
            return
        given = await self._approver(question)
        if given is not None:
            self.answer(given)
        elif not answered.done():
            answered.set_result(None)


def _closed(question: ApprovalAsked, decision: Decision) -> ApprovalGiven:
    return ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=decision,
        by="mainspring" if decision == "expire" else "user",
    )
