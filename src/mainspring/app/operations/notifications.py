"""The channels by which people are told: what there is, and whether one works."""

from __future__ import annotations

import secrets
import time

import msgspec

from mainspring.app.notifications import courier_of, deliver_all
from mainspring.notify.outbox import Outbox
from mainspring.notify.settings import NoticeKind
from mainspring.notify.wires import Letter
from mainspring.settings import Config

__all__ = ["ChannelRow", "channels", "deliver_all", "problems", "try_channel"]


class ChannelRow(msgspec.Struct, frozen=True, kw_only=True):
    """A channel of `[notify]`; `waiting` messages are on their way to it."""

    name: str
    type: str
    kinds: tuple[NoticeKind, ...]
    always: bool
    waiting: int


def channels(config: Config) -> tuple[ChannelRow, ...]:
    outbox, settings = Outbox(config.home), config.settings.notify
    on_way = [
        name
        for session in outbox.sessions()
        for message in outbox.load(session).messages
        for name in message.channels
    ]
    return tuple(
        ChannelRow(
            name=name,
            type=each.type,
            kinds=settings.kinds if each.kinds is None else each.kinds,
            always=each.always,
            waiting=on_way.count(name),
        )
        for name, each in settings.channels.items()
    )


def problems(config: Config) -> list[str]:
    """What was not sent lately, one line each."""
    return Outbox(config.home).problems()


async def try_channel(config: Config, name: str) -> None:
    """Sends a message through a channel now; raises when it is not taken."""
    config.settings.notify.named((name,))
    letter = Letter(
        id=f"test-{secrets.token_hex(8)}",
        kind="message",
        session="",
        title="mainspring works",
        text="This is a test of the channel that you configured.",
        at_s=int(time.time()),
    )
    await courier_of(config).send(name, letter)
