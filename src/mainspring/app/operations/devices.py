"""Who may use the server of this machine: its own token, paired devices with a role, and offers to pair.

All of it is one private file in the data folder. Tokens of devices and codes of offers are kept as hashes
only; the server's own token is kept as it is, because the person at this machine must be able to read it.
Any process may change the file; a running server sees it at once (`Access.version`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import msgspec

from mainspring.app.operations.device_roles import OWNER, PAIRED_ROLES, Device, Role
from mainspring.disk.files import closing_descriptor, locked, make_folder, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import ConfigError, UnknownSession, UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.notify.subscriptions import PushSubscription
from mainspring.people.persons import SERVICE, Person
from mainspring.settings import Config
from mainspring.system import try_lock

PAIR_WITHIN_S = 90
LINK_WITHIN_S = 24 * 3600
MAX_DEVICES = 64
MAX_LINKS = 256
_NAME = re.compile(r"[^\x00-\x1f\x7f-\x9f]{1,60}")
_SERVICE = re.compile(r"[A-Za-z0-9_-]{1,60}")
_FORMAT = 1
_T = TypeVar("_T")


class _Offer(msgspec.Struct, frozen=True, kw_only=True):
    sha256: str
    role: Role
    name: str
    until_us: int


class AnswerLink(msgspec.Struct, frozen=True, kw_only=True):
    """The right to answer one question of a session, once."""

    sha256: str
    session: str
    call: str
    until_us: int


class _Content(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    devices: tuple[Device, ...] = ()
    offers: tuple[_Offer, ...] = ()
    links: tuple[AnswerLink, ...] = ()
    pushes: tuple[PushSubscription, ...] = ()
    format_version: int = _FORMAT


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """A device as it was paired, with its token, which is told this once."""

    device: Device
    token: str


class Access:
    """The file of tokens. What it says is read again whenever the file has changed."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._path = config.home / "web" / "access.json"
        self._address = config.home / "web" / "address"
        self._known: tuple[tuple[int, int, int], _Content] | None = None

    @property
    def token(self) -> str:
        """The server's own token, made when there is none."""
        found = self._read()
        return found.token if found else self._change(lambda content: (content, content.token))

    @property
    def address(self) -> str:
        """Where the server of this machine can be reached while it runs; empty when it does not."""
        try:
            with closing_descriptor(os.open(self._address.with_suffix(".lock"), os.O_RDWR)) as lock:
                return "" if try_lock(lock) else self._address.read_text("utf-8")
        except FileNotFoundError:
            return ""

    @contextmanager
    def announced(self, address: str) -> Generator[None]:
        """Tells others the address of the server that this process is, for as long as it lives; of several
        servers that of the first."""
        make_folder(self._address.parent)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        with closing_descriptor(os.open(self._address.with_suffix(".lock"), flags, 0o600)) as lock:
            if try_lock(lock):
                write_private(self._address, address.encode())
            yield

    @property
    def version(self) -> tuple[int, int, int]:
        """Another value after each change."""
        return _stamp(self._path)

    def devices(self) -> tuple[Device, ...]:
        found = self._read()
        return found.devices if found else ()

    def holder(self, token: str) -> Device | None:
        """Whose token this is. Every known token is compared, each in constant time."""
        found = self._read()
        if found is None or not token:
            return None
        given, holder = _hash(token), None
        for device in (*found.devices, msgspec.structs.replace(OWNER, sha256=_hash(found.token))):
            is_live = device.until_us is None or self._now_us() < device.until_us
            if hmac.compare_digest(given, device.sha256) and is_live:
                holder = device
        return holder

    def add_service(self, name: str, role: Role, lasts_us: int) -> Paired:
        """A token for a program, which is a person of its own to a team's policy: `service:NAME`."""
        if not _SERVICE.fullmatch(name):
            raise UsageError(f"{name!r} is no name for a program.", remedy="Use letters, digits, - and _.")
        now_us = self._now_us()
        made = self._new_device(name, role, now_us)
        person = Person(name=f"{SERVICE}{name}", known_by="its token")
        device = msgspec.structs.replace(made.device, person=person, until_us=now_us + lasts_us)

        def change(content: _Content) -> tuple[_Content, Paired]:
            if any(each.name == name for each in content.devices):
                raise UsageError(f"There is a device {name!r} already.", remedy="Revoke it first.")
            devices = (*_with_room(content), device)
            return msgspec.structs.replace(content, devices=devices), Paired(device=device, token=made.token)

        return self._change(change)

    def _new_device(self, name: str, role: Role, now_us: int) -> Paired:
        token = secrets.token_urlsafe(32)
        device = Device(
            id=secrets.token_hex(4), name=_check_name(name), role=role, sha256=_hash(token), paired_us=now_us
        )
        return Paired(device=device, token=token)

    def offer(self, role: Role, name: str = "") -> str:
        """A code that pairs one device with this role, within 90 seconds."""
        if role not in PAIRED_ROLES:
            raise UsageError(f"A device can be paired to {', '.join(PAIRED_ROLES)}, not to {role}.")
        if name:
            _check_name(name)
        code = secrets.token_urlsafe(16)
        until_us = self._now_us() + PAIR_WITHIN_S * 1_000_000
        made = _Offer(sha256=_hash(code), role=role, name=name, until_us=until_us)
        return self._change(
            lambda content: (msgspec.structs.replace(content, offers=(*self._live(content), made)), code)
        )

    def pair(self, code: str, name: str) -> Paired | None:
        """The device that uses this code; None when it is unknown, used or too old."""
        given = _hash(code)

        def change(content: _Content) -> tuple[_Content, Paired | None]:
            offers = self._live(content)
            found = [each for each in offers if hmac.compare_digest(each.sha256, given)]
            if not found:
                return content, None
            devices = _with_room(content)
            made = self._new_device(found[0].name or name, found[0].role, self._now_us())
            rest = tuple(each for each in offers if each is not found[0])
            return msgspec.structs.replace(content, devices=(*devices, made.device), offers=rest), made

        return self._change(change)

    def revoke(self, name: str) -> Device:
        """Takes a device's token away, by its id or its name."""

        def change(content: _Content) -> tuple[_Content, Device]:
            found = [each for each in content.devices if name in (each.id, each.name)]
            if not found:
                raise UnknownSession(
                    f"There is no device {name!r}.", remedy="`mainspring devices` lists them."
                )
            if len(found) > 1:
                ids = ", ".join(each.id for each in found)
                raise UsageError(
                    f"{len(found)} devices have this name.", remedy=f"Name one by its id: {ids}."
                )
            rest = tuple(each for each in content.devices if each is not found[0])
            return msgspec.structs.replace(_unpushed(content, found[0].id), devices=rest), found[0]

        return self._change(change)

    def link(self, session: str, call: str) -> str:
        """A code that answers one question of a session, within a day; earlier ones for it stay good."""
        code = secrets.token_urlsafe(24)
        until_us = self._now_us() + LINK_WITHIN_S * 1_000_000
        made = AnswerLink(sha256=_hash(code), session=session, call=call, until_us=until_us)
        return self._change(
            lambda content: (msgspec.structs.replace(content, links=(*self._links(content), made)), code)
        )

    def linked(self, code: str) -> AnswerLink | None:
        """What a code may answer; None when it is unknown, used or too old."""
        found, given = self._read(), _hash(code)
        links = self._links(found) if found else ()
        return next((each for each in links if hmac.compare_digest(each.sha256, given)), None)

    def use_link(self, used: AnswerLink) -> bool:
        """Takes the links to a question away; False when somebody else did so first."""

        def change(content: _Content) -> tuple[_Content, bool]:
            links = self._links(content)
            named = (used.session, used.call)
            rest = tuple(each for each in links if (each.session, each.call) != named)
            return msgspec.structs.replace(content, links=rest), used in links

        return self._change(change)

    def renew(self) -> str:
        """Another token for the server itself; whoever has the old one is out."""
        token = secrets.token_urlsafe(32)
        return self._change(
            lambda content: (msgspec.structs.replace(_unpushed(content, OWNER.id), token=token), token)
        )

    def subscriptions(self) -> tuple[PushSubscription, ...]:
        """The browsers that are told by push."""
        found = self._read()
        return found.pushes if found else ()

    def subscribe(self, made: PushSubscription) -> None:
        def change(content: _Content) -> tuple[_Content, None]:
            others = tuple(each for each in content.pushes if each.endpoint != made.endpoint)
            return msgspec.structs.replace(content, pushes=(*others, made)[-MAX_DEVICES:]), None

        self._change(change)

    def unsubscribe(self, endpoint: str) -> None:
        def change(content: _Content) -> tuple[_Content, None]:
            others = tuple(each for each in content.pushes if each.endpoint != endpoint)
            return msgspec.structs.replace(content, pushes=others), None

        self._change(change)

    def push_key(self) -> bytes:
        """The key by which browsers know this machine, made when there is none; needs the extra `push`."""
        path = self._path.with_name("push.pem")
        with locked(path):
            if not path.exists():
                write_private(path, import_module("mainspring.notify.push").new_key())
            return path.read_bytes()

    def _live(self, content: _Content) -> tuple[_Offer, ...]:
        """The offers that are still good. None outlives its 90 seconds, also with the clock set back."""
        left_us = ((each, each.until_us - self._now_us()) for each in content.offers)
        return tuple(each for each, left in left_us if 0 < left <= PAIR_WITHIN_S * 1_000_000)

    def _links(self, content: _Content) -> tuple[AnswerLink, ...]:
        """As `_live`, for links; the newest ones."""
        left_us = ((each, each.until_us - self._now_us()) for each in content.links)
        live = tuple(each for each, left in left_us if 0 < left <= LINK_WITHIN_S * 1_000_000)
        return live[-MAX_LINKS:]

    def _now_us(self) -> int:
        return int(self._clock() * 1e6)

    def _change(self, change: Callable[[_Content], tuple[_Content, _T]]) -> _T:
        with locked(self._path):
            before = self._read()
            content = before or _Content(token=secrets.token_urlsafe(32))
            after, result = change(content)
            if after != before:
                write_private(self._path, msgspec.json.encode(after) + b"\n")
            return result

    def _read(self) -> _Content | None:
        stamp = _stamp(self._path)
        if self._known and self._known[0] == stamp:
            return self._known[1]
        if stamp == _MISSING:
            return None
        data = self._path.read_bytes()
        refuse_newer_json(self._path, data, _FORMAT)
        try:
            content = msgspec.json.decode(data, type=_Content)
        except DECODE_ERRORS as error:
            raise ConfigError(
                f"{self._path} is damaged: {error}.",
                remedy="Delete it; devices must then be paired again.",
            ) from error
        self._known = (stamp, content)
        return content


_MISSING = (0, 0, 0)


def _unpushed(content: _Content, device: str) -> _Content:
    """Without what a device asked to be told."""
    rest = tuple(each for each in content.pushes if each.device != device)
    return msgspec.structs.replace(content, pushes=rest)


def _with_room(content: _Content) -> tuple[Device, ...]:
    """The devices, if there may be one more."""
    if len(content.devices) >= MAX_DEVICES:
        raise UsageError(
            f"{MAX_DEVICES} devices are paired.", remedy="Revoke one: mainspring devices revoke NAME"
        )
    return content.devices


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except FileNotFoundError:
        return _MISSING
    return found.st_ino, found.st_size, found.st_mtime_ns


def _check_name(name: str) -> str:
    name = name.strip()
    if not _NAME.fullmatch(name):
        raise UsageError("A device's name has 1 to 60 characters, and no control characters.")
    return name


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
