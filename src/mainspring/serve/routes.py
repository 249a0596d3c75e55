"""What one operation of the server is: its path, who may call it, what it takes and gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from mainspring.app.operations.device_roles import Device, Role, role_for
from mainspring.app.operations.devices import Access
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
    operation: str
    summary: str
    takes: type[msgspec.Struct]
    gives: Any
    answer: Callable[[ApiCall], Awaitable[Any]]

    @property
    def role(self) -> Role:
        """The least role of a device that may call it."""
        return role_for(self.operation)


def get_route(
    path: str,
    summary: str,
    answer: Callable[[ApiCall], Awaitable[Any]],
    gives: Any,
    takes: type[msgspec.Struct] = Nothing,
    operation: str = "show",
) -> Route:
    return Route(
        method="GET", path=path, operation=operation, summary=summary, takes=takes, gives=gives, answer=answer
    )


def post_route(
    path: str,
    operation: str,
    summary: str,
    answer: Callable[[ApiCall], Awaitable[Any]],
    gives: Any,
    takes: type[msgspec.Struct] = Nothing,
) -> Route:
    return Route(
        method="POST",
        path=path,
        operation=operation,
        summary=summary,
        takes=takes,
        gives=gives,
        answer=answer,
    )
