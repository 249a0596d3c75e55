"""The port to a language model: a request goes in, one stream of deltas comes out.

A wire adapter (one file per protocol) encodes each message once, when it joins the history; a request body
is joined from those bytes. An adapter maps every foreign failure to a `ModelError` and never retries: that
is `retry.py`'s task. Streaming only: a reply that comes whole is a stream of one delta.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from mainspring.events import (
    Alternative,
    CallDelta,
    Effort,
    Part,
    Speed,
    Stop,
    TextDelta,
    ThinkingDelta,
    ToolSpec,
    Usage,
)
from mainspring.events.counts import rounded_usd


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """An image or a document, with its bytes at hand."""

    media_type: str
    data: bytes
    name: str = ""


class UserMessage(msgspec.Struct, frozen=True, gc=False):
    text: str
    attachments: tuple[Attachment, ...] = ()


class AssistantMessage(msgspec.Struct, frozen=True, gc=False):
    parts: tuple[Part, ...]


class ToolResult(msgspec.Struct, frozen=True, gc=False):
    """What one call gave, in the words the model is told."""

    call: str
    name: str
    text: str
    is_error: bool = False
    attachments: tuple[Attachment, ...] = ()


class ResultsMessage(msgspec.Struct, frozen=True, gc=False):
    """The results of all calls of the assistant message before it, in the order asked."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ResultsMessage


class LongPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all tokens of a request cost when its input is larger than `above_tokens`."""

    above_tokens: Annotated[int, msgspec.Meta(ge=0)]
    """Tokens of input above which this price holds."""
    price: Price
    """The price of all tokens of such a request."""


UsdPerMillion = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """US dollars per million tokens; `long` are other prices for large requests."""

    input: UsdPerMillion = 0.0
    """US dollars per million tokens of input."""
    output: UsdPerMillion = 0.0
    """US dollars per million tokens of output."""
    cached: UsdPerMillion | None = None
    """US dollars per million tokens read from the provider's cache; unset: as `input`."""
    cache_write: UsdPerMillion | None = None
    """US dollars per million tokens written to that cache; unset: as `input`."""
    long: tuple[LongPrice, ...] = ()
    """Other prices for large requests; the one for the most tokens that a request has counts."""

    def saved_usd(self, usage: Usage) -> float:
        """How much more a request would cost without the provider's cache; less than 0 when it only filled
        that."""
        uncached = msgspec.structs.replace(usage, cached_tokens=0, cache_write_tokens=0)
        return rounded_usd(self.cost_usd(uncached) - self.cost_usd(usage))

    def cost_usd(self, usage: Usage) -> float:
        if above := [step for step in self.long if usage.input_tokens > step.above_tokens]:
            return max(above, key=lambda step: step.above_tokens).price.cost_usd(usage)
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        return rounded_usd(
            (
                max(plain, 0) * self.input
                + usage.cached_tokens * cached
                + usage.cache_write_tokens * written
                + usage.output_tokens * self.output
            )
            / 1_000_000
        )


class Request(msgspec.Struct, frozen=True):
    """One request. `messages` were encoded by the same model's `encode`, in order. No effort is the
    provider's own choice. With a `schema` the reply is JSON that fits it; where it `is_schema_told` in the
    system prompt, a model that cannot be held to it is asked without. With `must_call` the reply must call a
    tool. A temperature or a seed is sent where the wire has a field for it, as is how many tokens of thinking
    there may be. A reply that holds whole files does not change the `kept_files`. `short` is the same for a
    model that is not told of tools by its server. Where a server can say it, `alternatives` other tokens are
    told of each place. A reply goes on from `start`, which a server may repeat, and ends before a text of
    `stops`."""

    system: str
    tools: tuple[ToolSpec, ...]
    messages: Sequence[bytes]
    max_output_tokens: int | None = None
    effort: Effort | None = None
    schema: dict[str, Any] | None = None
    must_call: bool = False
    temperature: float | None = None
    seed: int | None = None
    is_schema_told: bool = False
    thinking_tokens: int | None = None
    kept_files: tuple[str, ...] = ()
    short: Request | None = None
    alternatives: int = 0
    start: str = ""
    stops: tuple[str, ...] = ()


class ReplyFinished(msgspec.Struct, frozen=True):
    """The last item of every stream. `dropped` actions stood in the reply behind the one that counts;
    `alternatives` are what was nearly said instead, the likeliest first."""

    stop: Stop
    usage: Usage
    speed: Speed | None = None
    dropped: int = 0
    alternatives: tuple[Alternative, ...] = ()


class Retrying(msgspec.Struct, frozen=True):
    """An attempt failed and another follows; what was streamed so far is void."""

    attempt: int
    error: str
    message: str
    retry_in_s: float


StreamItem = TextDelta | ThinkingDelta | CallDelta | Retrying | ReplyFinished


class Model(Protocol):
    """One model of one provider. `name` is how a user names it, and is what the journal records."""

    @property
    def name(self) -> str: ...

    @property
    def context_tokens(self) -> int | None:
        """How much it takes, or None when nobody said."""
        ...

    @property
    def price(self) -> Price | None:
        """What it costs, or None when nobody said."""
        ...

    @property
    def encode(self) -> Callable[[Message], bytes]:
        """A message in this wire's form; pure, so that the same message always has the same bytes. A model
        that changes its form has another one from then on."""
        ...

    def media_problem(self, attachment: Attachment, /) -> str:
        """Why `encode` leaves an attachment out; empty when it does not."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        """Ends with `ReplyFinished`, or raises a `ModelError`."""
        ...

    async def close(self) -> None: ...
