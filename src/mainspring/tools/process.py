"""Looks after the background commands of a session: status, output, input, end.

Reading goes on where the last look ended. An end that is seen here is recorded with this call, so that the
model is not told of it again.
"""

import codecs
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from mainspring.approvals import Effect
from mainspring.errors import SandboxError
from mainspring.events import ProcessEnded
from mainspring.events.counts import plural
from mainspring.folds.processes import Process, aside_text, end_of, is_alive, settled, status_of
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

if TYPE_CHECKING:
    from mainspring.sandbox.background import Background, Status

Action = Literal["status", "output", "send", "stop", "list"]

_MAX_SHOWN = 24_000
_PIECE = 64 * 1024
_MAX_COMMAND = 80


class ProcessArguments(Arguments, frozen=True):
    action: Action
    handle: Annotated[str, Meta(description="As p1")] = ""
    text: str = ""
    close: bool = False
    since: Annotated[
        int | None,
        Meta(description="Byte offset, below 0 from the end"),
    ] = None
    wait_s: Annotated[float, Meta(ge=0, le=3600, description="First wait so long for its end")] = 0


async def _run(arguments: ProcessArguments, place: CallContext) -> Output:
    if arguments.action == "list":
        lines = [_line(process, status_of(process), place) for process in place.handles.processes.all]
        return Output(text="\n".join(lines) or "There are no background processes.")
    process = _found(arguments.handle, place)
    match arguments.action:
        case "status" | "output":
            return await _look(process, arguments, place)
        case "send":
            return _send(process, arguments, place)
        case "stop":
            return await _stop(process, place)


async def _look(process: Process, arguments: ProcessArguments, place: CallContext) -> Output:
    status = status_of(process)
    if arguments.wait_s and is_alive(status):
        status = await process.background.wait(arguments.wait_s)
    line = _line(process, status, place)
    text = line if arguments.action == "status" else _output(process, status, arguments.since, place, line)
    ended = await _settled(process, status, place)
    aside = aside_text(ended) if ended and ended.call == place.call else ""
    return Output(text="\n".join(filter(None, (text, aside))), exit_code=ended.exit_code if ended else None)


def _output(
    process: Process, status: "Status | None", since: int | None, place: CallContext, line: str
) -> str:
    if status is None:
        return line
    start = place.handles.offsets.get(process.handle, 0) if since is None else since
    if start < 0:
        start = max(0, status.output_bytes + start)
    room = max(1, min(_MAX_SHOWN, place.room) - len(line) - 200)
    text, offset, skipped = _read(process.background, start, room, is_over=not is_alive(status))
    place.handles.offsets[process.handle] = offset
    lines = [line]
    if skipped:
        lines.append(f"({skipped:,} bytes are no longer kept)")
    lines.append(text.rstrip("\n") or "(no new output)")
    if offset < status.output_bytes:
        lines.append(f"({status.output_bytes - offset:,} bytes follow; ask again, or with since=-{room})")
    return "\n".join(lines)


def _read(background: "Background", start: int, room: int, *, is_over: bool) -> tuple[str, int, int]:
    """Output from a byte on, where to go on, and how much was gone. Half a character is left for the next
    look as long as its other half may come, and so is half a line that goes on: it may be half a key."""
    data, offset, skipped = b"", start, 0
    while len(data) < room:
        piece = background.output(offset, min(_PIECE, room - len(data)))
        if not piece.data:
            break
        data, offset, skipped = data + piece.data, piece.next_offset, skipped + piece.skipped
    if len(data) >= room and (line := data.rfind(b"\n") + 1):
        data, offset = data[:line], offset - len(data) + line
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    is_whole = is_over and len(data) < room
    text = decoder.decode(data, final=is_whole)
    held, _ = decoder.getstate()
    return text, offset - len(held), skipped


def _send(process: Process, arguments: ProcessArguments, place: CallContext) -> Output:
    status = status_of(process)
    if not is_alive(status):
        raise ToolFailed(f"Nothing was sent. {_line(process, status, place)}")
    try:
        if arguments.text:
            process.background.send(arguments.text.encode("utf-8", "replace"))
        if arguments.close:
            process.background.close_input()
    except SandboxError as error:
        raise ToolFailed(f"Not all of it was sent: {error}") from error
    closed = " and closed its input" if arguments.close else ""
    return Output(text=f"Sent {plural(len(arguments.text), 'character')} to {process.handle}{closed}.")


async def _stop(process: Process, place: CallContext) -> Output:
    if is_alive(status_of(process)):
        await process.background.stop("stopped")
    status = status_of(process)
    ended = await _settled(process, status, place)
    aside = aside_text(ended) if ended and ended.call == place.call else ""
    text = "\n".join(filter(None, (_line(process, status, place), aside)))
    return Output(text=text, is_error=is_alive(status))


async def _settled(process: Process, status: "Status | None", place: CallContext) -> ProcessEnded | None:
    """Its end, if it has ended: recorded now, unless it was before."""
    async with place.handles.changing:
        known = place.handles.processes.get(process.handle) or process
        if known.ended is None and (ended := await settled(known, status, call=place.call)):
            await place.record(ended)
            return ended
        return known.ended


def _line(process: Process, status: "Status | None", place: CallContext) -> str:
    command = process.started.command
    shown = command if len(command) <= _MAX_COMMAND else f"{command[:_MAX_COMMAND]}…"
    text = f"{process.handle}: {_state(process, status)}"
    if status is not None:
        unread = status.output_bytes - place.handles.offsets.get(process.handle, 0)
        text += f"; {status.output_bytes:,} bytes of output, {max(unread, 0):,} of them new"
    return f"{text}; {shown}"


def _state(process: Process, status: "Status | None") -> str:
    if status is not None and status.state == "running":
        return f"running (pid {status.pid}) for {time.time() - status.started:.0f} s"
    ended = process.ended or end_of(process, status)
    reason = f" ({ended.reason})" if ended and ended.reason else ""
    if ended is None or ended.exit_code is None:
        return f"ended, outcome unknown{reason}"
    count = len(status.left_running) if status else 0
    left = f"; {plural(count, 'process')} that it started still running" if count else ""
    return f"exited with code {ended.exit_code}{reason}{left}"


def _found(handle: str, place: CallContext) -> Process:
    process = place.handles.processes.get(handle)
    if process is None:
        names = ", ".join(each.handle for each in place.handles.processes.all) or "none"
        raise ToolFailed(f"There is no background process {handle!r}. Those of this session: {names}.")
    return process


def _effect(arguments: ProcessArguments) -> Effect:
    """Stopping twice is stopping once, and touches only what this session started; what is sent may be a
    command."""
    match arguments.action:
        case "send":
            return "execute"
        case "stop":
            return "none"
        case "status" | "output" | "list":
            return "read"


TOOL = Tool(
    name="process",
    description=described(Path(__file__)),
    arguments=ProcessArguments,
    effect="execute",
    effect_of=_effect,
    command=lambda arguments: arguments.text if arguments.action == "send" else "",
    outlives=lambda arguments: arguments.action == "send",
    run=_run,
)
