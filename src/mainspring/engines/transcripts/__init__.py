"""Session files of other agents, as events that a session of ours can go on from.

Each format has a module that turns its lines into calls of a `Telling`. What has no place here is left out
and counted; every call has a result. Nothing is trusted: a line that cannot be read is one more left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Compacted,
    Event,
    NoteAdded,
    Text,
    Thinking,
    TurnEnded,
    TurnStarted,
    Undone,
    UserSaid,
)

_UNSEEN = "This call has no result in the imported session. Its outcome is unknown."


class Transcript(msgspec.Struct, frozen=True):
    """A session of another agent: its events with their times, and where it worked."""

    agent: str
    session: str
    workspace: str
    model: str
    events: tuple[tuple[int, Event], ...]
    left_out: int


class Telling:
    """Tells a session again in our words, one thing after another."""

    def __init__(self, agent: str, *, first_seq: int) -> None:
        """`first_seq` is the number that the first event will have in its journal."""
        self.agent = agent
        self.session = self.workspace = self.model = ""
        self.left_out = 0
        self._first_seq = first_seq
        self._events: list[tuple[int, Event]] = []
        self._parts: list[Text | Thinking | CallAsked] = []
        self._calls: dict[str, str] = {}
        self._said: list[tuple[int, str]] = []
        self._open: list[str] = []
        self._made = self._steps = self._turns = 0
        self._time_us = 0
        self._is_turn_open = False

    def at(self, timestamp: str) -> None:
        """The time of what follows, as ISO 8601; one that cannot be read changes nothing."""
        try:
            self._time_us = int(datetime.fromisoformat(timestamp).timestamp() * 1_000_000)
        except ValueError:
            return

    @property
    def next_seq(self) -> int:
        """The number of what is told next."""
        return self._first_seq + len(self._events)

    @property
    def said(self) -> list[str]:
        """What the user said so far, without what was taken back."""
        return [text for _, text in self._said]

    def user(self, text: str) -> None:
        if not text.strip():
            return
        self._end_turn("done")
        self._said.append((self.next_seq, text))
        self._add(UserSaid(text=text))
        self._turns += 1
        self._is_turn_open = True
        self._add(TurnStarted(turn=self._turns))

    def say(self, text: str) -> None:
        self._begin_reply()
        if text:
            self._parts.append(Text(text=text))

    def think(self, text: str) -> None:
        self._begin_reply()
        if text:
            self._parts.append(Thinking(text=text))

    def call(self, name: str, arguments: str, foreign_id: str) -> None:
        self._begin_reply()
        self._made += 1
        call = f"i{self._made:08}"
        self._calls[foreign_id] = call
        self._parts.append(CallAsked(call=call, name=name, arguments=arguments, provider_id=foreign_id))

    def result(self, foreign_id: str, output: str, *, is_error: bool = False) -> None:
        self.end_reply()
        call = self._calls.get(foreign_id)
        if call is None or call not in self._open:
            self.left_out += 1
            return
        self._open.remove(call)
        self._add(CallEnded(call=call, outcome="error" if is_error else "ok", output=output))

    def note(self, text: str) -> None:
        """Something that the agent was told, and not by the user."""
        self.end_reply()
        self._add(NoteAdded(text=text, source=self.agent))

    def interrupted(self) -> None:
        self._end_turn("interrupted")

    def compacted(self, summary: str, *, keep_from_seq: int | None = None) -> None:
        """From here on the agent knew only this summary, and what was told from `keep_from_seq` on."""
        self._end_turn("done")
        self._add(Compacted(summary=summary, keep_from_seq=keep_from_seq or self.next_seq + 1))

    def taken_back(self, turns: int) -> None:
        """The user took back the last things that he said, and all that followed them."""
        self._end_turn("done")
        kept = max(len(self._said) - turns, 0)
        if turns > 0 and self._said:
            self._add(Undone(to_seq=self._said[kept][0] - 1))
            del self._said[kept:]

    def end_reply(self) -> None:
        """What the agent said so far was one reply."""
        if not self._parts:
            return
        self._steps += 1
        calls = [part.call for part in self._parts if isinstance(part, CallAsked)]
        stop = "calls" if calls else "end"
        self._add(AssistantSaid(step=self._steps, parts=tuple(self._parts), stop=stop))
        self._parts, self._open = [], calls

    def finish(self) -> Transcript:
        self.end_reply()
        self._end_turn("interrupted" if self._open else "done")
        return Transcript(
            self.agent, self.session, self.workspace, self.model, tuple(self._events), self.left_out
        )

    def _begin_reply(self) -> None:
        if not self._parts:
            self._close_calls()

    def _end_turn(self, ending: str) -> None:
        self.end_reply()
        self._close_calls()
        if self._is_turn_open:
            self._is_turn_open = False
            is_done = ending == "done"
            self._add(TurnEnded(turn=self._turns, ending="done" if is_done else "interrupted"))

    def _close_calls(self) -> None:
        for call in self._open:
            self._add(CallEnded(call=call, outcome="unknown", output=_UNSEEN))
        self._open = []

    def _add(self, event: Event) -> None:
        self._events.append((self._time_us, event))


def texts(content: object) -> Iterator[str]:
    """The texts of a message's content, which is a text or a list of blocks; an image says that it was."""
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for block in _blocks(content):  # pyright: ignore[reportUnknownArgumentType]
            text = block.get("text")
            if isinstance(text, str):
                yield text
            elif "image" in str(block.get("type", "")):
                yield "[an image that was not imported]"


def _blocks(content: list[object]) -> Iterator[dict[str, object]]:
    for block in content:
        if isinstance(block, dict):
            yield block  # pyright: ignore[reportUnknownVariableType]
