"""What a model thinks aloud in `<think>` tags before its reply, for servers that do not tell it apart: it is
no part of the answer, and calls in it are not meant.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from mainspring.events import TextDelta, ThinkingDelta
from mainspring.models import ReplyFinished, Retrying, StreamItem

_TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"))


class _Thought:
    """The text of one reply as it comes, divided. `_end` is the tag that is waited for; None where it is not
    known yet whether there is a thought, and empty when there is none, or no more."""

    def __init__(self) -> None:
        self._held = ""
        self._end: str | None = None
        self._has_thought = False

    def feed(self, text: str) -> list[TextDelta | ThinkingDelta]:
        self._held += text
        if self._end is None:
            self._begin()
        if self._end is None:
            return []
        return self._thinking(self._end) if self._end else self.rest()

    def rest(self) -> list[TextDelta | ThinkingDelta]:
        """What is held back."""
        text, self._held = self._held, ""
        if not text:
            return []
        return [ThinkingDelta(text=text)] if self._end else [TextDelta(text=text)]

    def _begin(self) -> None:
        begun = self._held.lstrip()
        for tag, end in _TAGS:
            if begun.startswith(tag):
                self._held, self._end, self._has_thought = begun.removeprefix(tag), end, True
                return
        if not any(tag.startswith(begun) for tag, _ in _TAGS):
            self._held, self._end = begun if self._has_thought else self._held, ""

    def _thinking(self, end: str) -> list[TextDelta | ThinkingDelta]:
        thought, found, rest = self._held.partition(end)
        if found:
            shown: list[TextDelta | ThinkingDelta] = [ThinkingDelta(text=thought)] if thought.strip() else []
            self._held, self._end = rest.lstrip(), None  # another thought may follow
            return [*shown, *self.feed("")]
        free = len(thought) - max(size for size in range(len(end)) if thought.endswith(end[:size]))
        if not thought[:free].strip():
            return []
        self._held = thought[free:]
        return [ThinkingDelta(text=thought[:free])]


async def divided(items: AsyncGenerator[StreamItem]) -> AsyncGenerator[StreamItem]:
    """A stream in which the thought that a reply begins with is one."""
    thought = _Thought()
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    for delta in thought.feed(item.text):
                        yield delta
                case Retrying():
                    thought = _Thought()
                    yield item
                case ReplyFinished():
                    for delta in thought.rest():
                        yield delta
                    yield item
                case _:
                    yield item
