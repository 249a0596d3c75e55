"""What a user can say about notifications: `[notify]` in `config.toml`."""

from __future__ import annotations

import re
from datetime import time
from importlib import import_module
from typing import Annotated, Literal, get_args

import msgspec

from mainspring.errors import UsageError

NoticeKind = Literal["question", "ended", "failed", "budget", "message"]
"""Why a person is told: an answer is needed; work ended; it failed; 80 % of a budget is spent; the agent says
something with its `notify` tool."""
KINDS: tuple[NoticeKind, ...] = get_args(NoticeKind)
ChannelType = Literal["desktop", "webhook", "ntfy", "slack", "telegram", "email", "push"]


class ChannelSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One way to reach a person. `${VAR}` stands for a variable of mainspring's environment, or a stored key,
    so that no secret needs to stand here."""

    type: ChannelType
    """desktop (`notify-send`), webhook, ntfy, slack, telegram, email or push (browsers that asked for it)."""
    url: str = ""
    """Address of the webhook, of the ntfy topic, of Slack's incoming webhook, or of your own push service."""
    secret: str = ""
    """Key by which webhooks are signed."""
    token: str = ""
    """Access token of ntfy, or token of the Telegram bot."""
    chat: str = ""
    """Telegram chat that is told."""
    to: tuple[str, ...] = ()
    """Addresses that get e-mail."""
    sender: str = ""
    """Address that e-mail comes from; empty: the first of `to`. Push services are told it as a contact."""
    host: str = ""
    """SMTP server, as HOST or HOST:PORT."""
    user: str = ""
    """User at the SMTP server; empty: none."""
    password: str = ""
    """Password at the SMTP server."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection to the SMTP server is encrypted."""
    kinds: tuple[NoticeKind, ...] | None = None
    """What it is told: question, ended, failed, budget, message; unset: as `notify.kinds`."""
    always: bool = True
    """Use it for every session; false: only with `--notify NAME`."""


class NotifySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told what happens while nobody looks (`[notify]` in `config.toml`)."""

    channels: dict[str, ChannelSettings] = {}
    """Ways to reach you, by name: `[notify.channels.NAME]`."""
    kinds: tuple[NoticeKind, ...] = KINDS
    """What is told: question, ended, failed, budget, message."""
    quiet: str = ""
    """Quiet hours as 22:00-07:00: what happens in them is told at their end. Empty: none."""
    urgent: tuple[NoticeKind, ...] = ()
    """What is told in quiet hours as well."""
    zone: str = ""
    """Zone of the quiet hours, as Europe/Berlin; empty: that of this machine."""
    away_s: Annotated[float, msgspec.Meta(ge=0, le=24 * 3600)] = 60.0
    """Seconds after which somebody who was at an open face counts as away. What the face shows before is
    not told; a question is told then, if it is still open."""
    server: str = ""
    """Address of `mainspring serve` for links that answer a question; empty: as it runs, if it does."""
    tool: bool = False
    """Give agents the tool `notify`, by which they tell you something."""

    def __post_init__(self) -> None:
        _ = self.quiet_hours
        try:
            _ = self.zone and import_module("zoneinfo").ZoneInfo(self.zone)  # most name none
        except (KeyError, OSError) as error:
            raise ValueError(f"there is no zone {self.zone!r}") from error

    def named(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """These channels, all of which must be there."""
        for name in names:
            if name not in self.channels:
                known = ", ".join(self.channels) or "none yet"
                raise UsageError(f"There is no channel {name!r}.", remedy=f"[notify.channels] has: {known}.")
        return names

    @property
    def quiet_hours(self) -> tuple[time, time] | None:
        return parse_quiet(self.quiet) if self.quiet else None


def parse_quiet(text: str) -> tuple[time, time]:
    found = re.fullmatch(r"(\d{1,2}):(\d\d)\s*-\s*(\d{1,2}):(\d\d)", text.strip())
    if not found:
        raise ValueError(f"{text!r} are no hours such as 22:00-07:00")
    return time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4]))
