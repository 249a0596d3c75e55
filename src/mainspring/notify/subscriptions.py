"""Browsers that asked to be told by Web Push, and which services messages may go to."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from mainspring.notify.settings import ChannelSettings

_PUSH_SERVICES = (
    ".fcm.googleapis.com",
    ".push.services.mozilla.com",
    ".push.apple.com",
    ".notify.windows.com",
)


class PushSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """Where a browser is reached, and the keys that only it can read with; `device` is who asked for it."""

    endpoint: str
    p256dh: str
    auth: str
    device: str


def is_push_service(endpoint: str, channel: ChannelSettings) -> bool:
    """Whether messages may be sent there: a device must not make us call whom it likes."""
    own = channel.url.rstrip("/")
    if own and endpoint.startswith(f"{own}/"):
        return True
    place = urlsplit(endpoint)
    host = f".{place.hostname or ''}"
    return place.scheme == "https" and place.port is None and host.endswith(_PUSH_SERVICES)
