"""Which models a session gets: those that were named, else its journal's, else those of the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

from mainspring.config import Config
from mainspring.events import ChosenBy, ModelChosen
from mainspring.models import Model
from mainspring.models.tiers import find_tier, ranked
from mainspring.turns.routing import Router, usual_tier

Connect = Callable[[Model | str], Model]


class Choice(TypedDict):
    """The parts of a session that are about models. `tiers` and `router` are there when it can change its
    tier."""

    model: Model
    fallbacks: tuple[Model, ...]
    tier: str
    chosen_by: ChosenBy
    tiers: Mapping[str, Model]
    router: Router | None
    connect: Connect | None


def choose(
    named: Model | str,
    fallback: Sequence[Model | str],
    *,
    known: ModelChosen | None,
    config: Config,
    connect: Connect,
) -> Choice:
    """`known` is what the journal says. Every model that the session may go to is connected now, so that what
    is wrong with it (a key, a price) is said before anything is spent."""
    settings = config.settings
    wanted = config.model or (usual_tier(ranked(settings.tiers)) if settings.router else "")
    tier = find_tier(named or wanted, settings.tiers) if isinstance(named, str) else ""
    by: ChosenBy = "user" if named else "settings"
    line = fallback or config.fallback
    if known is not None and not named:
        wanted, tier, by = known.model, known.tier, known.by
        line = fallback or known.fallbacks or config.fallback
    model = connect(named or wanted)
    others = {other.name: other for other in map(connect, line) if other.name != model.name}
    tiers: dict[str, Model] = {}
    if settings.tiers and (tier or (settings.router and not named)):
        tiers = {name: connect(name) for name in ranked(settings.tiers)}
    names = {name: each.name for name, each in tiers.items()}
    router = Router(names, is_on=settings.router, breaker=settings.escalation) if tiers else None
    return Choice(
        model=model,
        fallbacks=tuple(others.values()),
        tier=tier,
        chosen_by=by,
        tiers=tiers,
        router=router,
        connect=connect,
    )
