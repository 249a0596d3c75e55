"""From what a user wrote to a model that can be asked, with its key, its price and the retry policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import ConfigError, ModelError, ModelUnknown, UsageError
from mainspring.models import Model
from mainspring.models.capabilities import Capabilities
from mainspring.models.gateway import Gateway
from mainspring.models.own import ModelSettings
from mainspring.models.prices import PriceBook
from mainspring.models.probe import probe_server
from mainspring.models.protocol import BAD_CALLS, ToolProtocol
from mainspring.models.providers import (
    COMPATIBLE,
    PROVIDERS,
    ModelSpec,
    Provider,
    find_key,
    find_provider,
    parse_model,
)
from mainspring.models.restricted import Restricted
from mainspring.models.retry import Retried, RetryPolicy
from mainspring.models.served import ServedModel
from mainspring.models.wires.transport import TransportLimits
from mainspring.models.wires.wire import Options, Wire
from mainspring.net.hosts import is_loopback
from mainspring.net.http import place
from mainspring.net.proxies import proxy_for

_LISTED_WITHIN_S = 30.0


def connect(
    name: str,
    environment: Mapping[str, str],
    *,
    prices: PriceBook | None = None,
    policy: RetryPolicy | None = None,
    healed: Capabilities | None = None,
    gateway: Gateway | None = None,
    own: ModelSettings | None = None,
    close_names: Callable[[], Sequence[str]] = tuple,
) -> Model:
    """Raises `UsageError` when the name cannot be understood or its key is missing. Nothing is sent. What a
    `gateway` is for is asked there, at the same price; `own` is what a person says of the model, and
    `close_names` are asked for when the provider does not know it."""
    spec, own = resolve(name, environment), own or ModelSettings()
    known = (prices or PriceBook()).find(spec, name)
    is_own = spec.provider.is_local or is_here(spec.base_url)
    if "@" not in name:
        spec = asked_at(spec, environment, gateway)
    options = Options(
        provider=spec.provider.title,
        key_variable=spec.provider.key_variable,
        is_local=is_own or is_here(spec.base_url),
        context_tokens=known.context_tokens,
        price=known.price,
        proxy=proxy_for(spec.base_url, environment),
        healed=healed,
        sampling=own.sampling,
    )
    wire = _wire(name, spec, key(spec, environment), options)
    retried = Retried(
        wire, heal=wire.heal, keep=wire.keep, policy=policy, explain=partial(with_close_names, close_names)
    )
    # Small models write calls as text, and their servers let them; a gateway on this machine is none.
    has_forms = spec.provider.wire == "chat" and (is_own or own.tools is not None)
    form = own.tools or ("schema" if wire.lacks(BAD_CALLS) else "native")
    made = ToolProtocol(retried, form, note=wire.note_lack) if has_forms else retried
    return Restricted(made, own) if own.restricts else made


async def list_models(
    spec: ModelSpec, environment: Mapping[str, str], *, is_local: bool
) -> tuple[ServedModel, ...]:
    """What a provider says that it serves; the model of `spec` plays no part. A server of one's own
    (`is_local`) may say more than others do."""
    proxy = proxy_for(spec.base_url, environment)
    if is_local and spec.provider.wire == "chat":
        return await probe_server(spec.base_url, find_key(spec.provider, environment), proxy=proxy)
    options = Options(
        provider=spec.provider.title,
        key_variable=spec.provider.key_variable,
        bounds=TransportLimits(silence_s=_LISTED_WITHIN_S, total_s=_LISTED_WITHIN_S),
        proxy=proxy,
    )
    wire = _wire("", spec, key(spec, environment), options)
    try:
        return await wire.list_models()
    finally:
        await wire.close()


def asked_at(spec: ModelSpec, environment: Mapping[str, str], gateway: Gateway | None) -> ModelSpec:
    """The same model where it is asked: through a gateway that is for it, else at its provider."""
    if gateway is None or not gateway.is_for(spec.provider, spec.base_url):
        return spec
    gateway.check_key(environment)
    return gateway.through(spec)


def with_close_names(close_names: Callable[[], Sequence[str]], error: ModelError) -> ModelError:
    """The same error; one about an unknown model says which names are close."""
    if not isinstance(error, ModelUnknown) or not (names := close_names()):
        return error
    return ModelUnknown(error.message, remedy=f"{did_you_mean(names)} {error.remedy}")


def did_you_mean(names: Sequence[str]) -> str:
    return f"Did you mean {' or '.join(names)}?"


def resolve_provider(text: str, environment: Mapping[str, str]) -> ModelSpec:
    """A provider that a user named, as `PROVIDER` or `PROVIDER@URL`: a model of it without a name."""
    name, _, rest = text.partition("@")
    provider, url = find_provider(name), rest.partition("#")[0]
    if provider is None:
        ids = [each.id for each in PROVIDERS]
        raise UsageError(f"There is no provider {name!r}.", remedy=f"Choose one of {', '.join(ids)}.")
    if not url and provider.id == "openai" and address(COMPATIBLE, environment):
        provider = COMPATIBLE
    url = url or address(provider, environment)
    if not url:
        raise UsageError(
            f"{provider.id} has no address.", remedy=f"Write {provider.id}@URL, or set OPENAI_BASE_URL."
        )
    return msgspec.structs.replace(resolve(f"{provider.id}@{url}#-", environment), model="")


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
        remedy=f"Store one (mainspring keys add {provider.id}), or set {provider.key_variable}; get a key at"
        f" {provider.key_page}.",
    )


def _wire(name: str, spec: ModelSpec, api_key: str, options: Options) -> Wire:
    provider, wires = spec.provider, "mainspring.models.wires"  # only the one that is spoken is loaded
    match provider.wire:
        case "chat":
            make = partial(import_module(f"{wires}.chat").ChatModel, quirks=provider.quirks)
        case "responses":
            make = import_module(f"{wires}.responses").ResponsesModel
        case "anthropic":
            make = import_module(f"{wires}.anthropic").AnthropicModel
        case "gemini":
            make = import_module(f"{wires}.gemini").GeminiModel
    return make(name, spec.base_url, api_key, spec.model, **options)


def is_here(base_url: str) -> bool:
    """Whether an address is on this machine."""
    return is_loopback(urlsplit(base_url).hostname or "")
