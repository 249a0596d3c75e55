"""Asks the person at the terminal; without a terminal there is nobody to ask."""

from __future__ import annotations

import asyncio
import sys
from typing import TextIO

import click

from mainspring.cli.render import clean
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision
from mainspring.questions import Approver
from mainspring.tools.ask import NAME as ASK

_DECISIONS: dict[str, Decision] = {"y": "allow", "n": "reject", "s": "stop"}


def approver_for(stream: TextIO) -> Approver:
    return _Terminal() if stream.isatty() and sys.stderr.isatty() else _nobody


async def _nobody(_: ApprovalAsked) -> None:
    return None


class _Terminal:
    """One question at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def __call__(self, question: ApprovalAsked) -> ApprovalGiven | None:
        async with self._turn:
            if question.tool == ASK:
                return await _answer(question)
            click.echo(clean(f"\n{question.tool} {question.arguments}\n  {question.reason}"), err=True)
            while True:
                click.echo("[y]es, [n]o (add why), [s]top the turn: ", nl=False, err=True)
                line = await _line()
                if line is None:
                    return None
                letter, _, feedback = line.strip().partition(" ")
                if decision := _DECISIONS.get(letter.lower()[:1]):
                    return ApprovalGiven(
                        call=question.call,
                        arguments_sha256=question.arguments_sha256,
                        decision=decision,
                        feedback=feedback.strip(),
                    )


async def _answer(question: ApprovalAsked) -> ApprovalGiven | None:
    """What the person says to the agent's own question; an empty line declines to answer."""
    click.echo(clean(f"\nThe agent asks: {question.reason}"), err=True)
    click.echo("Your answer: ", nl=False, err=True)
    line = await _line()
    if line is None:
        return None
    return ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision="allow" if line.strip() else "reject",
        feedback=line.strip(),
    )


async def _line() -> str | None:
    """The next line that the person types; None at the end of the input."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sys.stdin, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline() or None
