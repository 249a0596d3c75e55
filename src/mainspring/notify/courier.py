"""Sends what is due, for all sessions. Several processes may: what one claimed, the others leave alone."""

from __future__ import annotations

import asyncio
import smtplib
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Protocol

import msgspec

from mainspring.errors import MainspringError
from mainspring.net import http
from mainspring.net.client import send_request
from mainspring.notify import plan
from mainspring.notify.notices import title_of
from mainspring.notify.outbox import Outbox
from mainspring.notify.settings import ChannelSettings
from mainspring.notify.subscriptions import PushSubscription, is_push_service
from mainspring.notify.wires import (
    HttpMessage,
    Letter,
    desktop_command,
    email_message,
    http_message,
    missing_settings,
)
from mainspring.sandbox.detached import run_program
from mainspring.secrets.variables import fill_variables

_TIMEOUT_S = 15.0
_MAX_WAIT_S = 3600.0
_SMTP_PORTS = {"tls": 465, "starttls": 587, "none": 25}
_LATER = frozenset({408, 425, 429})
_GONE = frozenset({404, 410})


class NotSent(MainspringError):
    """A channel did not take a message; without `is_final` it may do so later, after `wait_s` at least."""

    def __init__(self, message: str, *, is_final: bool = False, wait_s: float = 0.0, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.is_final = is_final
        self.wait_s = wait_s


class PushDevices(Protocol):
    """Browsers that asked to be told, and the key of this machine by which they know us."""

    def subscriptions(self) -> tuple[PushSubscription, ...]: ...

    def unsubscribe(self, endpoint: str) -> None: ...

    def push_key(self) -> bytes: ...


class Courier:
    """`link` gives the address where the question of a call of a session can be answered, or nothing;
    `redact` takes secrets out of what is sent. `keys` is the environment with stored keys, for `${VAR}`."""

    def __init__(
        self,
        outbox: Outbox,
        channels: Mapping[str, ChannelSettings],
        *,
        environment: Mapping[str, str],
        keys: Mapping[str, str],
        push: PushDevices | None = None,
        redact: Callable[[str], str] = str,
        link: Callable[[str, str], str] = lambda _session, _call: "",
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
    ) -> None:
        self._outbox = outbox
        self._channels = channels
        self._environment = environment
        self._keys = keys
        self._redact = redact
        self._push_devices = push
        self._link = link
        self._clock = clock

    async def deliver(self) -> int | None:
        """Sends all that is due; gives when the next is, None when nothing is on its way."""
        sessions = await asyncio.to_thread(lambda: list(self._outbox.sessions()))
        async with asyncio.TaskGroup() as group:
            for session in sessions:
                for message, channel in plan.due(self._outbox.load(session), self._clock()):
                    group.create_task(self._send_one(session, message.id, channel))
        times = [plan.next_due_us(self._outbox.load(session)) for session in sessions]
        return min((each for each in times if each is not None), default=None)

    async def send(self, name: str, letter: Letter) -> None:
        """Sends one letter through a channel; raises `NotSent`."""
        channel = self._filled(name)
        match channel.type:
            case "desktop":
                await asyncio.to_thread(self._desktop, letter)
            case "email":
                await asyncio.to_thread(self._email, channel, letter)
            case "webhook" | "ntfy" | "slack" | "telegram":
                await self._http(channel.type, http_message(channel, letter))
            case "push":
                await self._push(channel, letter)

    async def _push(self, channel: ChannelSettings, letter: Letter) -> None:
        """To every browser that asked for it. One that is gone is forgotten; when one cannot be reached, all
        are told again, which replaces what they show."""
        devices = self._push_devices
        found = devices.subscriptions() if devices else ()
        if devices is None or not found:
            raise NotSent("no device has asked for notifications: the page has a button", is_final=True)
        try:
            push = import_module("mainspring.notify.push")
        except ModuleNotFoundError as error:
            raise NotSent("push needs pip install 'mainspring[push]'", is_final=True) from error
        problems: list[NotSent] = []
        for each in found:
            if not is_push_service(each.endpoint, channel):
                continue
            try:
                await self._http("push", push.push_message(channel, letter, each, devices.push_key()))
            except NotSent as error:
                if error.status in _GONE:
                    devices.unsubscribe(each.endpoint)
                else:
                    problems.append(error)
        if problems:
            raise problems[0]

    async def _send_one(self, session: str, message: str, channel: str) -> None:
        claimed = await asyncio.to_thread(self._claim, session, message, channel)
        if claimed is None:
            return
        state, found = claimed
        try:
            await self.send(channel, self._letter(state, found))
        except NotSent as error:
            self._outbox.note(f"{channel}: {error.message}")
            after = (
                partial(plan.sent, message=message, channel=channel)
                if error.is_final
                else partial(
                    plan.failed,
                    message=message,
                    channel=channel,
                    now_us=self._clock(),
                    wait_s=min(error.wait_s, _MAX_WAIT_S),
                )
            )
        else:
            after = partial(plan.sent, message=message, channel=channel)
        await asyncio.to_thread(self._outbox.change, session, after)

    def _claim(
        self, session: str, message: str, channel: str
    ) -> tuple[plan.SessionNotices, plan.Message] | None:
        """The message, once it is ours to send; None when another process was faster, or it was withdrawn."""
        found: list[plan.Message] = []

        def claim(state: plan.SessionNotices) -> plan.SessionNotices:
            now_us = self._clock()
            found.extend(
                each for each, name in plan.due(state, now_us) if (each.id, name) == (message, channel)
            )
            return plan.claimed(state, message, channel, now_us) if found else state

        state = self._outbox.change(session, claim)
        return (state, found[0]) if found else None

    def _letter(self, state: plan.SessionNotices, message: plan.Message) -> Letter:
        first = message.items[0]
        is_answerable = message.kind == "question" and len(message.items) == 1 and first.call
        return Letter(
            id=message.id,
            kind=message.kind,
            session=state.session,
            title=self._redact(title_of(message.kind, state.folder, state.session)),
            text=self._redact(message.text),
            at_s=self._clock() // plan.SECOND_US,
            link=self._link(state.session, first.call) if is_answerable else "",
        )

    def _filled(self, name: str) -> ChannelSettings:
        channel = self._channels.get(name)
        if channel is None:
            raise NotSent(f"there is no channel {name!r} in [notify.channels]", is_final=True)
        words, missing = fill_variables(msgspec.structs.asdict(channel), self._keys)
        if missing:
            raise NotSent(f"the variable {', '.join(missing)} is not set")
        filled = ChannelSettings(**words)
        if lacks := missing_settings(filled):
            raise NotSent(f"a channel of type {filled.type} needs {' and '.join(lacks)}", is_final=True)
        return filled

    async def _http(self, kind: str, message: HttpMessage) -> None:
        try:
            answer = await send_request(
                "POST",
                message.url,
                environment=self._environment,
                headers=message.headers,
                body=message.body,
                timeout_s=_TIMEOUT_S,
            )
        except (OSError, MainspringError) as error:
            raise NotSent(f"{kind} cannot be reached: {error or type(error).__name__}") from error
        except ValueError as error:
            raise NotSent(f"{kind}: its address cannot be used", is_final=True) from error
        if not 200 <= answer.status < 300:
            is_final = 300 <= answer.status < 500 and answer.status not in _LATER
            raise NotSent(
                f"{kind} answered {answer.status}",
                status=answer.status,
                is_final=is_final,
                wait_s=_retry_after_s(answer.headers),
            )

    def _desktop(self, letter: Letter) -> None:
        try:
            ended = run_program(desktop_command(letter), environment=self._environment, timeout_s=_TIMEOUT_S)
        except OSError as error:
            raise NotSent("`notify-send` is not installed", is_final=True) from error
        if ended.exit_code:
            raise NotSent(f"notify-send: {ended.errors.strip()[-200:]}")

    def _email(self, channel: ChannelSettings, letter: Letter) -> None:
        host, _, port = channel.host.partition(":")
        number = int(port) if port.isdecimal() else _SMTP_PORTS[channel.tls]
        context = http.trusted() if channel.tls != "none" else None
        try:
            made = (
                smtplib.SMTP_SSL(host, number, timeout=_TIMEOUT_S, context=context)
                if channel.tls == "tls"
                else smtplib.SMTP(host, number, timeout=_TIMEOUT_S)
            )
            with made as server:
                if channel.tls == "starttls":
                    server.starttls(context=context)
                if channel.user:
                    server.login(channel.user, channel.password)
                server.send_message(email_message(channel, letter))
        except smtplib.SMTPResponseException as error:
            is_final = 500 <= error.smtp_code < 600
            raise NotSent(f"{host} answered {error.smtp_code}", is_final=is_final) from error
        except (OSError, smtplib.SMTPException) as error:
            raise NotSent(f"{host}: {error or type(error).__name__}") from error


def _retry_after_s(headers: Mapping[str, str]) -> float:
    given = headers.get("retry-after", "")
    return float(given) if given.isdecimal() else 0.0
