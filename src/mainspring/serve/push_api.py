"""Notifications that a browser gets by itself (Web Push): asking for them, and asking no more."""

from __future__ import annotations

from importlib import import_module

import msgspec

from mainspring.errors import UsageError
from mainspring.notify.subscriptions import PushSubscription, is_push_service
from mainspring.serve.routes import ApiCall
from mainspring.serve.values import Nothing, Taken


class PushState(msgspec.Struct, frozen=True, kw_only=True):
    """`key` is what a browser subscribes with, empty where it cannot; `channels` would tell it."""

    key: str = ""
    channels: tuple[str, ...] = ()


class Subscribe(Taken, frozen=True, kw_only=True):
    endpoint: str
    p256dh: str
    auth: str


class Unsubscribe(Taken, frozen=True, kw_only=True):
    endpoint: str


async def push_state(asked: ApiCall) -> PushState:
    channels = asked.config.settings.notify.channels
    named = tuple(name for name, each in channels.items() if each.type == "push")
    try:
        push = import_module("mainspring.notify.push")
    except ModuleNotFoundError:
        return PushState(channels=named)
    return PushState(key=push.public_key(asked.server.access.push_key()), channels=named)


async def subscribe(asked: ApiCall) -> Nothing:
    taken: Subscribe = asked.taken
    channels = asked.config.settings.notify.channels.values()
    if not any(is_push_service(taken.endpoint, each) for each in channels if each.type == "push"):
        raise UsageError(
            "No channel sends there.",
            remedy='Set type = "push" in [notify.channels.NAME], and its url for a push service of your own.',
        )
    made = PushSubscription(
        endpoint=taken.endpoint, p256dh=taken.p256dh, auth=taken.auth, device=asked.device.id
    )
    try:
        import_module("mainspring.notify.push").encrypted(b"", made)
    except ValueError as error:
        raise UsageError(f"These are no keys of a browser: {error}.") from error
    asked.server.access.subscribe(made)
    return Nothing()


async def unsubscribe(asked: ApiCall) -> Nothing:
    asked.server.access.unsubscribe(asked.taken.endpoint)
    return Nothing()
