"""Hands a request to a collector, and tells what it made of it: taken, refused for good, or not now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec

from mainspring.errors import MainspringError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.net.client import send_request

Signal = Literal["traces", "metrics"]
_TIMEOUT_S = 30.0
_MOST_WAIT_S = 300.0
"""However long a collector says: somebody may have given another address meanwhile."""
_NOT_NOW = frozenset({408, 425, 429, 500, 502, 503, 504})
_NEVER = frozenset({400, 413, 415, 422})
_SHOWN = 200


class NotTaken(MainspringError):
    """A collector did not take something. With `is_lost` it never will; else it may later, after `wait_s` at
    least, or when a person has changed something (an address, a key)."""

    def __init__(self, message: str, *, is_lost: bool = False, wait_s: float = 0.0, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.is_lost = is_lost
        self.wait_s = wait_s


_Count = int | Annotated[str, msgspec.Meta(pattern="^[0-9]{1,18}$")]
"""A 64-bit number, which is text in JSON, and a number where a collector is careless."""


class _PartialSuccess(msgspec.Struct, rename="camel"):
    rejected_spans: _Count = 0
    rejected_data_points: _Count = 0
    error_message: str = ""


class _Answer(msgspec.Struct, rename="camel"):
    partial_success: _PartialSuccess | None = None


class Collector(msgspec.Struct, frozen=True, kw_only=True):
    """Where things are sent: the address before `/v1/traces`, with headers."""

    url: str
    environment: Mapping[str, str]
    headers: Mapping[str, str] = {}

    @property
    def place(self) -> str:
        """The address without what may be a secret in it."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"

    async def send(self, signal: Signal, body: bytes) -> str:
        """What the collector says about what it took: empty when that is all of it. Raises `NotTaken`."""
        url, place = signal_url(self.url, signal), self.place
        try:
            answer = await send_request(
                "POST",
                url,
                environment=self.environment,
                headers={"content-type": "application/json", **self.headers},
                body=body,
                timeout_s=_TIMEOUT_S,
            )
        except OSError as error:
            raise NotTaken(f"{place} cannot be reached: {error or type(error).__name__}.") from error
        except ValueError as error:
            raise NotTaken(f"{place} is not an address that can be used: {error}.") from error
        if 200 <= answer.status < 300:
            return _said(answer.body)
        said = answer.body[:_SHOWN].decode("utf-8", "replace").strip()
        raise NotTaken(
            f"{place} answered {answer.status}{f': {said}' if said else ''}.",
            is_lost=answer.status in _NEVER,
            wait_s=_retry_after_s(answer.headers) if answer.status in _NOT_NOW else 0.0,
            remedy=_REMEDY,
        )


_REMEDY = "The address is the one before /v1/traces; what a collector needs beside it goes into its headers."


def signal_url(url: str, signal: Signal) -> str:
    """The address of a signal; one that names the path of traces means the place before it."""
    return f"{url.rstrip('/').removesuffix('/v1/traces')}/v1/{signal}"


def _said(body: bytes) -> str:
    try:
        partial = msgspec.json.decode(body, type=_Answer).partial_success if body else None
    except DECODE_ERRORS:
        return ""  # it took all of it, and said so in its own way
    if partial is None:
        return ""
    rejected = int(partial.rejected_spans) or int(partial.rejected_data_points)
    if not rejected:
        return partial.error_message
    return f"{rejected} were rejected: {partial.error_message or 'it does not say why'}"


def _retry_after_s(headers: Mapping[str, str]) -> float:
    given = headers.get("retry-after", "")
    return min(float(given), _MOST_WAIT_S) if given.isdecimal() else 0.0
