"""What one operation of the server is: its path, who may call it, what it takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from mainspring.app.operations.devices import Access, Device, Role
from mainspring.serve.fleet import Fleet
from mainspring.serve.hub import Hub
from mainspring.serve.values import Nothing
from mainspring.settings import Config

PREFIX = "/api/v1"
SESSION = "/sessions/{session}"


class ServerParts(msgspec.Struct, frozen=True, kw_only=True):
    """What operations work with."""

    config: Config
    hub: Hub
    fleet: Fleet
    access: Access
    fingerprint: str = ""


class ApiCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request: `config` says in its origin who asks; `session` is named by the path."""

    server: ServerParts
    config: Config
    device: Device
    taken: Any
    session: str = ""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    method: Literal["GET", "POST"]
    path: str
    role: Role
    summary: str
    takes: type[msgspec.Struct]
    gives: Any
    answer: Callable[[ApiCall], Awaitable[Any]]


def get_route(
    path: str,
    summary: str,
    answer: Callable[[ApiCall], Awaitable[Any]],
    gives: Any,
    takes: type[msgspec.Struct] = Nothing,
    role: Role = "watch",
) -> Route:
    return Route(method="GET", path=path, role=role, summary=summary, takes=takes, gives=gives, answer=answer)


def post_route(
    path: str,
    role: Role,
    summary: str,
    answer: Callable[[ApiCall], Awaitable[Any]],
    gives: Any,
    takes: type[msgspec.Struct] = Nothing,
) -> Route:
    return Route(
        method="POST", path=path, role=role, summary=summary, takes=takes, gives=gives, answer=answer
    )
