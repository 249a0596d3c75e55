"""What is known of a model, and who said it: a person in `[models."NAME"]`, its server, the table of prices,
what was seen of it, or its name. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from mainspring.events import Profile
from mainspring.models import Price
from mainspring.models.output import thinking_share
from mainspring.models.own import ModelSettings, ToolForm
from mainspring.models.prices import KnownPrice
from mainspring.models.protocol import BAD_CALLS, MAX_ACTION_TOKENS
from mainspring.models.providers import ModelSpec
from mainspring.models.served import ServedModel
from mainspring.patterns import lazy_pattern

SMALL_BILLIONS = 8.5
SMALL_WINDOW_TOKENS = 16 * 1024
_REFUSED_SCHEMA = "response_format"
_SIZE = lazy_pattern(r"(?<![a-z0-9.])(?:(\d+)x|e)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """None is what nobody said. `sources` says by field who did: `asked`, `config`, `server`, `table`,
    `seen`, `name`, `profile` (it follows from that) or `default`."""

    name: str
    profile: Profile = "standard"
    tools: ToolForm = "native"
    window: int | None = None
    billions: float | None = None
    images: bool | None = None
    thinking: bool | None = None
    thinking_tokens: int | None = None
    parallel_calls: bool | None = None
    price: Price | None = None
    temperature: float | None = None
    top_p: float | None = None
    lacks: tuple[str, ...] = ()
    sources: dict[str, str] = {}


def settings_for(spec: ModelSpec, name: str, all_settings: Mapping[str, ModelSettings]) -> ModelSettings:
    names = (name, f"{spec.provider.id}/{spec.model}", spec.model)
    return next((all_settings[each] for each in names if each in all_settings), ModelSettings())


def record_of(
    name: str,
    model: str,
    own: ModelSettings,
    *,
    is_local: bool,
    listed: KnownPrice | None = None,
    served: ServedModel | None = None,
    seen: Collection[str] = (),
    wanted: Profile | None = None,
) -> ModelRecord:
    """`model` is its name at its provider. With `wanted` that profile was asked for."""
    listed, served = listed or KnownPrice(), served or ServedModel(id=model)
    said: dict[str, list[tuple[str, Any]]] = {
        "window": [
            ("config", own.window),
            ("server", served.context_tokens),
            ("table", listed.context_tokens),
        ],
        "billions": [("server", served.billions), ("name", billions_in(model))],
        "images": [("config", own.images), ("server", served.has_images)],
        "thinking": [("config", own.thinking), ("server", served.has_thinking)],
        "thinking_tokens": [("config", own.thinking_tokens)],
        "parallel_calls": [("config", own.parallel_calls), ("server", served.has_parallel_calls)],
        "price": [("config", own.price), ("table", listed.price)],
        "temperature": [("config", own.temperature), ("server", served.temperature)],
        "top_p": [("config", own.top_p), ("server", served.top_p)],
    }
    found = {
        field: next(((who, what) for who, what in ways if what is not None), None)
        for field, ways in said.items()
    }
    known = {field: each[1] for field, each in found.items() if each}
    sources = {field: each[0] for field, each in found.items() if each}
    profile, sources["profile"] = _profile(known, sources, own.profile, wanted)
    tools, sources["tools"] = _tools(own, profile, served, seen, is_local=is_local)
    if profile == "small" and served.has_thinking_cap and "thinking_tokens" not in known:
        known["thinking_tokens"] = thinking_share(None, MAX_ACTION_TOKENS)
        sources["thinking_tokens"] = "profile"
    return ModelRecord(
        name=name, profile=profile, tools=tools, lacks=tuple(sorted(seen)), sources=sources, **known
    )


def billions_in(name: str) -> float | None:
    """How many billions of parameters a model has by its name: `qwen2.5-coder:1.5b`, `Mixtral-8x7B`."""
    found = _SIZE.search(name.lower())
    if found is None:
        return None
    size = float(found[2]) * int(found[1] or 1)
    return size if found[3] == "b" else size / 1000


def _profile(
    known: Mapping[str, Any], sources: Mapping[str, str], own: Profile | None, wanted: Profile | None
) -> tuple[Profile, str]:
    if wanted:
        return wanted, "asked"
    if own:
        return own, "config"
    for field, most in (("billions", SMALL_BILLIONS), ("window", SMALL_WINDOW_TOKENS - 1)):
        if field in known and known[field] <= most:
            return "small", f"{field}, {sources[field]}"
    return "standard", "default"


def _tools(
    own: ModelSettings, profile: Profile, served: ServedModel, seen: Collection[str], *, is_local: bool
) -> tuple[ToolForm, str]:
    if own.tools:
        return own.tools, "config"
    if not is_local:
        return "native", "default"
    why = ""
    if profile == "small":
        why = "profile"
    elif BAD_CALLS in seen:
        why = "seen"
    elif served.has_tools is False:
        why = "server"
    if not why:
        return "native", "default"
    is_refused = any(lack.startswith(_REFUSED_SCHEMA) for lack in seen)
    return ("text", "seen") if is_refused else ("schema", why)
