"""Builds the models that a user named, and refuses those that cannot do what is wanted of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mainspring.app.plugins import plugin_model
from mainspring.context.history import estimated_tokens
from mainspring.engines import builtin
from mainspring.errors import ConfigError, MainspringError, ModelError, UsageError
from mainspring.events import Compacted, Limits, Profile, ToolSpec
from mainspring.folds.caps import is_money_capped
from mainspring.models import Model
from mainspring.models.capabilities import Capabilities
from mainspring.models.connect import asked_at, connect, did_you_mean, is_here, key, resolve
from mainspring.models.local.model import MODULE as LOCAL_SERVER
from mainspring.models.local.model import LocalModel
from mainspring.models.own import ModelSettings
from mainspring.models.prices import PriceBook, refreshed_path
from mainspring.models.probe import probe_server
from mainspring.models.protocol import ToolProtocol
from mainspring.models.providers import ModelSpec, find_key, provider_of
from mainspring.models.records import ModelRecord, record_of, settings_for
from mainspring.models.restricted import Restricted
from mainspring.models.retry import Retried
from mainspring.models.served import ServedModel
from mainspring.models.tiers import find_tier, model_of
from mainspring.models.wrapper import WithContextSize
from mainspring.net.proxies import proxy_for
from mainspring.secrets.key_store import read_keys
from mainspring.settings import Config
from mainspring.turns.runtime import HistoryCompactor, Runtime

if TYPE_CHECKING:
    from mainspring.sandbox.companion import Companion

_LOADED_WITHIN_S = 600.0
_TOLD_WITHIN_S = 2.0
_LEAST_ROOM_TOKENS = 1024


def priced(named: Model | str, *, config: Config, limits: Limits, allow_unpriced: bool) -> Model:
    model = build_model(named, config) if isinstance(named, str) else named
    close_names = partial(_close_to, model.name, config) if isinstance(named, str) else tuple
    check_price(model, limits, allow_unpriced=allow_unpriced, close_names=close_names)
    return model


def build_model(spec: str, config: Config) -> Model:
    """The model that a user named: a provider's, a plugin's, `openai-compatible@URL#NAME`, `scripted@FILE`,
    or `local` and `local/FILE.gguf`, which are on this machine."""
    spec = model_of(
        spec, config.settings.tiers, config.key_environment, usual=config.model, gateway=config.gateway
    )
    if spec == "local" or spec.startswith("local/"):
        return build_local(spec, config)
    if spec.startswith("scripted@"):
        scripted = import_module("mainspring.models.scripted")
        script: Model = scripted.ScriptedModel(
            scripted.load_script(Path(spec.removeprefix("scripted@"))), name=spec
        )
        return script
    if made := plugin_model(spec, config):
        return made
    _refuse_unread_key(spec, config)
    return connect(
        spec,
        config.key_environment,
        prices=price_book(config),
        policy=config.settings.retry,
        healed=healed(config),
        gateway=config.gateway,
        own=settings_for(known_spec(spec, config), spec, config.model_settings),
        close_names=partial(_close_to, spec, config),
    )


def known_spec(name: str, config: Config) -> ModelSpec:
    """What a name stands for; `UsageError` with close ones when nobody is known to offer it."""
    try:
        return resolve(name, config.environment)
    except UsageError as error:
        if not name or provider_of(name) or not (names := _close_to(name, config)):
            raise
        raise UsageError(error.message, remedy=f"{did_you_mean(names)} {error.remedy}") from error


def own_models(config: Config) -> tuple[str, ...]:
    """The models that the user has set up, by the names in the settings."""
    tiers = config.settings.tiers
    models = (
        model for each in tiers.values() for model in ([each] if isinstance(each, str) else each.values())
    )
    review = config.settings.review.model
    return (config.model, *config.fallback, *tiers, *models, *config.model_settings, review)


def delegated_model(name: str, config: Config) -> str:
    """The model that a call or a file of an agent names, where it may be asked: what the user has set up, or
    one of a provider that is asked with the user's key where that provider is. Empty when it is not known
    here, as files of other agents name models that only those know; `UsageError` for an address or a file of
    somebody else's choice, which would get the user's key and work."""
    tiers = config.settings.tiers
    if name in own_models(config) or (find_tier(name, tiers) and name.partition("/")[2]):
        return name
    if "@" in name:
        raise UsageError(
            f"An agent may not be given the model {name}: its address is not in the settings.",
            remedy="Leave the model out, or have the user set a tier for it in config.toml ([tiers]).",
        )
    try:
        environment = config.key_environment
        key(asked_at(resolve(name, environment), environment, config.gateway), environment)
    except (UsageError, ConfigError):
        return ""
    return name


def _close_to(name: str, config: Config) -> Sequence[str]:
    # Loaded with the table of prices when it is needed: reading that takes 5 ms.
    return import_module("mainspring.app.model_names").close_to(name, config)


def _refuse_unread_key(name: str, config: Config) -> None:
    """`ConfigError` when the key was stored and cannot be read, which is not the same as having none."""
    for variable in known_spec(name, config).provider.key_variables:
        problem = read_keys(config.folder).problems.get(variable)
        if problem and not config.has_key(variable):
            raise ConfigError(
                f"The key for {name} is stored, but {problem}.",
                remedy=f"Unlock the keyring, store the key again (mainspring keys add), or set {variable}.",
            )


def healed(config: Config) -> Capabilities:
    """What models were found not to take."""
    return Capabilities(config.home / "healed.json")


def price_book(config: Config) -> PriceBook:
    settings, own = config.settings, config.model_settings
    prices = {name: each.price for name, each in own.items() if each.price}
    windows = {name: each.window for name, each in own.items() if each.window}
    return PriceBook(
        {**settings.prices, **prices},
        windows={**settings.context_tokens, **windows},
        refreshed=refreshed_path(config.home),
    )


async def ready(model: Model, config: Config, wanted: Profile | None = None) -> tuple[Model, ModelRecord]:
    """A model that is told of tools as it takes them, and what is known of it: one on this machine is loaded
    for that, and a server of one's own is asked. Its profile is what was `wanted`, if anything was."""
    wanted = wanted or config.settings.work.profile
    if isinstance(model, LocalModel):
        await model.start()
        own = config.model_settings.get(model.name, ModelSettings())
        record = record_of(
            model.name, model.path.name, own, is_local=True, served=model.served, wanted=wanted
        )
        model.use(record.tools, record.thinking_tokens)
        return Retried(model), record
    try:
        record = await look_up(model.name, config, wanted)
    except UsageError:  # a program's own, which it names as it likes
        return model, ModelRecord(name=model.name, profile=wanted or "standard")
    inner = model.inner if isinstance(model, Restricted) else model
    if isinstance(inner, ToolProtocol):
        inner.form, inner.thinking_tokens = record.tools, record.thinking_tokens
    is_new = record.window and not model.context_tokens
    return WithContextSize(model, record.window) if is_new and record.window else model, record


async def ready_for(
    model: Model, engine: str, config: Config, wanted: Profile | None, recorded: Profile | None
) -> tuple[Model, Profile]:
    """The model of a session, and that session's profile: an earlier one keeps what is `recorded`."""
    if wanted and recorded not in (None, wanted):
        raise UsageError(
            f"This session has the profile {recorded}, which cannot be changed.",
            remedy="Open a new session with --profile.",
        )
    if engine != builtin.NAME:
        return model, "standard"
    chosen, record = await ready(model, config, wanted or recorded)
    return chosen, record.profile


async def ready_later(model: Model, config: Config, wanted: Profile | None = None) -> Model:
    """The same in the middle of a session: what is wrong with a model is said by its first request."""
    try:
        return (await ready(model, config, wanted))[0]
    except MainspringError:
        return Retried(model)


async def look_up(name: str, config: Config, wanted: Profile | None = None) -> ModelRecord:
    """What is known of a model by its name; a server of one's own is asked. `UsageError` for a name that
    nobody knows."""
    spec = resolve(name, config.environment)
    is_local = spec.provider.is_local or is_here(spec.base_url)
    return record_of(
        name,
        spec.model,
        settings_for(spec, name, config.model_settings),
        is_local=is_local,
        listed=price_book(config).find(spec, name),
        served=await _served(spec, config.key_environment) if is_local else None,
        seen=healed(config).known(f"{spec.base_url} {spec.model}"),
        wanted=wanted,
    )


async def _served(spec: ModelSpec, environment: Mapping[str, str]) -> ServedModel | None:
    """What a server such as Ollama says of a model; None when it does not, or is no such server."""
    try:
        found = find_key(spec.provider, environment)
        proxy = proxy_for(spec.base_url, environment)
        served = await probe_server(
            spec.base_url, found, model=spec.model, timeout_s=_TOLD_WITHIN_S, proxy=proxy
        )
    except ModelError:
        return None  # its first request says so
    names = (spec.model, f"{spec.model}:latest")
    (only, *others) = served or (None,)
    # llama.cpp serves one model, whatever it is asked for.
    return next((model for model in served if model.id in names), None if others else only)


def build_local(spec: str, config: Config) -> LocalModel:
    """The model in a file on this machine; named by its whole path, so that a session finds it again."""
    path: Path = import_module("mainspring.models.local.weights").find_weights(spec, config.home)

    async def start(line: bytes) -> Companion:
        if find_spec("xllamacpp") is None:
            raise UsageError(
                "Local models need llama.cpp, which is not installed.",
                remedy='Install it: pip install "mainspring[local]".',
            )
        return await import_module("mainspring.sandbox.companion").start_companion(
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


class LateCompactor:
    """Loads what makes a history short when one is too long. `model` writes summaries, if one is named."""

    def __init__(self, model: Model | None) -> None:
        self._model = model
        self._loaded: HistoryCompactor | None = None

    async def __call__(self, runtime: Runtime, /, *, reason: str, until: int) -> Compacted | None:
        loaded = self._loaded or import_module("mainspring.turns.compactor").Compactor(self._model)
        self._loaded = loaded
        return await loaded(runtime, reason=reason, until=until)

    async def aclose(self) -> None:
        if self._model is not None:
            await self._model.close()


def build_compactor(config: Config) -> LateCompactor:
    writer = config.settings.compaction_model
    return LateCompactor(build_model(writer, config) if writer else None)


def check_price(
    model: Model,
    limits: Limits,
    *,
    allow_unpriced: bool,
    close_names: Callable[[], Sequence[str]] = tuple,
) -> None:
    """A capped run needs a price: a cap that cannot be kept is not given."""
    if model.price is None and is_money_capped(limits) and not allow_unpriced:
        names = close_names()
        raise UsageError(
            f"The price of {model.name} is unknown, so the cost limit cannot be kept.",
            remedy=f"{did_you_mean(names)} "
            * bool(names)
            + f'Set it in config.toml ([prices."{model.name}"] input = …, output = …, in USD per million'
            " tokens), or run with --allow-unpriced.",
        )
