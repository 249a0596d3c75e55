"""Pieces of a reply that servers of chat completions label in their own ways, put back together.

Which call a fragment belongs to: servers may leave out the index, the id or both, give all calls the same
index, repeat the name, or send each call whole. And reasoning in details, which goes back as it came.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.events import CallDelta
from mainspring.models.wires.messages import ENCODER, is_object


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class Fragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


class _Call(msgspec.Struct):
    index: int
    id: str = ""
    name: str = ""
    pieces: list[str] = []


class Calls:
    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}

    @property
    def count(self) -> int:
        return len(self._calls)

    def add(self, fragment: Fragment) -> CallDelta:
        function = fragment.function or Function()
        name, text = function.name or "", _argument_text(function.arguments)
        call = self._find(fragment, name)
        is_new = call is None
        if call is None:
            call = _Call(len(self._calls), id=fragment.id or "", name=name)
            self._calls.append(call)
        if fragment.index is not None:
            self._at[fragment.index] = call
        shown = name if is_new or not call.name else ""
        call.name = call.name or name
        if text:
            call.pieces.append(text)
        return CallDelta(
            index=call.index, name=shown, arguments=text, provider_id=(fragment.id or "") if is_new else ""
        )

    def _find(self, fragment: Fragment, name: str) -> _Call | None:
        last = self._calls[-1] if self._calls else None
        if fragment.index is None and fragment.id:
            return next((call for call in self._calls if call.id == fragment.id), None)
        known = last if fragment.index is None else self._at.get(fragment.index)
        if known is None or (fragment.id and known.id and fragment.id != known.id):
            return None
        is_another = name and not fragment.id and is_object("".join(known.pieces))
        return None if is_another else known


def _argument_text(arguments: str | dict[str, Any] | None) -> str:
    if isinstance(arguments, dict):
        return msgspec.json.encode(arguments).decode()
    return arguments or ""


class Details:
    """Reasoning in details (OpenRouter): pieces of the same block have the same index and type."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Any, Any], dict[str, Any]] = {}

    def add(self, details: list[dict[str, Any]]) -> None:
        for detail in details:
            block = self._blocks.setdefault((detail.get("index"), detail.get("type")), {})
            for name, value in detail.items():
                if name in ("text", "summary", "data") and isinstance(value, str):
                    block[name] = block.get(name, "") + value
                elif value is not None:
                    block[name] = value

    def sealed(self) -> str:
        return ENCODER.encode(list(self._blocks.values())).decode() if self._blocks else ""
