"""The names of models that are known here: what providers listed, the table of prices, and the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mainspring.errors import UsageError
from mainspring.models.close_names import close_names
from mainspring.models.connect import address, asked_at, resolve
from mainspring.models.local.weights import PULLABLE
from mainspring.models.model_lists import KeptList, ModelLists
from mainspring.models.pricelist import PriceTable, load_table
from mainspring.models.prices import refreshed_path
from mainspring.models.providers import COMPATIBLE, PROVIDERS, ModelSpec, Provider, find_key
from mainspring.settings import Config


def model_lists(config: Config) -> ModelLists:
    """What providers listed when they were asked."""
    return ModelLists(config.home / "model-lists.json")


def place_of(spec: ModelSpec) -> str:
    """A provider and its address, without a login."""
    scheme, _, rest = spec.base_url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{spec.provider.id} {scheme}://{host.rpartition('@')[2]}{slash}{path}"


def close_to(name: str, config: Config) -> tuple[str, ...]:
    """Names that are close to one that nobody knows: of its provider, if that is known, else of any."""
    try:
        spec = resolve(name, config.environment)
    except UsageError:
        return close_names(name, all_names(config))
    kept = model_lists(config).all()
    if "@" not in name:
        spec = asked_at(spec, config.key_environment, config.gateway)
    prefix = name.removesuffix(spec.model)
    names = _names(spec.provider, kept.get(place_of(spec)), load_table(refreshed_path(config.home)))
    return close_names(name, (f"{prefix}{each}" for each in names))


def is_listed(name: str, config: Config) -> bool:
    """Whether its provider, when it was asked, listed a model."""
    spec = resolve(name, config.environment)
    if "@" not in name:
        spec = asked_at(spec, config.key_environment, config.gateway)
    kept = model_lists(config).all().get(place_of(spec))
    return kept is not None and any(model.id == spec.model for model in kept.models)


def all_names(config: Config) -> Iterator[str]:
    """Those that can be asked with a key that is set come first."""
    settings, environment = config.settings, config.key_environment
    yield from (*settings.tiers, *config.model_settings)
    kept, table = model_lists(config).all(), load_table(refreshed_path(config.home))
    for provider in sorted(PROVIDERS, key=lambda each: not find_key(each, environment)):
        listed = kept.get(place_of(_usual(provider, environment, config)))
        prefix = "" if provider is COMPATIBLE else f"{provider.id}/"
        yield from (f"{prefix}{each}" for each in _names(provider, listed, table))
    yield from (f"local/{each}" for each in PULLABLE)


def _usual(provider: Provider, environment: Mapping[str, str], config: Config) -> ModelSpec:
    spec, gateway = ModelSpec(provider, "", address(provider, environment)), config.gateway
    return gateway.through(spec) if gateway.is_for(provider, spec.base_url) else spec


def _names(provider: Provider, listed: KeptList | None, table: PriceTable) -> Iterator[str]:
    if listed is not None:
        yield from (model.id for model in listed.models)
    priced = (each.models for each in table.providers if provider.price_id and each.id == provider.price_id)
    yield from (model.id for models in priced for model in models)
