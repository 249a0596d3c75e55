"""From what a user wrote to a model that can be asked, with its key, its price and the retry policy."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from mainspring.errors import ConfigError
from mainspring.models import Model
from mainspring.models.capabilities import Capabilities
from mainspring.models.gateway import Gateway
from mainspring.models.own import ModelSettings
from mainspring.models.prices import PriceBook
from mainspring.models.protocol import BAD_CALLS, ToolProtocol
from mainspring.models.providers import (
    COMPATIBLE,
    ModelSpec,
    Provider,
    find_key,
    find_provider,
    parse_model,
)
from mainspring.models.restricted import Restricted
from mainspring.models.retry import Retried, RetryPolicy
from mainspring.models.wires.anthropic import AnthropicModel
from mainspring.models.wires.chat import ChatModel
from mainspring.models.wires.gemini import GeminiModel
from mainspring.models.wires.responses import ResponsesModel
from mainspring.models.wires.wire import Options, Wire
from mainspring.net.hosts import is_loopback
from mainspring.net.http import place
from mainspring.net.proxies import proxy_for


def connect(
    name: str,
    environment: Mapping[str, str],
    *,
    prices: PriceBook | None = None,
    policy: RetryPolicy | None = None,
    healed: Capabilities | None = None,
    gateway: Gateway | None = None,
    own: ModelSettings | None = None,
) -> Model:
    """Raises `UsageError` when the name cannot be understood or its key is missing. Nothing is sent. What a
    `gateway` is for is asked there, at the same price; `own` is what a person says of the model."""
    spec, own = resolve(name, environment), own or ModelSettings()
    known = (prices or PriceBook()).find(spec, name)
    if gateway is not None and "@" not in name and gateway.is_for(spec.provider, spec.base_url):
        gateway.check_key(environment)
        spec = gateway.through(spec)
    is_local = spec.provider.is_local or is_here(spec.base_url)
    options = Options(
        provider=spec.provider.title,
        key_variable=spec.provider.key_variable,
        is_local=is_local,
        context_tokens=known.context_tokens,
        price=known.price,
        proxy=proxy_for(spec.base_url, environment),
        healed=healed,
        sampling=own.sampling,
    )
    wire = _wire(name, spec, key(spec, environment), options)
    retried = Retried(wire, heal=wire.heal, keep=wire.keep, policy=policy)
    # Small models write calls as text, and their servers let them.
    has_forms = spec.provider.wire == "chat" and (is_local or own.tools is not None)
    form = own.tools or ("schema" if wire.lacks(BAD_CALLS) else "native")
    made = ToolProtocol(retried, form, note=wire.note_lack) if has_forms else retried
    return Restricted(made, own) if own.restricts else made


def resolve(name: str, environment: Mapping[str, str]) -> ModelSpec:
    """The provider, model and address that a name stands for here. With OPENAI_BASE_URL set, OpenAI's names
    and bare names are asked for there, over the wire that such servers speak."""
    spec = _resolved(name, environment)
    try:
        if spec.base_url:
            place(urlsplit(spec.base_url))
    except ValueError as error:
        raise ConfigError(
            f"{spec.base_url} is not the address of a server.",
            remedy="Write it like http://127.0.0.1:8080/v1.",
        ) from error
    return spec


def _resolved(name: str, environment: Mapping[str, str]) -> ModelSpec:
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
        remedy=f"Set {provider.key_variable}; get a key at {provider.key_page}.",
    )


def _wire(name: str, spec: ModelSpec, api_key: str, options: Options) -> Wire:
    provider = spec.provider
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
