"""Documents as text: `mainspring.formats` runs as a program in the sandbox, with nothing to write, no network
and limits of its own, one run a document. Texts are kept by the hash of their document, so that the next page
or a search does not read it again.
"""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mainspring import formats
from mainspring.errors import SandboxError
from mainspring.sandbox import MIB, Command, CommandResult, ProcessLimits, Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.programs import confined_to_reading
from mainspring.sandbox.streams import written
from mainspring.tools import ToolFailed

INSTALL = "pip install 'mainspring[documents]'"
_NEEDED = {"pdf": "pypdfium2", "docx": "docx", "xlsx": "python_calamine"}
_TIME_S = 60.0
_LIMITS = ProcessLimits(cpu_s=30, memory_bytes=1024 * MIB, processes=64, file_bytes=MIB)
_MAX_ANSWER = 96 * MIB
_MAX_KEPT = 16_000_000
_MAX_PLACES = 30
_SIGNAL = 128
_PROGRAM = "mainspring.formats"
_FOLDERS = (Path(sys.prefix), Path(sys.base_prefix), Path(formats.__file__).parents[1])

kind_of = formats.kind_of


class ReadingPlace(Protocol):
    """Where documents are read: a call's context, or what else has files and a sandbox."""

    @property
    def files(self) -> Files: ...
    @property
    def sandbox(self) -> Callable[[], Awaitable[Sandbox]]: ...


async def document_text(place: ReadingPlace, path: str, data: bytes, kind: str) -> str:
    """The whole text, with a line before each page, sheet or slide. Raises `ToolFailed`."""
    if kind == "locked":
        raise ToolFailed(f"{path} is protected by a password.")
    if (needed := _NEEDED.get(kind)) and find_spec(needed) is None:
        package = formats.PACKAGES[needed]
        raise ToolFailed(f"Reading {kind.upper()} files needs {package}, which is not installed: {INSTALL}")
    key = hashlib.sha256(data).hexdigest()
    if key not in _kept:
        told, _ = await run_formats(place, path, {"action": "read", "kind": kind}, data)
        _keep(key, _joined(told["parts"]))
    _kept.move_to_end(key)
    return _kept[key]


async def run_formats(
    place: ReadingPlace, path: str, request: Mapping[str, Any], data: bytes
) -> tuple[dict[str, Any], bytes]:
    """What the program answers, and the changed document. A document that it cannot take, that crashes it or
    takes too much, is a `ToolFailed`."""
    policy = confined_to_reading(place.files.policy, *_FOLDERS)
    try:
        sandbox = await place.sandbox()
        async with written(msgspec.json.encode(request) + b"\n" + data) as given:
            ran = await sandbox.run(
                Command(
                    argv=(sys.executable, "-I", "-m", _PROGRAM),
                    cwd=policy.workspace,
                    timeout_s=_TIME_S,
                    max_output_bytes=_MAX_ANSWER,
                    limits=_LIMITS,
                    policy=policy,
                    stdin=given,
                    is_whole=True,
                )
            )
    except SandboxError as error:
        raise ToolFailed(f"{path} is a document, and its reader cannot run: {error.message}") from error
    what = "read" if request["action"] == "read" else "written"
    head, _, changed = ran.stdout.partition(b"\n")
    if ran.stopped or ran.exit_code or ran.dropped_bytes or not head:
        raise ToolFailed(f"{path} cannot be {what}: {_why(ran)}.")
    told: dict[str, Any] = msgspec.json.decode(head)
    if failed := told.get("failed"):
        raise ToolFailed(f"{path} cannot be {what}: {failed.rstrip('.')}.")
    return told, changed


def _why(ran: CommandResult) -> str:
    if ran.stopped:
        return f"its reader was stopped ({ran.stopped})"
    if b"MemoryError" in ran.stderr:
        return "it takes too much memory"
    if ran.exit_code > _SIGNAL:
        return f"its reader crashed (exit code {ran.exit_code}); it is broken, or takes too much memory"
    last = ran.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
    return f"its reader ended with code {ran.exit_code}" + (f": {last}" if last else "")


def _joined(parts: Sequence[Sequence[str]]) -> str:
    """The parts below each other, and in the first line where they begin."""
    lines: list[str] = []
    begins: list[int] = []
    first = 3 if len(parts) > 1 else 1
    for title, text in parts:
        begins.append(first + len(lines))
        lines += [*([f"[{title}]"] if title else []), *text.split("\n"), ""]
    if len(parts) > 1:
        step = -(-len(parts) // _MAX_PLACES)
        places = ", ".join(f"{number + 1} at {begins[number]}" for number in range(0, len(parts), step))
        word = parts[0][0].partition(" ")[0]
        lines = [f"({len(parts)} {word}s; by line: {places})", "", *lines]
    return "\n".join(lines).rstrip("\n")


def _keep(key: str, text: str) -> None:
    _kept[key] = text
    while sum(map(len, _kept.values())) > _MAX_KEPT and len(_kept) > 1:
        _kept.popitem(last=False)


_kept: OrderedDict[str, str] = OrderedDict()
