"""The message of each kind of channel, as its service documents it, with what is foreign escaped. Pure.

Webhooks are signed as standardwebhooks.com says: `webhook-id`, `webhook-timestamp`, and in
`webhook-signature` `v1,` with the base64 of HMAC-SHA256 over `id.timestamp.body`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from contextlib import suppress
from email.message import EmailMessage
from email.utils import formatdate
from html import escape
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from mainspring.notify.settings import ChannelSettings, NoticeKind

_TELEGRAM = "https://api.telegram.org"
PRESSING: tuple[NoticeKind, ...] = ("question", "failed", "budget")
_JSON = {"content-type": "application/json"}


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """What a person is told. `link` leads to where a question can be answered, if there is such a place."""

    id: str
    kind: NoticeKind
    session: str
    title: str
    text: str
    at_s: int
    link: str = ""


class HttpMessage(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    body: bytes
    headers: dict[str, str]


def http_message(channel: ChannelSettings, letter: Letter) -> HttpMessage:
    return _HTTP[channel.type](channel, letter)


def desktop_command(letter: Letter) -> list[str]:
    """Desktops read the body as markup."""
    urgency = "critical" if letter.kind == "question" else "normal"
    body = "\n".join(filter(None, (letter.text, letter.link)))
    options = ["--app-name=mainspring", f"--urgency={urgency}"]
    return ["notify-send", *options, "--", letter.title, escape(body, quote=False)]


def email_message(channel: ChannelSettings, letter: Letter) -> EmailMessage:
    made = EmailMessage()
    sender = channel.sender or channel.to[0]
    made["From"], made["To"] = sender, ", ".join(channel.to)
    made["Subject"] = " ".join(letter.title.split())
    made["Date"] = formatdate(letter.at_s)
    made["Message-ID"] = f"<{letter.id}@{sender.rpartition('@')[2] or 'mainspring'}>"
    made["Auto-Submitted"] = "auto-generated"
    made.set_content("\n\n".join(filter(None, (letter.text, letter.link))) + "\n")
    return made


def signature(secret: str, name: str, timestamp: int, body: bytes) -> str:
    """The signature of a webhook; a secret `whsec_…` is base64, any other is taken as it is."""
    key = secret.encode()
    if secret.startswith("whsec_"):
        with suppress(binascii.Error):  # a secret that only looks so
            key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    signed = hmac.new(key, b"%s.%d.%s" % (name.encode(), timestamp, body), hashlib.sha256).digest()
    return f"v1,{base64.b64encode(signed).decode()}"


def _webhook(channel: ChannelSettings, letter: Letter) -> HttpMessage:
    body = msgspec.json.encode(letter)
    headers = {**_JSON, "webhook-id": letter.id, "webhook-timestamp": str(letter.at_s)}
    if channel.secret:
        headers["webhook-signature"] = signature(channel.secret, letter.id, letter.at_s, body)
    return HttpMessage(url=channel.url, body=body, headers=headers)


def _ntfy(channel: ChannelSettings, letter: Letter) -> HttpMessage:
    """Published as JSON at the server, since headers hold no other letters than English ones."""
    parts = urlsplit(channel.url)
    above, _, topic = parts.path.rstrip("/").rpartition("/")
    told: dict[str, Any] = {
        "topic": topic,
        "title": letter.title,
        "message": letter.text,
        "priority": 4 if letter.kind in PRESSING else 3,
        **({"click": letter.link} if letter.link else {}),
    }
    headers = {**_JSON, **({"authorization": f"Bearer {channel.token}"} if channel.token else {})}
    url = urlunsplit((parts.scheme, parts.netloc, f"{above}/", "", ""))
    return HttpMessage(url=url, body=msgspec.json.encode(told), headers=headers)


def _slack(channel: ChannelSettings, letter: Letter) -> HttpMessage:
    link = f"\n<{letter.link}|Answer>" if letter.link else ""
    text = f"*{escape(letter.title, quote=False)}*\n{escape(letter.text, quote=False)}{link}"
    told = {"text": text, "unfurl_links": False, "unfurl_media": False}
    return HttpMessage(url=channel.url, body=msgspec.json.encode(told), headers=_JSON)


def _telegram(channel: ChannelSettings, letter: Letter) -> HttpMessage:
    text = "\n".join(filter(None, (letter.title, letter.text, letter.link)))
    told = {"chat_id": channel.chat, "text": text, "link_preview_options": {"is_disabled": True}}
    base = (channel.url or _TELEGRAM).rstrip("/")
    return HttpMessage(
        url=f"{base}/bot{channel.token}/sendMessage", body=msgspec.json.encode(told), headers=_JSON
    )


_HTTP: dict[str, Callable[[ChannelSettings, Letter], HttpMessage]] = {
    "webhook": _webhook,
    "ntfy": _ntfy,
    "slack": _slack,
    "telegram": _telegram,
}


def missing_settings(channel: ChannelSettings) -> tuple[str, ...]:
    """The keys that a channel of this type needs and does not have."""
    return tuple(name for name in _NEEDED[channel.type] if not getattr(channel, name))


_NEEDED: dict[str, tuple[str, ...]] = {
    "desktop": (),
    "webhook": ("url",),
    "ntfy": ("url",),
    "slack": ("url",),
    "telegram": ("token", "chat"),
    "email": ("host", "to"),
    "push": (),
}
