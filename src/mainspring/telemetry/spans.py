"""Spans: pieces of work with a beginning and an end, as a trace shows them, and what they are called.

The id of a trace comes from the session, that of a span from the session and the number of the event with
which it began. So the same journal gives the same ids for ever, and whoever gets a span twice can tell.
"""

from __future__ import annotations

import hashlib
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import UsageError
from mainspring.models.providers import parse_model

Value = bool | int | float | str | tuple[str, ...]
Attributes = dict[str, Value]
ROOT = "session"
"""The key of the span that every other span of a session is below."""

_PROVIDERS = {"gemini": "gcp.gemini", "xai": "x_ai", "mistral": "mistral_ai"}
"""Providers whose name in the semantic conventions is not ours."""


class SpanLink(msgspec.Struct, frozen=True):
    """Work of another session, or an earlier part of this one, that a span belongs to."""

    session: str
    key: str
    relation: str


class SpanEvent(msgspec.Struct, frozen=True):
    """Something that happened at one moment of a span."""

    name: str
    time_us: int
    attributes: Attributes = {}


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A span that has ended. `key` names it within its session, `parent` the one above it, if any; `error` is
    the kind of error that it ended with; `seq` is the event with which it ended."""

    session: str
    key: str
    parent: str
    name: str
    is_client: bool
    start_us: int
    end_us: int
    seq: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str = ""

    @property
    def duration_s(self) -> float:
        return max(0, self.end_us - self.start_us) / 1e6


def trace_id(session: str) -> str:
    """16 bytes as hexadecimal digits."""
    return hashlib.sha256(f"mainspring trace {session}".encode()).hexdigest()[:32]


def span_id(session: str, key: str) -> str:
    """8 bytes as hexadecimal digits."""
    return hashlib.sha256(f"mainspring span {session} {key}".encode()).hexdigest()[:16]


def child_key(child: str) -> str:
    """The key, in the session that asked, of the span for the work of a child: the child knows it as well."""
    return f"child {child}"


class ModelNames(msgspec.Struct, frozen=True):
    """A model as traces name it: who serves it, its own name, and where, if that was said."""

    provider: str
    model: str
    address: str = ""
    port: int = 0

    def attributes(self) -> Attributes:
        named: Attributes = {"gen_ai.provider.name": self.provider, "gen_ai.request.model": self.model}
        if self.address:
            named["server.address"] = self.address
        if self.port:
            named["server.port"] = self.port
        return named


def model_names(spec: str) -> ModelNames:
    """The names of a model that a journal names. An address keeps its host and nothing else."""
    try:
        known = parse_model(spec)
    except UsageError:
        provider, _, model = spec.partition("/")
        plain = (provider or "unknown").partition("@")[0]
        return ModelNames(plain, model if model and "@" not in provider else plain)
    provider = _PROVIDERS.get(known.provider.id, known.provider.id)
    if not known.base_url:
        return ModelNames(provider, known.model)
    try:
        parts = urlsplit(known.base_url)
        return ModelNames(provider, known.model, parts.hostname or "", parts.port or 0)
    except ValueError:
        return ModelNames(provider, known.model)


class OpenSpan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A span that has begun. `touched_us` is when something last happened in it."""

    key: str
    parent: str
    name: str
    start_us: int
    is_client: bool = False
    attributes: Attributes = {}
    events: list[SpanEvent] = []
    links: list[SpanLink] = []
    touched_us: int = 0

    def ended(self, session: str, seq: int, end_us: int, error: str = "") -> TraceSpan:
        return TraceSpan(
            session=session,
            key=self.key,
            parent=self.parent,
            name=self.name,
            is_client=self.is_client,
            start_us=self.start_us,
            end_us=max(end_us, self.start_us),
            seq=seq,
            attributes={**self.attributes, **({"error.type": error} if error else {})},
            events=tuple(self.events),
            links=tuple(self.links),
            error=error,
        )


Kind = Literal["turn", "iteration", "step", "spend", "call", "ask", "wait", "child"]
"""What a span is for; of the first three at most one is open in a session."""
