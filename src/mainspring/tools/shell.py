"""Runs a command line in the sandbox and tells all of it: exit code, output, what was left running.

In the background it returns at once with a handle for the tool `process`.
"""

from codecs import getincrementaldecoder
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Annotated

from msgspec import Meta

from mainspring.errors import SandboxError
from mainspring.events import ProcessEnded, ProcessStarted
from mainspring.sandbox import TIMED_OUT, Command, CommandResult
from mainspring.sandbox.policy import MAX_FOLDERS
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.bounds import bounded
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

_MAX_SHOWN = 24_000
_TIMEOUT_S = 120.0
_MAX_TIMEOUT_S = 3600.0
_SCREEN_TIMEOUT_S = 10.0


class ShellArguments(Arguments, frozen=True):
    command: Annotated[str, Meta(min_length=1)]
    timeout_s: Annotated[
        float | None,
        Meta(description="120 by default, none in the background"),
    ] = None
    background: Annotated[bool, Meta(description="Return a handle at once")] = False
    terminal: Annotated[bool, Meta(description="With a terminal, in the background")] = False
    stay: Annotated[bool, Meta(description="May outlive this session")] = False
    service: Annotated[bool, Meta(description="A server: nobody awaits its end")] = False


async def _run(arguments: ShellArguments, place: CallContext) -> Output:
    if arguments.background:
        return await _start(arguments, place)
    timeout_s = timeout_of(arguments)
    sandbox = await place.sandbox()
    decoder = getincrementaldecoder("utf-8")("replace")
    finished = await sandbox.run(
        _command(arguments, place, timeout_s),
        on_output=lambda chunk: place.show(decoder.decode(chunk)),
    )
    return await output_of(finished, arguments, place)


def timeout_of(arguments: ShellArguments) -> float:
    """The time limit of a command in the foreground."""
    if arguments.terminal or arguments.stay or arguments.service:
        raise ToolFailed("terminal, stay and service are for background=true only; nothing was run.")
    timeout_s = _usual_timeout_s(arguments.command) if arguments.timeout_s is None else arguments.timeout_s
    if not 0 < timeout_s <= _MAX_TIMEOUT_S:
        raise ToolFailed(
            f"timeout_s must be above 0 and at most {_MAX_TIMEOUT_S:g}; for longer use background=true."
        )
    return timeout_s


async def output_of(
    finished: CommandResult, arguments: ShellArguments, place: CallContext, *notices: str
) -> Output:
    """What the model is told of a command in the foreground, with `notices` at its end."""
    is_error = finished.exit_code != 0 or bool(finished.stopped)
    wanted = _interactive().asked_for_somebody(arguments.command, finished)
    text = "\n".join((told(finished, advice=wanted or _advice(finished)), *notices))
    output = Output(
        text=text, is_error=is_error, exit_code=finished.exit_code, left_running=finished.left_running
    )
    return await bounded(output, place, limit=min(_MAX_SHOWN, place.room))


async def _start(arguments: ShellArguments, place: CallContext) -> Output:
    """The handle is on record before anything runs, so nothing can run that nobody knows of."""
    handles = place.handles
    if handles.folder is None:
        raise ToolFailed("This session was built without a place for background processes.")
    timeout_s = arguments.timeout_s or 0.0
    if not 0 <= timeout_s < float("inf"):
        raise ToolFailed("timeout_s must be 0, which is no limit, or more.")
    sandbox = await place.sandbox()
    async with handles.changing:
        handle = f"p{len(handles.processes.all) + 1}"
        folder = handles.folder / handle
        await place.record(
            ProcessStarted(
                handle=handle,
                call=place.call,
                command=arguments.command,
                folder=str(folder),
                is_staying=arguments.stay,
                is_service=arguments.service,
                timeout_s=timeout_s,
            )
        )
    command = _command(arguments, place, timeout_s)
    try:
        background = await sandbox.start(command, folder, is_terminal=arguments.terminal)
    except SandboxError as error:
        await place.record(ProcessEnded(handle=handle, reason=error.message, call=place.call))
        raise ToolFailed(f"It could not be started: {error.message}") from error
    life = f"ended after {timeout_s:g} s" if timeout_s else "not ended by time"
    end = "stays when this session ends" if arguments.stay else "ends with this session"
    return Output(
        text=f"Started in the background as {handle} (pid {background.status().pid}); it is {life} and {end}."
    )


def _command(arguments: ShellArguments, place: CallContext, timeout_s: float) -> Command:
    return Command(argv=("bash", "-c", arguments.command), cwd=place.workspace, timeout_s=timeout_s)


def _interactive() -> ModuleType:
    """It brings a shell parser, which a start does not wait for."""
    return import_module("mainspring.tools.interactive")


def _usual_timeout_s(command: str) -> float:
    return _SCREEN_TIMEOUT_S if _interactive().screen_program(command) else _TIMEOUT_S


def _advice(finished: CommandResult) -> str:
    is_late = finished.stopped.startswith(TIMED_OUT)
    return "(A server, a watcher or long work belongs in background=true.)" if is_late else ""


def told(finished: CommandResult, *, advice: str = "") -> str:
    """The result in words: nothing that happened is left out."""
    stdout = finished.stdout.decode("utf-8", errors="replace")
    stderr = finished.stderr.decode("utf-8", errors="replace")
    lines = [f"exit code {finished.exit_code}" + (f" ({finished.stopped})" if finished.stopped else "")]
    if finished.dropped_bytes:
        lines.append(f"({finished.dropped_bytes:,} bytes of output were dropped)")
    if finished.left_running:
        pids = ", ".join(map(str, finished.left_running))
        lines.append(
            f"(still running: {pids}; they are ended when the time of this call is over, and their output is"
            " lost. Use background=true for what is to go on.)"
        )
    if finished.set_aside:
        paths = ", ".join(finished.set_aside)
        lines.append(f"(protected, so these changes were set aside or put back: {paths})")
        if finished.diff_of_aside:
            lines += ["(a person can move them back from NAME.set-aside)", finished.diff_of_aside]
    if finished.is_partly_held:
        lines.append(
            f"(the workspace has more than {MAX_FOLDERS:,} folders: protected and secret files beyond them"
            " are not held)"
        )
    if stdout:
        lines += ["stdout:", stdout.rstrip("\n")] if stderr else [stdout.rstrip("\n")]
    if stderr:
        lines += ["stderr:", stderr.rstrip("\n")]
    if advice:
        lines.append(advice)
    return "\n".join(lines)


TOOL = Tool(
    name="shell",
    description=described(Path(__file__)),
    arguments=ShellArguments,
    effect="execute",
    command=lambda arguments: arguments.command,
    outlives=lambda arguments: arguments.background,
    run=_run,
)
