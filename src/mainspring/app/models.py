"""Builds the models that a user named, and refuses those that cannot do what is wanted of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec

from mainspring.context.history import estimated_tokens
from mainspring.errors import MainspringError, ModelError, UsageError
from mainspring.events import (
    Limits,
    ToolSpec,
)
from mainspring.folds.caps import is_money_capped
from mainspring.models import Model
from mainspring.models.capabilities import Capabilities
from mainspring.models.connect import connect, resolve
from mainspring.models.local.model import MODULE as LOCAL_SERVER
from mainspring.models.local.model import LocalModel
from mainspring.models.local.weights import find_weights
from mainspring.models.prices import PriceBook, refreshed_path
from mainspring.models.probe import probe_server
from mainspring.models.providers import find_key, find_provider, provider_of
from mainspring.models.retry import Retried
from mainspring.models.scripted import ScriptedModel, load_script
from mainspring.models.tiers import model_of
from mainspring.models.wrapper import WithContextSize
from mainspring.sandbox.companion import Companion, start_companion
from mainspring.settings import Config
from mainspring.turns.compactor import Compactor

_LOADED_WITHIN_S = 600.0
_TOLD_WITHIN_S = 2.0
_LEAST_ROOM_TOKENS = 1024


def priced(named: Model | str, *, config: Config, limits: Limits, allow_unpriced: bool) -> Model:
    model = build_model(named, config) if isinstance(named, str) else named
    check_price(model, limits, allow_unpriced=allow_unpriced)
    return model


def build_model(spec: str, config: Config) -> Model:
    """The model that a user named: a provider's, `openai-compatible@URL#NAME`, `scripted@FILE`, or
    `local` and `local/FILE.gguf`, which are on this machine."""
    spec = model_of(
        spec, config.settings.tiers, config.environment, usual=config.model, gateway=config.gateway
    )
    if spec == "local" or spec.startswith("local/"):
        return build_local(spec, config)
    if spec.startswith("scripted@"):
        return ScriptedModel(load_script(Path(spec.removeprefix("scripted@"))), name=spec)
    return connect(
        spec,
        config.environment,
        prices=price_book(config),
        policy=config.settings.retry,
        healed=Capabilities(config.home / "healed.json"),
        gateway=config.gateway,
    )


def price_book(config: Config) -> PriceBook:
    settings = config.settings
    return PriceBook(settings.prices, windows=settings.context_tokens, refreshed=refreshed_path(config.home))


async def ready(model: Model, environment: Mapping[str, str]) -> Model:
    """A model of which it is known what it takes: one on this machine is loaded for that, and a server of
    one's own is asked."""
    if isinstance(model, LocalModel):
        await model.start()
        return Retried(model)
    window = None if model.context_tokens else await _served_window(model.name, environment)
    return WithContextSize(model, window) if window else model


async def ready_later(model: Model, environment: Mapping[str, str]) -> Model:
    """The same in the middle of a session: what is wrong with a model is said by its first request."""
    try:
        return await ready(model, environment)
    except MainspringError:
        return Retried(model)


async def _served_window(name: str, environment: Mapping[str, str]) -> int | None:
    """What a server such as Ollama gives a model; None when it does not say, or is no such server."""
    if not (known := find_provider(provider_of(name))) or not known.is_local:
        return None
    spec = resolve(name, environment)
    try:
        served = await probe_server(spec.base_url, find_key(known, environment), timeout_s=_TOLD_WITHIN_S)
    except ModelError:
        return None  # its first request says so
    names = (spec.model, f"{spec.model}:latest")
    return next((model.context_tokens for model in served if model.id in names), None)


def build_local(spec: str, config: Config) -> LocalModel:
    """The model in a file on this machine; named by its whole path, so that a session finds it again."""
    path = find_weights(spec, config.home)

    async def start(line: bytes) -> Companion:
        if find_spec("xllamacpp") is None:
            raise UsageError(
                "Local models need llama.cpp, which is not installed.",
                remedy='Install it: pip install "mainspring[local]".',
            )
        return await start_companion(
            LOCAL_SERVER, line, environment=config.environment, timeout_s=_LOADED_WITHIN_S
        )

    name = f"local/{path}" if spec.endswith(".gguf") else spec
    return LocalModel(name, path, start, context_tokens=config.settings.local_context_tokens)


def check_context(model: Model, system: str, tools: Sequence[ToolSpec]) -> None:
    """A model that cannot take the prompt before anything was said is of no use."""
    if model.context_tokens is None:
        return
    needed = estimated_tokens(len(system) + len(msgspec.json.encode(tools)))
    if needed + _LEAST_ROOM_TOKENS > model.context_tokens:
        raise UsageError(
            f"{model.name} takes {model.context_tokens:,} tokens. The instructions and the tools need about"
            f" {needed:,}, and a task needs {_LEAST_ROOM_TOKENS:,} more.",
            remedy="Use a model with a larger context window.",
        )


def build_compactor(config: Config) -> Compactor:
    writer = config.settings.compaction_model
    return Compactor(build_model(writer, config) if writer else None)


def check_price(model: Model, limits: Limits, *, allow_unpriced: bool) -> None:
    """A capped run needs a price: a cap that cannot be kept is not given."""
    if model.price is None and is_money_capped(limits) and not allow_unpriced:
        raise UsageError(
            f"The price of {model.name} is unknown, so the cost limit cannot be kept.",
            remedy=f'Set it in config.toml ([prices."{model.name}"] input = …, output = …, in USD per million'
            " tokens), or run with --allow-unpriced.",
        )
