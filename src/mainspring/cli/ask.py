"""Asks the person at the terminal; without a terminal there is nobody to ask.

Questions that are open at the same time are shown together and can be answered together. Nothing waits in a
task of its own: the terminal is read when a line is there, as long as a question is open.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
import textwrap
import time
from typing import Any

import click
import msgspec

from mainspring.app.operations.answers import Approver, answers_in, help_for, is_question, nobody, reach
from mainspring.approvals import why_asked
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

_TOGETHER_S = 0.05
_SHOWN_CHARS = 4000


def approver() -> Approver:
    return _Terminal() if is_person_there() else nobody


class _Open(msgspec.Struct, frozen=True):
    question: ApprovalAsked
    answer: asyncio.Future[ApprovalGiven | None]


class _Terminal:
    """Shows what is open a moment after the last question came, so that those of one step stand together."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._showing: asyncio.TimerHandle | None = None

    async def __call__(self, question: ApprovalAsked) -> ApprovalGiven | None:
        loop = asyncio.get_running_loop()
        asked = _Open(question, loop.create_future())
        if not self._open:
            loop.add_reader(sys.stdin, self._read)
        self._open[question.call] = asked
        self._show_soon()
        try:
            return await asked.answer
        finally:
            del self._open[question.call]
            if not self._open:
                loop.remove_reader(sys.stdin)

    def _show_soon(self) -> None:
        if self._showing is not None:
            self._showing.cancel()
        self._showing = asyncio.get_running_loop().call_later(_TOGETHER_S, self._show)

    def _show(self, *, limit: int = _SHOWN_CHARS) -> None:
        waiting = self._waiting()
        for number, asked in enumerate(waiting, 1):
            click.echo(plain(question_text(asked.question, number=number, limit=limit)), err=True)
        if waiting:
            is_own = len(waiting) == 1 and is_question(waiting[0].question)
            several = "" if len(waiting) == 1 else " · say which: 1 y, 2 n, all y"
            choices = help_for([asked.question for asked in waiting])
            click.echo("Your answer: " if is_own else f"{choices}{several}: ", nl=False, err=True)

    def _waiting(self) -> list[_Open]:
        return [asked for asked in self._open.values() if not asked.answer.done()]

    def _read(self) -> None:
        """Takes one line; at the end of the input there is nobody left to ask."""
        waiting = self._waiting()
        line = sys.stdin.readline()
        if not line:
            for asked in waiting:
                asked.answer.set_result(None)
            asyncio.get_running_loop().remove_reader(sys.stdin)
        elif line.strip().lower() == "v":
            self._show(limit=sys.maxsize)
        elif waiting:
            self._take(line, waiting)

    def _take(self, line: str, waiting: list[_Open]) -> None:
        try:
            answers = answers_in(line, [asked.question for asked in waiting], now_us=time.time_ns() // 1000)
        except UsageError as error:
            click.echo(plain(str(error)), err=True)
            answers = ()
        for given in answers:
            self._open[given.call].answer.set_result(given)
        self._show_soon()


def question_text(question: ApprovalAsked, *, number: int, limit: int = _SHOWN_CHARS) -> str:
    """All that a person must know to answer: what would be done, why it is asked, what a lasting yes covers.
    It may hold anything: `plain` makes it safe."""
    if is_question(question):
        return f"\n[{number}] The agent asks: {question.reason}"
    text = _telling(question.arguments)
    more = (
        f"\n    … {plural(len(text) - limit, 'more character')}; `v` shows them" if len(text) > limit else ""
    )
    covers = "; ".join(reach(question.tool, offer) for offer in question.offers)
    covers += "  ($: and no words after it)" if covers.endswith(" $") or " $;" in covers else ""
    always = f"\n    always would allow {covers or 'this very call and no other'}"
    return (
        f"\n[{number}] {question.tool}: {text[:limit]}{more}{_scripts(question, limit)}"
        f"\n    why it is asked: {why_asked(question)}"
        f"{always if len(question.scopes) > 1 else ''}"
    )


def question_title(question: ApprovalAsked) -> str:
    """The same on one line, to tell several apart."""
    return plain_name(f"{question.tool}: {_telling(question.arguments)}".partition("\n")[0])


def _scripts(question: ApprovalAsked, limit: int) -> str:
    """The scripts that the command names, or what changed in them since they were allowed."""
    shown = ""
    for script in question.scripts:
        text = script.diff or script.text
        title = f"{script.path}, {'changed since it was allowed' if script.diff else 'as it is now'}"
        more = f"\n… {len(text) - limit:,} more characters; `v` shows them" if len(text) > limit else ""
        shown += f"\n    {title}:\n" + textwrap.indent(f"{text[:limit]}{more}", "    | ", lambda _: True)
    return shown


def _telling(arguments: str) -> str:
    """A command that is all there is to a call stands for it, and an edit is shown as what it takes away and
    puts there; otherwise all arguments are shown."""
    match msgspec.json.decode(arguments):
        case {"path": str(path), "content": str(content), **rest} if not rest:
            return f"{path}\n{_signed('+', content)}"
        case {"path": str(path), "edits": [*edits], **rest} if not rest and all(map(_is_edit, edits)):
            shown = [f"{_signed('-', edit['old'])}\n{_signed('+', edit['new'])}" for edit in edits]
            return "\n".join((path, *shown))
        case {"command": str(command), **rest} if not rest:
            return command
        case {"argv": [*argv], **rest} if not rest:
            return shlex.join(map(str, argv))
        case _:
            return arguments


def _is_edit(edit: Any) -> bool:
    match edit:
        case {"old": str(), "new": str(), **rest}:
            return not rest
        case _:
            return False


def _signed(sign: str, text: str) -> str:
    return "\n".join(f"    {sign} {line}" for line in text.split("\n"))
