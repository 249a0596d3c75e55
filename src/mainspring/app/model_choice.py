"""Which models a session gets: those that were named, else its journal's, else those of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from mainspring.errors import UsageError
from mainspring.events import ChosenBy, ModelChosen
from mainspring.models import Model
from mainspring.models.connect import resolve
from mainspring.models.tiers import find_tier, model_of, ranked
from mainspring.session.opening import SessionModels
from mainspring.settings import Config
from mainspring.turns.router import Router, usual_tier

Connect = Callable[[Model | str], Model]


def choose(
    named: Model | str,
    fallback: Sequence[Model | str],
    *,
    known: ModelChosen | None,
    config: Config,
    connect: Connect,
) -> SessionModels:
    """`known` is what the journal says. Every model that the session may go to is connected now, so that what
    is wrong with it (a key, a price) is said before anything is spent."""
    settings = config.settings
    wanted = config.model or (usual_tier(ranked(settings.tiers)) if settings.router else "")
    tier = find_tier(named or wanted, settings.tiers) if isinstance(named, str) else ""
    is_needed = bool(tier or (settings.router and not named))
    by: ChosenBy = "user" if named else "settings"
    line = fallback or config.fallback
    if known is not None and not named:
        wanted, tier, by = known.model, known.tier, known.by
        is_needed = settings.router
        line = fallback or known.fallbacks or config.fallback
    model = connect(named or wanted)
    others = {other.name: other for other in map(connect, line) if other.name != model.name}
    tiers = _connected_tiers(model.name, config, connect, is_needed=is_needed)
    names = {name: each.name for name, each in tiers.items()}
    tier = tier or next((name for name, its_model in names.items() if its_model == model.name), "")
    home = partial(_home, environment=config.environment)
    router = Router(names, is_on=settings.router, breaker=settings.escalation, home=home) if tiers else None
    return SessionModels(
        model=model,
        fallbacks=tuple(others.values()),
        tier=tier,
        chosen_by=by,
        tiers=tiers,
        router=router,
        connect=connect,
    )


def _connected_tiers(model: str, config: Config, connect: Connect, *, is_needed: bool) -> dict[str, Model]:
    """The model of each tier, the weakest first, of this model's provider where there is a choice. A session
    that is on no tier goes without those that it cannot have."""
    known, tiers = config.settings.tiers, dict[str, Model]()
    for name in ranked(known):
        try:
            tiers[name] = connect(model_of(name, known, config.key_environment, usual=model))
        except UsageError:
            if is_needed:
                raise
    return tiers


def _home(model: str, environment: Mapping[str, str]) -> str:
    """Where a model is asked: its provider, and the address."""
    try:
        spec = resolve(model, environment)
    except UsageError:
        return model.partition("@")[0].partition("/")[0]
    return f"{spec.provider.id}@{spec.base_url}"
