"""Which models a provider has: asked for at the provider, and kept for a day."""

from __future__ import annotations

import asyncio
from datetime import datetime

import msgspec

from mainspring.app.model_names import model_lists, place_of
from mainspring.errors import MainspringError, ModelError
from mainspring.models.connect import address, asked_at, is_here, list_models, resolve_provider
from mainspring.models.model_lists import KeptList
from mainspring.models.providers import COMPATIBLE, PROVIDERS, ModelSpec, find_key
from mainspring.models.served import ServedModel
from mainspring.settings import Config


class ModelList(msgspec.Struct, frozen=True, kw_only=True):
    """The models of a provider as of `asked_at`. `problem` says why a list is not of now, or not there."""

    provider: str
    models: tuple[ServedModel, ...] = ()
    asked_at: datetime | None = None
    is_cached: bool = False
    problem: str = ""
    prefix: str = ""

    def name_of(self, model: ServedModel) -> str:
        """How a model is asked for."""
        return f"{self.prefix}{model.id}"


async def list_provider(name: str, config: Config, *, is_refresh: bool = False) -> ModelList:
    """The models of a provider (`PROVIDER`, or `PROVIDER@URL`). A list of the last day is not asked for again
    unless the server is on this machine; one that is older stands in when the provider cannot be asked."""
    spec = resolve_provider(name, config.key_environment)
    is_local = spec.provider.is_local or is_here(spec.base_url)
    prefix = "" if spec.provider is COMPATIBLE else f"{spec.provider.id}/"
    if "@" in name:
        prefix = f"{name.partition('#')[0]}#"
    else:
        spec = asked_at(spec, config.key_environment, config.gateway)
    kept, is_cached, problem = await _kept_or_asked(spec, config, is_local=is_local, is_refresh=is_refresh)
    return ModelList(
        provider=spec.provider.id,
        models=kept.models,
        asked_at=kept.asked_at,
        is_cached=is_cached,
        problem=problem,
        prefix=prefix,
    )


async def _kept_or_asked(
    spec: ModelSpec, config: Config, *, is_local: bool, is_refresh: bool
) -> tuple[KeptList, bool, str]:
    """A list, whether it was asked for before, and why it could not be asked for now."""
    lists, place = model_lists(config), place_of(spec)
    kept = lists.all().get(place)
    if kept is not None and not is_local and not is_refresh and lists.is_fresh(kept):
        return kept, True, ""
    try:
        models = await list_models(spec, config.key_environment, is_local=is_local)
        return lists.keep(place, models), False, ""
    except ModelError as error:
        if is_refresh or is_local or kept is None:
            raise
        return kept, True, error.message


async def list_all(config: Config, *, is_refresh: bool = False) -> tuple[ModelList, ...]:
    """The models of every provider that has a key here, and of the servers on this machine that answer."""
    environment = config.key_environment
    instead = "openai" if address(COMPATIBLE, environment) else ""
    usual = (each for each in PROVIDERS if each.id != instead and address(each, environment))
    specs = [ModelSpec(each, "", address(each, environment)) for each in usual]
    wanted = [each.provider.id for each in specs if _can_ask(each, config)]

    async def ask(name: str) -> ModelList | None:
        try:
            return await list_provider(name, config, is_refresh=is_refresh)
        except MainspringError as error:
            is_away = is_here(resolve_provider(name, environment).base_url)
            return None if is_away else ModelList(provider=name, problem=error.message)

    return tuple(filter(None, await asyncio.gather(*map(ask, wanted))))


def _can_ask(spec: ModelSpec, config: Config) -> bool:
    provider, gateway = spec.provider, config.gateway
    is_through = gateway.is_for(provider, spec.base_url)
    if is_through:
        provider = gateway.through(spec).provider
    is_open = provider.is_local or provider is COMPATIBLE or is_here(spec.base_url)
    return is_open or bool(find_key(provider, config.key_environment))
