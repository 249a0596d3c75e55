"""What outside agents say, in the words that all of them share. A reader of each agent turns its lines into
these; `telling` turns these into events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Protocol, cast

import msgspec

from mainspring.events import Ending, PlanItem, Usage


class Shown(msgspec.Struct, frozen=True):
    """A piece of text as it comes; the whole follows as `Spoken` or `Thought` with `is_shown`."""

    text: str
    is_thinking: bool = False


class Spoken(msgspec.Struct, frozen=True):
    """Text of the agent: a whole message, or with `is_piece` the next piece of one."""

    text: str
    is_shown: bool = False
    is_piece: bool = False


class Thought(msgspec.Struct, frozen=True):
    text: str
    is_shown: bool = False
    is_piece: bool = False


class Called(msgspec.Struct, frozen=True):
    """The agent uses a tool of its own; while it `is_pending` the tool has not begun, and may never."""

    id: str
    name: str
    arguments: Any = None
    is_pending: bool = False


class Begun(msgspec.Struct, frozen=True):
    """A pending call has begun."""

    id: str


class Returned(msgspec.Struct, frozen=True):
    id: str
    output: str = ""
    is_error: bool = False
    exit_code: int | None = None
    is_refused: bool = False


class Planned(msgspec.Struct, frozen=True):
    items: tuple[PlanItem, ...]


class Used(msgspec.Struct, frozen=True):
    """Tokens, and money when the agent says how much. With `key` it replaces what was said under that key;
    a total (an empty key) replaces all."""

    usage: Usage
    usd: float | None = None
    key: str = ""


class Named(msgspec.Struct, frozen=True):
    """The agent's own name of this conversation, by which it can go on with it, and of its model."""

    conversation: str
    model: str = ""


Outage = Literal["", "RateLimited", "Overloaded"]
"""What is wrong with a provider that will answer again later, in the names of our own errors."""


class Failed(msgspec.Struct, frozen=True):
    """The agent gave up. `resets_at_us` is when its provider will answer again, as far as it says so."""

    message: str
    ending: Ending = "failed"
    resets_at_us: int | None = None
    outage: Outage = ""


class AgentFinished(msgspec.Struct, frozen=True):
    """The agent says that it is done; `text` is its last message, in case it was not said before."""

    text: str = ""


class Unread(msgspec.Struct, frozen=True):
    """A line that is not what the agent's format says."""

    text: str


Saying = Spoken | Thought | Called | Begun | Returned
"""What becomes part of the conversation."""

Item = Shown | Saying | Planned | Used | Named | Failed | AgentFinished | Unread


class LineReader(Protocol):
    """Reads the output of one run. It keeps only what later lines need."""

    def read(self, line: bytes) -> Iterable[Item]:
        """May raise `msgspec.MsgspecError` for a line that is not of the format."""
        ...


def outage_of(status: object) -> Outage:
    """What a provider's HTTP status says about asking it again."""
    if not isinstance(status, int):
        return ""
    return "RateLimited" if status == 429 else "Overloaded" if 500 <= status < 600 else ""


def joined(content: object) -> str:
    """The text of a result, which is a text, a list of blocks, or something else to be shown as JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for text in map(_block, cast("list[object]", content)) if text)
    return msgspec.json.encode(content).decode()


def _block(block: object) -> str:
    if not isinstance(block, dict):
        return joined(block)
    fields = cast("dict[str, object]", block)
    text = fields.get("text")
    return text if isinstance(text, str) else f"[{fields.get('type', '')}]"
