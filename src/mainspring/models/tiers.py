"""Tiers: names for how strong a model is wanted, and the model that each stands for here.

In `config.toml`, `[tiers]` maps a name to a model, or to one model per provider; the weakest comes first. The
usual names need no order of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from mainspring.errors import ConfigError, UsageError
from mainspring.models.gateway import Gateway
from mainspring.models.providers import find_key, find_provider, provider_of

USUAL = ("fast", "coder", "reasoner")
TierMap = Mapping[str, str | dict[str, str]]


_Count = Annotated[int, msgspec.Meta(ge=0)]


class Breaker(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When to escalate (0: never), and what one task may use before that stops."""

    after_failures: _Count = 2
    """Failed turns of one task after which the next tier takes over; 0: never."""
    max_attempts: _Count = 8
    """Maximum turns of one task with escalation."""
    max_escalations: _Count = 2
    """Maximum changes to a stronger tier in one task."""
    max_usd: Annotated[float, msgspec.Meta(ge=0, le=1e9)] | None = None
    """Maximum cost of one task with escalation, in US dollars."""


def ranked(tiers: TierMap) -> tuple[str, ...]:
    """The names of the tiers, the weakest first."""
    usual = [name for name in USUAL if name in tiers]
    return (*usual, *(name for name in tiers if name not in USUAL))


def find_tier(name: str, tiers: TierMap) -> str:
    """The tier that a name (`fast`, or `anthropic/fast`) means; empty when it means a model."""
    provider, slash, tail = name.rpartition("/")
    models = tiers.get(tail)
    if not slash:
        return name if name in tiers or name in USUAL else ""
    return tail if isinstance(models, dict) and provider in models else ""


def model_of(
    name: str,
    tiers: TierMap,
    environment: Mapping[str, str],
    *,
    usual: str = "",
    gateway: Gateway | None = None,
) -> str:
    """The model that a name stands for; a model's own name is its own. Of several providers it is the one
    that is named, else that of the `usual` model, else the first that has a key, or a gateway's."""
    tier = find_tier(name, tiers)
    if not tier:
        return name
    models = tiers.get(tier)
    if models is None:
        raise UsageError(
            f"The tier {tier} has no model.",
            remedy=f'Set it in config.toml: [tiers] {tier} = "PROVIDER/MODEL".',
        )
    if isinstance(models, str):
        return models
    for provider in (name.partition("/")[0], provider_of(usual)):
        if provider in models:
            return models[provider]
    for provider, model in models.items():
        known = find_provider(provider)
        if known is None:
            continue
        is_ours = gateway is not None and bool(gateway.key_variable) and gateway.is_for(known, known.base_url)
        if known.is_local or is_ours or find_key(known, environment):
            return model
    raise ConfigError(
        f"The tier {tier} has models of {', '.join(models)}, and none of them has a key.",
        remedy="Store a key (mainspring keys add PROVIDER), or name a model.",
    )
