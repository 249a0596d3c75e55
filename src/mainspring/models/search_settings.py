"""What a user can say about web search: `[search]` in `config.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

SearchBackend = Literal["", "searxng", "brave", "url", "provider"]


class SearchSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where agents search the web (`[search]` in `config.toml`). Without a backend they have no such tool."""

    backend: SearchBackend = ""
    """searxng, brave, url (any address that answers JSON) or provider (the search of a model's provider:
    Anthropic, OpenAI or Gemini)."""
    url: str = ""
    """The address: of the SearXNG server, or one with `{query}` in it for `url`."""
    headers: dict[str, str] = {}
    """Headers of each request to `url`; `${VAR}` stands for a variable of the environment."""
    key_variable: str = "BRAVE_API_KEY"
    """The environment variable with the key for Brave."""
    model: str = ""
    """The model that searches for `provider`, as `--model` takes it; empty: the default model."""
    results: Annotated[int, msgspec.Meta(ge=1, le=20)] = 8
    """Maximum results of one search."""
    cost_usd: Annotated[float, msgspec.Meta(ge=0, le=100)] | None = None
    """What one search costs, in US dollars, without tokens; unset: 0.005 for Brave, 0.035 for a provider,
    else nothing."""
