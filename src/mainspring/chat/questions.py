"""Questions of the session to the person, and the keys that answer them.

What a key or a line means is `operations/answers.py`, as everywhere. Several questions may be open: one of
them is in focus, a digit chooses another one, and a capital letter answers all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec

from mainspring.app.operations.answers import answers_in, editable_text, is_question, reach
from mainspring.chat.palette import Palette
from mainspring.chat.width import clipped, packed, wrapped
from mainspring.cli.ask import question_title
from mainspring.events import ApprovalAsked, ApprovalGiven, Scope
from mainspring.secrets.screen import plain_name

_AT_ONCE = "ys"
_WITH_TEXT = "napf"
_SETTLE_S = 0.4
"""So long after a question came, keys are not taken for its answer: they were meant for something else."""
_SETTLING = "…"
_LINES = 6
_SCOPES: tuple[tuple[str, Scope, str], ...] = (
    ("a", "session", "always in this session"),
    ("p", "project", "in this project"),
    ("f", "forever", "for ever"),
)
_SHOWN_REACH = 2
"""So many lines of a terminal are used for what a lasting yes would allow, where there are few."""
_BACK = "Esc: back to the choices."
_ASIDE = "The question stays open: an empty line goes back to it, a message withdraws it."


class _Asked(msgspec.Struct, frozen=True):
    question: ApprovalAsked
    answer: asyncio.Future[ApprovalGiven | None]
    since_s: float
    number: int
    """The one that it is shown with; it stays while others are answered."""

    @property
    def is_settled(self) -> bool:
        return asyncio.get_running_loop().time() - self.since_s >= _SETTLE_S


class OpenQuestions:
    """The approver of a chat. `on_asked` is called with each question and its number, `on_change` whenever
    what is open has changed."""

    def __init__(self, on_asked: Callable[[ApprovalAsked, int], None], on_change: Callable[[], None]) -> None:
        self._open: dict[str, _Asked] = {}
        self._focus = ""
        self._begun = ""
        self._on_asked = on_asked
        self._on_change = on_change
        self.is_set_aside = False
        """Whether the person writes a message although something is open."""

    async def __call__(self, question: ApprovalAsked) -> ApprovalGiven | None:
        loop = asyncio.get_running_loop()
        number = max((each.number for each in self._open.values()), default=0) + 1
        asked = _Asked(question, loop.create_future(), loop.time(), number)
        self._open[question.call] = asked
        self._focus = self._focus or question.call
        self.is_set_aside = False
        self._on_asked(question, number)
        self._on_change()
        loop.call_later(_SETTLE_S, self._on_change)
        try:
            return await asked.answer
        finally:
            del self._open[question.call]
            if self._focus == question.call:
                self._focus = next(iter(self._open), "")
            self._on_change()

    @property
    def waiting(self) -> list[ApprovalAsked]:
        return [each.question for each in self._open.values() if not each.answer.done()]

    @property
    def is_asking(self) -> bool:
        """Whether keys answer; a question of the agent's own takes a line."""
        focused = self._focused
        return focused is not None and not is_question(focused.question) and not self.is_set_aside

    @property
    def takes_line(self) -> bool:
        """Whether the agent itself asks, so that the next line is the answer."""
        focused = self._focused
        return focused is not None and is_question(focused.question) and not self.is_set_aside

    def key(self, key: str) -> str | None:
        """What the input line begins with after this key; empty when it was an answer or chose a question,
        None when it means nothing."""
        focused = self._focused
        if focused is None or not focused.is_settled:
            return ""
        if key.isdigit():
            self._choose(int(key))
            return ""
        small = key.lower()
        target = "all " if key != small and len(self.waiting) > 1 else ""
        if small in _AT_ONCE:
            self.answer(target + small)
            return ""
        if small == "e" and focused.question.is_editable:
            return f"e {editable_text(focused.question)}"
        return f"{target}{small} " if small in _WITH_TEXT else None

    def answer(self, line: str) -> None:
        """Answers what is in focus, the question whose number the line begins with, or all with `all`; raises
        `UsageError` when the line is no answer."""
        waiting, focused = self.waiting, self._focused
        if focused is None:
            return
        if len(waiting) > 1 and not line.startswith("all "):
            number, _, rest = line.partition(" ")
            named = next((each for each in waiting if f"{self._open[each.call].number}" == number), None)
            line = f"{waiting.index(named or focused.question) + 1} {rest if named else line}"
        for given in answers_in(line, waiting, now_us=time.time_ns() // 1000):
            self._open[given.call].answer.set_result(given)
        self._focus = next((each.call for each in self.waiting), "")
        self._on_change()

    def give_up(self) -> None:
        """There is nobody left to ask."""
        for each in self._open.values():
            if not each.answer.done():
                each.answer.set_result(None)

    def lines(self, palette: Palette, columns: int) -> list[str]:
        """What is open, and the choices, for the live lines."""
        focused, waiting = self._focused, self.waiting
        if focused is None or self.takes_line:
            return []
        if text := _ASIDE if self.is_set_aside else self._begun_hint(focused.question, columns):
            return wrapped(text, columns - 2).split("\n")[:_LINES]
        shown = packed(_choices(waiting) if focused.is_settled else [_SETTLING], columns - 2)
        listed = [(self._open[each.call].number, each) for each in waiting] if len(waiting) > 1 else []
        room = max(min(_LINES - len(shown), 3), 1)
        at = waiting.index(focused.question)
        first = max(0, min(at - 1, len(waiting) - room)) if room > 1 else at
        lines = [
            palette.paint(
                clipped(
                    f"{'▸' if each is focused.question else ' '} [{number}] {question_title(each)}", columns
                ),
                "magenta",
            )
            for number, each in listed[first : first + room]
        ]
        return [*lines, *shown][:_LINES]

    def meant(self, begun: str) -> frozenset[str]:
        """The questions that a begun answer is for."""
        focused = [self._focused.question] if self._focused else []
        return frozenset(each.call for each in (self.waiting if begun.startswith("all ") else focused))

    def begin(self, text: str) -> None:
        """What the person has begun to answer, for the hint about it."""
        self._begun = text

    def _begun_hint(self, question: ApprovalAsked, columns: int) -> str:
        letter = self._begun.removeprefix("all ")[:1]
        covers = "; ".join(reach(question.tool, offer) for offer in question.offers) or "this very call"
        lasting = "Enter allows {} {}. Before it you may add how long (8h, 7d) and a pattern of your own."
        where = {"a": "in this session", "p": "in this project", "f": "for ever"}
        if letter in where:
            told = clipped(plain_name(covers), _SHOWN_REACH * columns)
            return f"{lasting.format(told, where[letter])} {_BACK}"
        hint = {
            "n": "Enter refuses; add why, for the agent.",
            "e": "Enter runs it as it stands here; Ctrl-X Ctrl-E opens your editor.",
        }.get(letter, "")
        return f"{hint} {_BACK}" if hint else ""

    @property
    def _focused(self) -> _Asked | None:
        found = self._open.get(self._focus)
        if found is None or found.answer.done():
            return next((each for each in self._open.values() if not each.answer.done()), None)
        return found

    def _choose(self, number: int) -> None:
        for question in self.waiting:
            if self._open[question.call].number == number:
                self._focus = question.call
                self._on_change()


def _choices(questions: Sequence[ApprovalAsked]) -> list[str]:
    """The keys that answer at least one of these."""
    scopes = {scope for each in questions for scope in each.scopes}
    always = [f"{key} {text}" for key, scope, text in _SCOPES if scope in scopes]
    edit = ["e edit"] if any(each.is_editable for each in questions) else []
    several = ["1-9 choose", "capitals answer all"] if len(questions) > 1 else []
    return ["y once", *always, *edit, "n no", "s stop", "v view", "m message", *several]
