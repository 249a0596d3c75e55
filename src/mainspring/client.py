"""A client of `mainspring serve`, for programs and for commands with `--server`.

    async with asyncio.timeout(60):
        client = Client("http://127.0.0.1:8790", token="…")
        session = await client.start("make the tests pass", workspace="/home/me/project")
        async for recorded in client.follow(session):
            print(recorded.event)

Each method is one operation of `/api/v1`, with the same values as `mainspring.app.operations`. An error that
the server tells is raised as a `ServerError` with the same sentence and remedy.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from mainspring.app.operations.approve import ApprovalReply
from mainspring.app.operations.goals import Ordered
from mainspring.app.operations.messages import Delivery
from mainspring.catalog import SessionRow
from mainspring.errors import MainspringError
from mainspring.events import ApprovalAsked, ApprovalGiven, Event, Recorded, StatusDelta, TextDelta, decode
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.net.client import send_request, stream_events
from mainspring.net.sse import EventTooLarge
from mainspring.settings import load_config

_SILENCE_S = 60.0  # a server gives a sign of life every 15 seconds
_PAGE = 500
_T = TypeVar("_T")


class ServerError(MainspringError):
    """The server refused, or cannot be reached; `status` is that of its answer, 0 without one."""

    def __init__(self, message: str, *, remedy: str = "", status: int = 0) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class _Told(msgspec.Struct):
    message: str
    remedy: str = ""


class _Refusal(msgspec.Struct):
    error: _Told


class _Started(msgspec.Struct):
    session: str


class _Paired(msgspec.Struct):
    token: str


class _Line(msgspec.Struct):
    seq: int
    time: str
    kind: str
    body: msgspec.Raw


class _Page(msgspec.Struct):
    events: list[_Line]
    last_seq: int


class Client:
    """`environment` is where proxies are named, by default that of this process."""

    def __init__(self, address: str, token: str, *, environment: Mapping[str, str] | None = None) -> None:
        self._base = f"{address.rstrip('/')}/api/v1"
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._environment = load_config().environment if environment is None else environment

    async def sessions(self, *, limit: int = 200) -> list[SessionRow]:
        return await self._get("/sessions", list[SessionRow], limit=limit)

    async def session(self, session: str) -> SessionRow:
        return await self._get(_of(session), SessionRow)

    async def questions(self, session: str) -> list[ApprovalAsked]:
        """What a session waits for a person to answer."""
        return await self._get(f"{_of(session)}/questions", list[ApprovalAsked])

    async def events(self, session: str, *, after: int = 0) -> AsyncGenerator[Recorded]:
        """What is on record after an event."""
        while True:
            page = await self._get(f"{_of(session)}/events", _Page, after=after, limit=_PAGE)
            for line in page.events:
                after = line.seq
                yield _recorded(line)
            if not page.events:
                return

    async def follow(self, session: str, *, after: int = 0) -> AsyncGenerator[Recorded]:
        """The same, and what comes, with the text that a model is writing, until the caller has enough. A
        connection that breaks raises; go on after the last event that came."""
        stream = stream_events(
            f"{self._base}{_of(session)}/stream?{urlencode({'after': after})}",
            environment=self._environment,
            headers=self._headers,
            silence_s=_SILENCE_S,
        )
        refusal = b""
        try:
            async with aclosing(stream):
                async for status, data in stream:
                    if status != 200:
                        refusal += data
                    elif data and (recorded := _recorded(msgspec.json.decode(data, type=_Line))):
                        yield recorded
        except (OSError, ValueError, EventTooLarge) as error:
            raise self._unreachable(error) from error
        if refusal:
            raise _refused(400, refusal)

    async def start(self, text: str, *, workspace: str, **options: Any) -> str:
        """Starts a session in a folder of that machine; the options are those of `POST /sessions`."""
        body = {"text": text, "workspace": workspace, **options}
        return (await self._post("/sessions", _Started, body)).session

    async def say(self, session: str, text: str) -> Delivery:
        return await self._post(f"{_of(session)}/say", Delivery, {"text": text})

    async def queue(self, session: str, text: str) -> Delivery:
        """Says something when the running turn is over."""
        return await self._post(f"{_of(session)}/queue", Delivery, {"text": text})

    async def note(self, session: str, text: str) -> Delivery:
        return await self._post(f"{_of(session)}/note", Delivery, {"text": text})

    async def stop(self, session: str) -> Delivery:
        return await self._post(f"{_of(session)}/stop", Delivery, {})

    async def answer(
        self, session: str, reply: ApprovalReply | None = None, *, call: str = ""
    ) -> list[ApprovalGiven]:
        """Answers one question, or all that are open; without a reply it is a yes."""
        body = {"reply": msgspec.to_builtins(reply or ApprovalReply()), "call": call}
        return await self._post(f"{_of(session)}/answer", list[ApprovalGiven], body)

    async def start_goal(self, text: str, *, workspace: str, **options: Any) -> str:
        """Starts a goal in the background; the options are those of `POST /goals`."""
        return (
            await self._post("/goals", _Started, {"text": text, "workspace": workspace, **options})
        ).session

    async def order_goal(self, session: str, order: str) -> Ordered:
        """`pause` or `stop`."""
        return await self._post(f"{_of(session)}/order", Ordered, {"order": order})

    async def pair(self, code: str, name: str) -> str:
        """The token of this program as a device, for a code that `mainspring serve --pair` showed."""
        return (await self._post("/pair", _Paired, {"code": code, "name": name})).token

    async def _get(self, path: str, kind: type[_T], **query: Any) -> _T:
        return await self._ask("GET", f"{path}?{urlencode(query)}" if query else path, kind, b"")

    async def _post(self, path: str, kind: type[_T], body: dict[str, Any]) -> _T:
        return await self._ask("POST", path, kind, msgspec.json.encode(body))

    async def _ask(self, method: str, path: str, kind: type[_T], body: bytes) -> _T:
        headers = {**self._headers, **({"content-type": "application/json"} if body else {})}
        try:
            answer = await send_request(
                method,
                f"{self._base}{path}",
                environment=self._environment,
                headers=headers,
                body=body,
                timeout_s=_SILENCE_S,
            )
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        if answer.status != 200:
            raise _refused(answer.status, answer.body)
        return msgspec.json.decode(answer.body, type=kind)

    def _unreachable(self, error: Exception) -> ServerError:
        return ServerError(
            f"{self._base} cannot be reached: {error or type(error).__name__}.",
            remedy="Start `mainspring serve` there; SSL_CERT_FILE names a certificate to trust.",
        )


def _of(session: str) -> str:
    return f"/sessions/{quote(session, safe='')}"


def _recorded(line: _Line) -> Recorded:
    delta = _DELTAS.get(line.kind)
    event: Event = msgspec.json.decode(line.body, type=delta) if delta else decode(line.kind, line.body)
    at_us = int(datetime.fromisoformat(line.time).timestamp() * 1e6) if line.seq else 0
    return Recorded(line.seq, at_us, event)


_DELTAS: dict[str, type[Event]] = {"TextDelta": TextDelta, "StatusDelta": StatusDelta}


def _refused(status: int, body: bytes) -> ServerError:
    try:
        told = msgspec.json.decode(body, type=_Refusal).error
    except DECODE_ERRORS:
        return ServerError(f"The server answered {status}.", status=status)
    return ServerError(told.message, remedy=told.remedy, status=status)
