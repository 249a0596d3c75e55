"""Decides who takes the turns of a session, and builds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mainspring.app.models import check_price, price_book
from mainspring.app.plugins import engine_settings
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.errors import UsageError
from mainspring.events import Effort, EngineChosen, Limits, ModelChosen
from mainspring.models import Model, Price
from mainspring.models.providers import ModelSpec, find_provider
from mainspring.settings import Config

if TYPE_CHECKING:
    from mainspring.engines.facts import EngineDescription
    from mainspring.engines.outside import Outside
    from mainspring.turns.runtime import Engine


def engine_name(named: str, known: EngineChosen | None, config: Config) -> str:
    """What was named, else the journal's, else the settings', else our own."""
    return named or (known.engine if known else "") or config.settings.engine or BUILTIN


def outside_engine(
    name: str,
    model: Model | str,
    *,
    known: ModelChosen | None,
    config: Config,
    limits: Limits,
    allow_unpriced: bool,
    effort: Effort | None = None,
) -> Outside:
    """Raises `UsageError` when its program is not here, or a cost limit or an effort could not be kept."""
    from mainspring.engines.catalog import find_engine  # noqa: PLC0415 - our own engine needs none of them

    if not isinstance(model, str):
        raise UsageError(
            f"The engine {name} chooses its own models.",
            remedy="Write the model's name as that program takes it, or leave --model out.",
        )
    before = known.model.removeprefix(f"{name}/") if known and known.model.startswith(f"{name}/") else ""
    found = find_engine(
        name,
        engine_settings(config),
        config.environment,
        model=model or before,
        price=lambda facts, own: _price(facts, own, config),
    )
    if effort and not found.facts.takes_effort:
        raise UsageError(
            f"The engine {name} cannot be told how hard to think (--effort {effort}).",
            remedy=f"Leave --effort out, and set it in the settings of {name} itself.",
        )
    if not found.facts.reports_cost:
        check_price(found.model, limits, allow_unpriced=allow_unpriced)
    return found


def build_engine(outside: Outside) -> Engine:
    from mainspring.engines import catalog  # noqa: PLC0415 - as above

    return catalog.build_engine(outside)


def _price(facts: EngineDescription, model: str, config: Config) -> Price | None:
    own, slash, rest = model.partition("/")
    provider = find_provider(own if slash and not facts.provider else facts.provider)
    if provider is None:
        return config.settings.prices.get(model)
    spec = ModelSpec(provider, rest if slash and not facts.provider else model)
    return price_book(config).find(spec, model).price
