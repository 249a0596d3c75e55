"""Commands that set one thing: the word that was given, or one that the person picks from a list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import get_args

from mainspring.app.operations.model_lists import list_all
from mainspring.chat.desk import Desk
from mainspring.chat.surface import Choice
from mainspring.events import Effort
from mainspring.secrets.screen import plain_name

EFFORTS = {
    **dict(zip(get_args(Effort), ("quick and cheap", "balanced", "thorough", "all it can"), strict=True)),
    "auto": "as the model does by itself",
}
REASONINGS = {"on": "thoughts in full", "off": "no thoughts", "auto": "a line for each thought"}
THEMES = {
    "dark": "for a dark background",
    "light": "for a light background",
    "mono": "no colours, only weight",
}
_KNOWN_S = 5.0
"""So long the servers of models are waited for; what is known without them is offered anyway."""


async def choose(desk: Desk, about: str, now: str, choices: Mapping[str, str]) -> str:
    """What the person picks; empty when that is nothing, or what is there already."""
    width = max(map(len, choices), default=0)
    offered = [
        Choice(name, plain_name(f"{name:<{width}}  {text}").rstrip(), is_now=name == now)
        for name, text in choices.items()
    ]
    chosen = await desk.surface.pick(f"{about}, now {plain_name(now)}", offered) or ""
    return "" if chosen == now else chosen


async def known_models(desk: Desk) -> dict[str, str]:
    """The models of the settings, and those of the providers that have a key or answer here."""
    state, config = desk.session.state, desk.config
    names = dict.fromkeys(filter(None, (state.model, *state.fallbacks, config.model, *config.fallback)), "")
    with desk.chat.view.own_work("/model", "", time.monotonic()):
        desk.surface.refresh()
        try:
            async with asyncio.timeout(_KNOWN_S):
                for listed in await list_all(config):
                    names |= dict.fromkeys(map(listed.name_of, listed.models), "")
        except TimeoutError:
            pass
    return names
