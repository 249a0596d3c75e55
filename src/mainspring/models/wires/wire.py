"""What all wires share: one endpoint, request bodies joined from bytes, and what a model was found to lack.

A body is an opening (kept from request to request), the messages as they were encoded, and a closing with
what may change at every step. So each request starts with the bytes of the one before it, up to what is new.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar, TypedDict, Unpack, cast

import msgspec

from mainspring.errors import BadRequest, ModelError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models import (
    Attachment,
    Effort,
    Message,
    Price,
    Request,
    ResultsMessage,
    StreamItem,
    UserMessage,
)
from mainspring.models.attachments import MediaLimits, media_problem, sendable
from mainspring.models.capabilities import Capabilities
from mainspring.models.failures import Endpoint, not_the_protocol
from mainspring.models.served import Listed, ListPage, ServedModel, as_served
from mainspring.models.structured import answered, with_answer_tool
from mainspring.models.wires.http import Channel, StreamReader
from mainspring.models.wires.messages import ENCODER, described_tools, without_nul
from mainspring.models.wires.transport import TransportLimits

_MOST_PAGES = 50
_STALE = "signatures until "
_MOST_OUTPUT = "output tokens above "
THINKING_ORDER = "thinking order"
"""Noted of a model that wants thinking in all of a loop of calls or in none of it."""


class Options(TypedDict, total=False):
    """What every wire may be told, beside its address."""

    provider: str
    key_variable: str
    is_local: bool
    context_tokens: int | None
    price: Price | None
    headers: dict[str, str]
    bounds: TransportLimits | None
    proxy: str
    healed: Capabilities | None
    sampling: dict[str, float]


class Wire(ABC):
    messages_field: ClassVar[str] = "messages"
    schema_field: ClassVar[str]
    media_limits: ClassVar[MediaLimits]

    def __init__(
        self, name: str, base_url: str, api_key: str = "", model: str = "", **options: Unpack[Options]
    ) -> None:
        base_url = base_url.rstrip("/")
        self.name = name
        self.context_tokens = options.get("context_tokens")
        self.price = options.get("price")
        self._endpoint = Endpoint(
            provider=options.get("provider") or base_url,
            base_url=base_url,
            model=model,
            key_variable=options.get("key_variable", ""),
            is_local=options.get("is_local", False),
        )
        headers = {**self._key_headers(api_key), **options.get("headers", {})}
        self._channel = Channel(self._endpoint, headers, options.get("bounds"), options.get("proxy", ""))
        self._opening: tuple[Request, bytes, bytes] | None = None
        self._sampling = options.get("sampling", {})
        self._healed = options.get("healed")
        self._lacks = set(self._healed.known(self._id)) if self._healed else set[str]()
        learned = [int(lack[len(_MOST_OUTPUT) :]) for lack in self._lacks if lack.startswith(_MOST_OUTPUT)]
        self._most_output = min(learned, default=None)
        self._asked_output: int | None = None
        self._sent: Sequence[bytes] = ()
        self._stale = 0
        self._looked = 0
        self._clean: dict[bytes, bytes] = {}

    def encode(self, message: Message) -> bytes:
        match message:
            case UserMessage() if message.attachments:
                message = msgspec.structs.replace(message, attachments=self._sendable(message.attachments))
            case ResultsMessage() if any(result.attachments for result in message.results):
                results = [
                    msgspec.structs.replace(result, attachments=self._sendable(result.attachments))
                    for result in message.results
                ]
                message = ResultsMessage(tuple(results))
            case _:
                pass
        return without_nul(self._encode(message))

    def media_problem(self, attachment: Attachment, /) -> str:
        return media_problem(attachment, self.media_limits)

    def body(self, request: Request) -> bytes:
        opening, leading = self._begin(request)
        messages = self._messages(request)
        self._sent, self._asked_output = request.messages, self._output_limit(request)
        request = msgspec.structs.replace(request, messages=messages)
        closing = ENCODER.encode(self._without_lacks(self._closing_fields(request)))[1:]
        # Joined once: a long history is megabytes.
        pieces = [leading, *messages] if leading else list(messages) or [b""]
        pieces[0] = opening + pieces[0]
        pieces[-1] += (b"]," if len(closing) > 1 else b"]") + closing
        return b",".join(pieces)

    def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        if request.schema is None or self._takes_schema(request):
            return self._channel.stream(self._path(), self.body(request), self._reader())
        if request.is_schema_told:
            plain = msgspec.structs.replace(request, schema=None)
            return self._channel.stream(self._path(), self.body(plain), self._reader())
        body = self.body(with_answer_tool(request))
        return answered(self._channel.stream(self._path(), body, self._reader()))

    async def list_models(self) -> tuple[ServedModel, ...]:
        """The models that this server says it has."""
        listed, after = list[Listed](), ""
        for _ in range(_MOST_PAGES):
            answer = await self._channel.read(self._models_path(after))
            try:
                page = msgspec.json.decode(answer, type=ListPage)
            except DECODE_ERRORS as error:
                raise not_the_protocol(self._endpoint, answer[:200].decode("utf-8", "replace")) from error
            listed += page.data or page.models or ()
            after = page.after
            if not after:
                break
        return as_served(listed)

    async def close(self) -> None:
        await self._channel.close()

    def heal(self, error: ModelError) -> bool:
        """Whether the request that was refused may succeed now, without what the model does not take. Each
        lack is found once and remembered."""
        if not isinstance(error, BadRequest):
            return False
        match error.cause:
            case "signature" | "thinking":
                is_new = len(self._sent) > self._stale
                if error.cause == "thinking":
                    is_new = is_new or THINKING_ORDER not in self._lacks
                    self._lacks.add(THINKING_ORDER)
                self._stale = max(self._stale, len(self._sent))
                self._lacks.update(_mark(message) for message in self._sent[-1:])
                return is_new
            case "output":
                return self._lower_output(error.param)
            case "effort":
                asked = self._opening[0].effort if self._opening else None
                lack = "max effort" if asked == "max" and "max effort" not in self._lacks else "effort"
            case "tools":
                lack = "tools"
            case "order":
                lack = "user after tool"
            case "parameter" if self._is_sent(error.param):
                lack = error.param
            case _:
                return False
        is_new = lack not in self._lacks
        self._lacks.add(lack)
        self._opening = None
        return is_new

    def keep(self) -> None:
        """Remembers what was found, also for other processes, once a request without it has succeeded."""
        if self._healed is not None:
            self._healed.keep(self._id, self._lacks)

    def lacks(self, what: str) -> bool:
        return what in self._lacks

    def note_lack(self, what: str) -> None:
        """What was seen of the model by who reads its replies."""
        self._lacks.add(what)
        self.keep()

    def _lower_output(self, most: str) -> bool:
        """Learns how many tokens of output the model takes at most, as it said; unsaid, half of what it was
        last asked for."""
        asked = self._asked_output or 0
        lowered = int(most) if most else asked // 2
        if not 0 < lowered < asked:
            return False
        self._most_output = lowered
        self._lacks.add(f"{_MOST_OUTPUT}{lowered}")
        return True

    def _output_limit(self, request: Request) -> int | None:
        """How many tokens the reply may have, None when nothing bounds it."""
        limit = request.max_output_tokens
        return None if limit is None else min(limit, self._most_output or limit)

    def _sendable(self, attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        return tuple(sendable(attachment, self.media_limits) for attachment in attachments)

    @abstractmethod
    def _encode(self, message: Message) -> bytes:
        """A message whose attachments the wire takes."""

    @property
    def _id(self) -> str:
        return f"{self._endpoint.base_url} {self._endpoint.model}"

    @abstractmethod
    def _path(self) -> str: ...

    def _models_path(self, _after: str) -> str:
        """Where a page of its models is listed."""
        return "/models"

    @abstractmethod
    def _reader(self) -> StreamReader: ...

    @abstractmethod
    def _opening_fields(self, request: Request) -> dict[str, Any]:
        """What stands before the messages, and stays the same while nobody changes a setting."""

    @abstractmethod
    def _closing_fields(self, request: Request) -> dict[str, Any]:
        """What may differ from one request to the next; its messages are those that are sent."""

    @abstractmethod
    def _without_thinking(self, message: bytes) -> bytes:
        """An encoded message without what only its author can verify."""

    def _sampled(self) -> dict[str, Any]:
        """How to choose the next token, where a person said so."""
        return self._sampling

    def _takes_schema(self, _request: Request) -> bool:
        """Whether the wire has a field for the schema of a reply, and the model takes it."""
        return not any(lack.startswith(self.schema_field) for lack in self._lacks)

    def _leading(self, _request: Request) -> bytes:
        """A message that comes before the first, where the wire has no other place for the system prompt."""
        return b""

    def _key_headers(self, api_key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {api_key}"} if api_key else {}

    def _system(self, request: Request) -> str:
        if "tools" not in self._lacks or not request.tools:
            return request.system
        return f"{request.system}\n\n{described_tools(request.tools)}".lstrip()

    def _effort(self, request: Request) -> Effort | None:
        if "effort" in self._lacks:
            return None
        return "high" if request.effort == "max" and "max effort" in self._lacks else request.effort

    def _messages(self, request: Request) -> Sequence[bytes]:
        messages = request.messages
        if not self._stale:
            self._stale = self._known_stale(messages)
        if not self._stale:
            return messages
        return [
            self._cleaned(message) if position < self._stale else message
            for position, message in enumerate(messages)
        ]

    def _known_stale(self, messages: Sequence[bytes]) -> int:
        """How many of these were refused for their signatures in another process; each is looked at once."""
        looked, self._looked = self._looked, max(self._looked, len(messages))
        if not any(lack.startswith(_STALE) for lack in self._lacks):
            return 0
        new = enumerate(messages[looked:], looked + 1)
        return max((position for position, message in new if _mark(message) in self._lacks), default=0)

    def _cleaned(self, message: bytes) -> bytes:
        clean = self._clean.get(message)
        if clean is None:
            clean = self._clean[message] = self._without_thinking(message)
        return clean

    def _begin(self, request: Request) -> tuple[bytes, bytes]:
        like = msgspec.structs.replace(request, messages=(), max_output_tokens=None)
        if self._opening is None or self._opening[0] != like:
            fields = ENCODER.encode(self._without_lacks({**self._opening_fields(request), **self._sampled()}))
            separator = "," if len(fields) > 2 else ""
            opening = fields[:-1] + f'{separator}"{self.messages_field}":['.encode()
            self._opening = (like, without_nul(opening), without_nul(self._leading(request)))
        return self._opening[1:]

    def _without_lacks(self, fields: dict[str, Any]) -> dict[str, Any]:
        for lack in self._lacks:
            within, _, name = lack.rpartition(".")
            place = _place(fields, within)
            if place is not None:
                place.pop(name, None)
        return fields

    def _is_sent(self, parameter: str) -> bool:
        if self._opening is None:
            return False
        request = msgspec.structs.replace(self._opening[0], max_output_tokens=1)
        within, _, name = parameter.rpartition(".")
        fields = {**self._opening_fields(request), **self._sampled(), **self._closing_fields(request)}
        place = _place(fields, within)
        return place is not None and name in place


def _mark(message: bytes) -> str:
    """Names the last message of a request whose signatures were refused."""
    return f"{_STALE}{hashlib.sha256(message).hexdigest()[:32]}"


def _place(fields: dict[str, Any], path: str) -> dict[str, Any] | None:
    place: Any = fields
    for key in path.split(".") if path else ():
        place = cast("dict[str, Any]", place).get(key) if isinstance(place, dict) else None
    return cast("dict[str, Any]", place) if isinstance(place, dict) else None
