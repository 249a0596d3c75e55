"""An OpenAI-compatible endpoint: a chat that speaks chat-completions or responses talks to an agent.

Each conversation is a session. Responses name it (`previous_response_id`); a chat-completions client sends
the whole conversation each time, and is recognized by what was said before. One that is not (after a
restart, or edited) begins a session that is told what was said. Tools of a client are not used: the agent
has its own.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from mainspring.app.dispatch import CommandCall, dispatched
from mainspring.app.operations.device_roles import Device, asked_by, device_permission
from mainspring.app.operations.sessions import find_session, folder_of
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, AssistantSaid, TextDelta, TurnEnded
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.serve.chat_shapes import ChatShape, ResponsesShape, Shape
from mainspring.serve.guard import client_address
from mainspring.serve.hub import Hub, StartSession
from mainspring.session.session import Session
from mainspring.settings import Config

MODEL = "mainspring"
"""The model's name that means: as in the settings."""
_KNOWN = 1000
_TEXTS = ("text", "input_text", "output_text")


class _Message(msgspec.Struct, frozen=True):
    role: str = "user"
    content: str | list[dict[str, Any]] | None = None
    type: str = "message"

    @property
    def text(self) -> str:
        if not isinstance(self.content, list):
            return self.content or ""
        for part in self.content:
            if part.get("type") not in _TEXTS:
                raise UsageError(f"A part of the type {part.get('type')!r} cannot be read here; send text.")
        return "".join(str(part.get("text", "")) for part in self.content)


class _ChatAsked(msgspec.Struct, frozen=True, kw_only=True):
    messages: list[_Message]
    model: str = MODEL
    stream: bool = False


class _ResponseAsked(msgspec.Struct, frozen=True, kw_only=True):
    input: str | list[_Message]
    model: str = MODEL
    instructions: str | None = None
    previous_response_id: str | None = None
    stream: bool = False


class _Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted by whom: something said to a session, or to a new one."""

    asker: str
    text: str
    model: str
    instructions: str = ""
    said: tuple[tuple[str, str], ...] = ()
    session: str = ""


class ChatApi:
    """`folder` is where sessions of these clients work."""

    def __init__(self, config: Config, hub: Hub, folder: Path) -> None:
        self._config = config
        self._hub = hub
        self._folder = folder
        self._known: OrderedDict[str, str] = OrderedDict()

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/responses", self._responses, methods=["POST"]),
        ]

    async def _models(self, _: Request) -> Response:
        models = [{"id": MODEL, "object": "model", "created": 0, "owned_by": MODEL}]
        return _json({"object": "list", "data": models})

    async def _chat(self, request: Request) -> Response:
        asked = await _decoded(request, _ChatAsked)
        said = [(each.role, each.text) for each in asked.messages if each.role in ("user", "assistant")]
        *before, last = said or [("", "")]
        if last[0] != "user":
            raise UsageError("The last message must be the user's.")
        # A session goes on from where it is: who comes with the same beginning again gets another one.
        asker = _asker(request)
        session = self._known.pop(_key(asker, before), "") if before else ""
        orders = "\n\n".join(each.text for each in asked.messages if each.role in ("system", "developer"))
        turn = _Turn(
            asker=asker,
            text=last[1],
            model=asked.model,
            instructions=orders,
            said=tuple(before),
            session=session,
        )
        return await self._answer(request, turn, ChatShape(asked.model), is_stream=asked.stream)

    async def _responses(self, request: Request) -> Response:
        asked = await _decoded(request, _ResponseAsked)
        given = [_Message(content=asked.input)] if isinstance(asked.input, str) else asked.input
        said = [(each.role, each.text) for each in given if each.type == "message"]
        said = [each for each in said if each[0] in ("user", "assistant")]
        *before, last = said or [("", "")]
        if last[0] != "user":
            raise UsageError("The input must end with a message of the user.")
        named = asked.previous_response_id
        session = await self._of_response(request, named) if named else ""
        orders = asked.instructions or ""
        turn = _Turn(
            asker=_asker(request),
            text=last[1],
            model=asked.model,
            instructions=orders,
            said=tuple(before),
            session=session,
        )
        return await self._answer(request, turn, ResponsesShape(asked.model), is_stream=asked.stream)

    async def _of_response(self, request: Request, name: str) -> str:
        config = asked_by(self._config, request.state.device, "openai")
        session = await find_session(config, name.removeprefix("resp_").partition("_")[0])
        if await folder_of(self._config, session) != self._folder.resolve():
            raise UsageError(f"{name} is not of this endpoint.")
        return session

    async def _answer(self, request: Request, turn: _Turn, shape: Shape, *, is_stream: bool) -> Response:
        device: Device = request.state.device
        config = asked_by(self._config, device, "openai")
        operation = "say" if turn.session else "run"
        call = CommandCall(
            operation=operation,
            permission=device_permission(device, operation),
            address=client_address(request.scope),
            session=turn.session,
            folder=str(self._folder.resolve()),
            arguments={"text": turn.text, "model": turn.model},
        )
        async with dispatched(config, call):
            session, after = await self._begun(config, turn)
        frames = self._frames(session, after, turn, shape)
        if is_stream:
            headers = {"x-accel-buffering": "no"}
            return StreamingResponse(frames, media_type="text/event-stream", headers=headers)
        async for _ in frames:
            pass
        status = 200 if shape.failure is None else 502
        return _json(shape.whole(), status)

    async def _begun(self, config: Config, turn: _Turn) -> tuple[Session, int]:
        """The session with the turn that was asked for, and the event after which it began."""
        name, after = turn.session, 0
        if name and (open_one := self._hub.here(name)):
            after = await open_one.journal.last_seq()
        if name:
            await self._hub.say(config, name, turn.text)
        else:
            model = "" if turn.model == MODEL else turn.model
            started = StartSession(text=_first(turn), workspace=str(self._folder.resolve()), model=model)
            name = await self._hub.start(config, started)
        session = self._hub.here(name)
        if session is None:
            raise UsageError(f"Another process runs session {name}.", remedy="Wait until it has ended.")
        return session, after or session.opened_seq

    async def _frames(self, session: Session, after: int, turn: _Turn, shape: Shape) -> AsyncGenerator[bytes]:
        """The answer as it comes. When the client is gone, the turn is stopped, on record."""
        shape.begin(session.id, after)
        yield shape.opening()
        reply, is_over = _Reply(await session.journal.last_seq()), False
        try:
            async with aclosing(session.subscribe(after, deltas=True)) as events:
                async for recorded in events:
                    if piece := reply.take(recorded.seq, recorded.event):
                        yield shape.piece(piece)
                    if isinstance(recorded.event, TurnEnded) and not session.is_turn_wanted:
                        is_over = True
                        if piece := reply.ending(recorded.event, session.id):
                            yield shape.piece(piece)
                        shape.end(recorded.event)
                        break
            self._remember(turn, reply.text, session.id)
            yield shape.closing()
        finally:
            if not is_over:
                session.stop_soon()

    def _remember(self, turn: _Turn, text: str, session: str) -> None:
        """By what was said so far; only a short cut, what happened is in the journal."""
        said = [*turn.said, ("user", turn.text), ("assistant", text)]
        self._known[_key(turn.asker, said)] = session
        while len(self._known) > _KNOWN:
            self._known.popitem(last=False)


class _Reply:
    """The text of a turn, from deltas and, where they were missed, from what is on record. Deltas count from
    the first event on that came after `last_seq`: of a reply that had begun before, some may be missing."""

    def __init__(self, last_seq: int) -> None:
        self._last_seq = last_seq
        self._is_live = False
        self._shown = ""
        self._asked: list[str] = []
        self.text = ""

    def take(self, seq: int, event: Any) -> str:
        """What is to be shown of an event."""
        if seq > self._last_seq:
            self._is_live = True
        match event:
            case TextDelta(text=text) if self._is_live:
                self._shown += text
                return self._added(text, is_first=self._shown == text)
            case AssistantSaid(text=text):
                rest = text[len(self._shown) :] if text.startswith(self._shown) else ""
                is_first, self._shown = not self._shown, ""
                return self._added(rest, is_first=is_first)
            case ApprovalAsked(tool=tool):
                self._asked.append(tool)
            case _:
                pass
        return ""

    def ending(self, ended: TurnEnded, session: str) -> str:
        """What is said in the agent's place about how a turn ended."""
        if ended.ending != "blocked":
            return ""
        what = ", ".join(self._asked) or "something"
        return self._added(f"[{what} waits for an answer: mainspring approve {session}]", is_first=True)

    def _added(self, text: str, *, is_first: bool) -> str:
        piece = f"\n\n{text}" if text and is_first and self.text else text
        self.text += piece
        return piece


def _first(turn: _Turn) -> str:
    """The first message of a session, with what the client wants in general, and what was said before."""
    parts = [f"In this conversation: {turn.instructions}"] if turn.instructions else []
    if turn.said:
        parts += ["What was said before, in another session:"]
        parts += [f"{role}: {text}" for role, text in turn.said]
    return "\n\n".join([*parts, "And now:", turn.text]) if parts else turn.text


def _asker(request: Request) -> str:
    """Who asks, as other conversations are told from theirs."""
    device: Device = request.state.device
    return f"{device.id} {device.person.name if device.person else ''}"


def _key(asker: str, said: Sequence[tuple[str, str]]) -> str:
    data = msgspec.json.encode([asker, [(role, text.strip()) for role, text in said]])
    return hashlib.sha256(data).hexdigest()


async def _decoded(request: Request, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(await request.body(), type=kind)
    except DECODE_ERRORS as error:
        raise UsageError(f"The body is not valid: {error}.") from error


def _json(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
