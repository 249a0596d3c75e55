"""What a person says of a model in `config.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainspring.events import Profile
from mainspring.models import Price

ToolForm = Literal["native", "schema", "text"]
"""How a model is told of tools; `protocol.py` says what each means."""


class ModelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person says of a model (`[models."NAME"]` in `config.toml`); it comes before what others say.
    NAME is what `--model` takes, `PROVIDER/MODEL`, or the model's own name."""

    window: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Context window in tokens."""
    profile: Profile | None = None
    """`small`: few, simple tools, a short prompt and short results; `standard`."""
    tools: ToolForm | None = None
    """How it is told of tools: `native` calls, replies held to a JSON `schema`, or `text`. Takes effect with
    chat completions."""
    images: bool | None = None
    """Whether it is sent images."""
    thinking: bool | None = None
    """Whether it is told how hard to think (`effort`)."""
    thinking_tokens: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Maximum tokens of thinking in a reply, where llama.cpp serves it. Unset: 640 in the small profile."""
    parallel_calls: bool | None = None
    """Whether more than the first call of a reply counts."""
    price: Price | None = None
    """What it costs."""
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    """Sampling temperature; unset: the provider's."""
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    """Nucleus sampling; unset: the provider's."""

    @property
    def restricts(self) -> bool:
        return self.temperature is not None or False in (self.images, self.thinking, self.parallel_calls)

    @property
    def sampling(self) -> dict[str, float]:
        """What each request says; a temperature stands in the request, which may want another one."""
        return {} if self.top_p is None else {"top_p": self.top_p}
