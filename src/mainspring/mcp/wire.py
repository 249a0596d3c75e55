"""What we and our broker say to each other: a JSON line for each message, on one socket. The broker is
`broker.py`, our side `link.py`; neither knows the types of the other's libraries.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class _Message(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """`id` is that of the request which a message is, ends or is about."""

    id: int = 0


class ConnectServer(_Message, frozen=True, tag="connect"):
    """Connects to a server. The pipes of one on standard streams come over the second socket, before this;
    `proxies` are the variables that name them, for one over HTTP."""

    server: str
    transport: Literal["stdio", "http", "sse"]
    url: str = ""
    headers: dict[str, str] = {}
    proxies: dict[str, str] = {}
    token_file: str = ""
    client_id: str = ""
    client_secret: str = ""
    is_login: bool = False
    redirect_url: str = ""


class ListOffers(_Message, frozen=True, tag="list"):
    """What a server offers: tools, prompts, resources."""

    server: str


class CallServerTool(_Message, frozen=True, tag="call"):
    server: str
    tool: str
    arguments: dict[str, Any] = {}


class ReadServerResource(_Message, frozen=True, tag="read"):
    server: str
    uri: str


class GetServerPrompt(_Message, frozen=True, tag="prompt"):
    server: str
    name: str
    arguments: dict[str, str] = {}


class CancelRequest(_Message, frozen=True, tag="cancel"):
    """Ends the request of this id; nothing more is said about it."""


class DisconnectServer(_Message, frozen=True, tag="disconnect"):
    server: str


class AnswerServer(_Message, frozen=True, tag="answer"):
    """What a person said to `ServerAsks`: accept with a content, decline, or cancel."""

    key: int
    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] = {}


ToBroker = (
    ConnectServer
    | ListOffers
    | CallServerTool
    | ReadServerResource
    | GetServerPrompt
    | CancelRequest
    | DisconnectServer
    | AnswerServer
)


class RequestDone(_Message, frozen=True, tag="done"):
    result: msgspec.Raw = msgspec.Raw(b"null")


class RequestRefused(_Message, frozen=True, tag="refused"):
    """`reason` says who failed: the server's answer, its connection, a missing login, or this machine."""

    reason: Literal["protocol", "connection", "auth", "missing"]
    message: str


class ServerProgress(_Message, frozen=True, tag="progress"):
    progress: float
    total: float | None = None
    message: str = ""


class ServerAsks(_Message, frozen=True, tag="asks"):
    """A server wants something of a person, or a login a visit to an address; `key` names the answer."""

    server: str
    key: int
    message: str
    schema: dict[str, Any] = {}
    url: str = ""


class ServerLost(_Message, frozen=True, tag="lost"):
    server: str
    detail: str = ""


class OffersChanged(_Message, frozen=True, tag="changed"):
    server: str


class ServerNoise(_Message, frozen=True, tag="noise"):
    """A line of a server's output that is no message."""

    server: str
    text: str


FromBroker = (
    RequestDone | RequestRefused | ServerProgress | ServerAsks | ServerLost | OffersChanged | ServerNoise
)


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said of itself, as it is kept; the lists are as the protocol writes them."""

    protocol: str = ""
    name: str = ""
    version: str = ""
    instructions: str = ""
    ttl_s: float | None = None
    tools: list[dict[str, Any]] = []
    prompts: list[dict[str, Any]] = []
    resources: list[dict[str, Any]] = []
    templates: list[dict[str, Any]] = []
