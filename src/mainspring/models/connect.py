"""From what a user wrote to a model that can be asked, with its key, its price and the retry policy."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import ConfigError, ModelError
from mainspring.models import Model
from mainspring.models.anthropic import AnthropicModel
from mainspring.models.chat import ChatModel
from mainspring.models.failures import Endpoint
from mainspring.models.gemini import GeminiModel
from mainspring.models.healed import Healed
from mainspring.models.http import Bounds, Channel, is_loopback
from mainspring.models.prices import Known, PriceBook
from mainspring.models.providers import (
    COMPATIBLE,
    ModelSpec,
    Provider,
    find_key,
    find_provider,
    parse_model,
)
from mainspring.models.rescue import Rescuing
from mainspring.models.responses import ResponsesModel
from mainspring.models.retry import Retried, RetryPolicy
from mainspring.models.wire import Options, Wire


def connect(
    name: str,
    environment: Mapping[str, str],
    *,
    prices: PriceBook | None = None,
    policy: RetryPolicy | None = None,
    bounds: Bounds | None = None,
    healed: Healed | None = None,
) -> Model:
    """Raises `UsageError` when the name cannot be understood or its key is missing. Nothing is sent."""
    spec = resolve(name, environment)
    known = (prices or PriceBook()).find(spec, name)
    wire = _wire(name, spec, key(spec, environment), known, bounds, healed)
    retried = Retried(wire, heal=wire.heal, keep=wire.keep, policy=policy)
    # Small models write calls as text, and their servers let them.
    is_local = spec.provider.is_local or is_here(spec.base_url)
    return Rescuing(retried) if is_local else retried


def resolve(name: str, environment: Mapping[str, str]) -> ModelSpec:
    """The provider, model and address that a name stands for here. With OPENAI_BASE_URL set, OpenAI's names
    and bare names are asked for there, over the wire that such servers speak."""
    elsewhere = environment.get("OPENAI_BASE_URL", "").strip()
    is_plain = name and "@" not in name and not find_provider(name.partition("/")[0])
    if elsewhere and is_plain:
        return ModelSpec(COMPATIBLE, name, elsewhere.rstrip("/"))
    spec = parse_model(name)
    provider = spec.provider
    if elsewhere and provider.id == "openai" and not spec.base_url:
        return ModelSpec(COMPATIBLE, spec.model, elsewhere.rstrip("/"))
    return ModelSpec(provider, spec.model, spec.base_url or address(provider, environment))


def address(provider: Provider, environment: Mapping[str, str]) -> str:
    """Where a provider is asked; empty when it is nowhere."""
    variable = "OPENAI_BASE_URL" if provider is COMPATIBLE else provider.base_url_variable
    return (environment.get(variable, "").strip() or provider.base_url).rstrip("/")


def key(spec: ModelSpec, environment: Mapping[str, str]) -> str:
    """The key for a model; a provider that needs one and has none is named with the variable to set."""
    provider = spec.provider
    found = find_key(provider, environment)
    if found or provider.is_local or provider is COMPATIBLE or is_here(spec.base_url):
        return found
    raise ConfigError(
        f"There is no key for {provider.title}.",
        remedy=f"Set {provider.key_variable}; keys are made at {provider.key_page}.",
    )


class Served(msgspec.Struct, frozen=True):
    """A model that a server says it has."""

    id: str
    context_tokens: int | None = None


async def served(
    provider: Provider, base_url: str = "", api_key: str = "", *, bounds: Bounds | None = None
) -> tuple[Served, ...]:
    """The models that a server lists; raises `ModelError` when it cannot be asked."""
    base_url = base_url or provider.base_url
    endpoint = Endpoint(provider.title, base_url, "", provider.key_variable, provider.is_local)
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    channel = Channel(endpoint, headers, bounds or Bounds(connect_s=2.0, silence_s=10.0, total_s=10.0))
    try:
        body = await channel.get("/models")
        listed = msgspec.json.decode(body, type=_Listed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"{base_url} does not list models.", remedy="Check the base URL.") from error
    finally:
        await channel.close()
    return tuple(Served(each.id, each.context_tokens) for each in listed.data)


class _Meta(msgspec.Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class _Entry(msgspec.Struct):
    """Each kind of server has its own word for how much context a model takes."""

    id: str
    max_model_len: int | None = None
    context_length: int | None = None
    context_window: int | None = None
    max_context_length: int | None = None
    meta: _Meta | None = None

    @property
    def context_tokens(self) -> int | None:
        meta = self.meta or _Meta()
        given = (self.max_model_len, self.context_length, self.context_window, self.max_context_length)
        return next((count for count in (*given, meta.n_ctx, meta.n_ctx_train) if count), None)


class _Listed(msgspec.Struct):
    data: list[_Entry]


def _wire(
    name: str, spec: ModelSpec, api_key: str, known: Known, bounds: Bounds | None, healed: Healed | None
) -> Wire:
    provider = spec.provider
    options = Options(
        provider=provider.title,
        key_variable=provider.key_variable,
        is_local=provider.is_local or is_here(spec.base_url),
        context_tokens=known.context_tokens,
        price=known.price,
        bounds=bounds,
        healed=healed,
    )
    match provider.wire:
        case "chat":
            return ChatModel(name, spec.base_url, api_key, spec.model, quirks=provider.quirks, **options)
        case "responses":
            return ResponsesModel(name, spec.base_url, api_key, spec.model, **options)
        case "anthropic":
            return AnthropicModel(name, spec.base_url, api_key, spec.model, **options)
        case "gemini":
            return GeminiModel(name, spec.base_url, api_key, spec.model, **options)


def is_here(base_url: str) -> bool:
    """Whether an address is on this machine."""
    return is_loopback(urlsplit(base_url).hostname or "")
