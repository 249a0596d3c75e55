"""The path of a call, the same live and resumed: prepare, permit, start, run, end.

A call that is malformed, refused or fails is answered to the model and the turn goes on; its siblings keep
their results. Approval is awaited here, inside the path. Secrets are put back before a call is judged, so
what is judged is what runs; they are hidden again wherever something is shown or recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec

from mainspring.approvals import Proposed, why_asked
from mainspring.approvals.permit import Blocked, Permitted, Refused, Stopped, Wanted, permit
from mainspring.context.history import ended_calls, recall
from mainspring.errors import PathRefused
from mainspring.events import (
    CallAsked,
    CallEnded,
    CallStarted,
    FilesChanged,
    OutputDelta,
)
from mainspring.folds.state import OpenCall
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.secrets.injection import suspicions
from mainspring.tools import MAX_TEXT, CallContext, Output
from mainspring.tools.toolbox import Prepared
from mainspring.turns.endings import End, abandoned, closed
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import CallMoney, settle_call

_MAX_LIVE_CHARS = 256 * 1024
_TRUNCATED = (
    "Not run: your message was cut off at the output limit, so this call may be incomplete."
    " Send it again, alone and with less in it."
)
_DOUBLE = "Not run: another call of the same message carried the same id. Send it again on its own."
_UNRESOLVED = (
    "Not run: {name} stands for a secret that is not known here, so writing it would lose the secret."
    " Read again where it came from, and copy the placeholder exactly."
)


_MAX_STEP_TEXT = 160_000
"""Characters that the model is sent of all calls of one step together."""


class _Stopped(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


async def run_calls(turn: Runtime) -> End | None:
    """Runs all open calls side by side; what each gives is recorded as it comes. A person who stops the turn
    at one of them stops all."""
    calls = turn.state.open_calls
    doubles = _doubles(turn.state.last_reply.calls)
    room = min(MAX_TEXT, _MAX_STEP_TEXT // max(len(calls), 1))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_run_call(turn, call, is_double=call.asked.call in doubles, room=room))
                for call in calls
            ]
    except ExceptionGroup as errors:
        stops = [error.end for error in errors.exceptions if isinstance(error, _Stopped)]
        for fault in errors.exceptions:
            if not isinstance(fault, _Stopped):
                raise fault from errors
        return stops[0]
    ends = [end for task in tasks if (end := task.result())]
    return ends[0] if ends else None


def _doubles(calls: Sequence[CallAsked]) -> set[str]:
    """The calls that carry the provider's id of an earlier call of their message."""
    first: dict[str, str] = {}
    return {
        asked.call
        for asked in calls
        if asked.provider_id and first.setdefault(asked.provider_id, asked.call) != asked.call
    }


async def record_lost(turn: Runtime) -> None:
    """Records what calls did to files before the process that ran them died."""
    lost = (call.asked for call in turn.state.open_calls if call.is_lost)
    tools = [(asked.call, turn.workbench.toolbox.tool(asked.name)) for asked in lost]
    calls = [call for call, tool in tools if not (tool and tool.effect in ("none", "read"))]
    if calls:
        changed = await turn.workbench.time_machine.end(calls, turn.recorder.put_blob, is_certain=False)
        await turn.record(*([changed] if changed else []))


async def _run_call(turn: Runtime, call: OpenCall, *, is_double: bool, room: int) -> End | None:
    prepared = _prepare(turn, call.asked)
    if call.is_lost and (isinstance(prepared, Output) or not prepared.is_repeatable):
        await turn.record(closed(call))
        return None
    if is_double or call.is_truncated:
        prepared = Output(text=_TRUNCATED if call.is_truncated else _DOUBLE, is_error=True)
    if isinstance(prepared, Output):
        await turn.record(CallEnded(call=call.asked.call, outcome="error", output=prepared.text))
        return None
    permitted = await _permit(turn, call, prepared)
    if isinstance(permitted, CallEnded):
        await turn.record(permitted)
        return None
    if isinstance(permitted, End):
        return permitted
    prepared = permitted.action
    told = f"[a person changed the arguments to {prepared.text}]\n" if permitted.is_edited else ""
    if not call.is_started:
        await turn.record(CallStarted(call=call.asked.call, tool=prepared.tool.name))
    await _run(turn, prepared, told=told, room=room)
    return None


def _prepare(turn: Runtime, asked: CallAsked, edited: str | None = None) -> Prepared | Output:
    """The call with its secrets put back; its `text` keeps what stands in for them. What is sent to others
    gets none: there it could only be a leak."""
    prepared = turn.workbench.toolbox.prepare(asked, edited)
    if isinstance(prepared, Output) or "__secret_" not in prepared.text or prepared.effect == "network":
        return prepared
    unresolved = turn.recorder.vault.unresolved(prepared.text)
    if unresolved and not prepared.is_harmless:
        return Output(text=_UNRESOLVED.format(name=unresolved[0]), is_error=True)
    expanded = turn.recorder.vault.expand_all(msgspec.json.decode(prepared.text))
    whole = turn.workbench.toolbox.prepare(asked, msgspec.json.encode(expanded).decode())
    return whole if isinstance(whole, Output) else msgspec.structs.replace(whole, text=prepared.text)


async def _run(turn: Runtime, prepared: Prepared, *, told: str, room: int) -> None:
    live = _Live(turn, prepared.call)
    open_call = turn.state.open_call(prepared.call)
    answer = open_call.answer if open_call else None
    place = CallContext(
        call=prepared.call,
        workspace=turn.state.workspace,
        sandbox=turn.sandbox,
        files=turn.workbench.files,
        show=live.show,
        hide=turn.recorder.vault.redact,
        keep=turn.recorder.put_blob,
        kept=partial(recall, turn.journal),
        remember=partial(_remember, turn),
        record=turn.record,
        ended=partial(ended_calls, turn.journal),
        seen=turn.workbench.toolbox.seen,
        handles=turn.handles,
        waiting=turn.waiting,
        answer=answer.feedback if answer else "",
        room=room,
    )
    began = time.monotonic()
    output, changed = await _run_watched(turn, prepared, place)
    live.end()
    ended = CallEnded(
        call=prepared.call,
        outcome="error" if output.is_error else "ok",
        output=told + output.text,
        media=output.media,
        exit_code=output.exit_code,
        full=output.full,
        duration_s=round(time.monotonic() - began, 6),
        suspicious=suspicions(output.text),
        left_running=output.left_running,
    )
    await settle_call(turn, prepared.call, output.cost_usd, *changed, ended)


async def _remember(turn: Runtime, text: str) -> None:
    """Keeps something for later sessions in the same project; raises `OSError` when it cannot."""
    if memory := turn.workbench.memory:
        await asyncio.to_thread(memory.add, text, f"agent, session {turn.recorder.session}")


class _Live:
    """Output of a running call as it comes: without secrets, and not more than anybody would read."""

    def __init__(self, turn: Runtime, call: str) -> None:
        self._turn = turn
        self._call = call
        self._stream = turn.recorder.vault.stream()
        self._left = _MAX_LIVE_CHARS

    def show(self, text: str) -> None:
        if self._left > 0:
            self._left -= len(text)
            self._show(self._stream.feed(text))

    def end(self) -> None:
        self._show(self._stream.end())

    def _show(self, text: str) -> None:
        if text:
            self._turn.show(OutputDelta(call=self._call, text=text))


async def _run_watched(
    turn: Runtime, prepared: Prepared, place: CallContext
) -> tuple[Output, list[FilesChanged]]:
    """Runs a call, and looks at what it did to files if it may do anything, also when it is cancelled."""
    if prepared.is_harmless:
        return await turn.workbench.toolbox.run(prepared, place), []
    await turn.workbench.time_machine.begin(place.call)
    try:
        output = await turn.workbench.toolbox.run(prepared, place)
    except asyncio.CancelledError:
        if changed := await turn.workbench.time_machine.end([place.call], turn.recorder.put_blob):
            await turn.record(changed)
        raise
    changed = await turn.workbench.time_machine.end([place.call], turn.recorder.put_blob)
    return output, [changed] if changed else []


async def _permit(turn: Runtime, call: OpenCall, prepared: Prepared) -> Permitted[Prepared] | CallEnded | End:
    """The call as it may run, or how it ended without running, or the end of the turn."""
    name = call.asked.name

    async def edit(arguments: str) -> Wanted[Prepared] | str:
        edited = _prepare(turn, call.asked, arguments)
        return edited.text if isinstance(edited, Output) else await _wanted(turn, call, edited)

    wanted = await _wanted(turn, call, prepared)
    match await permit(turn.approvals, wanted, edit=edit, money=CallMoney(turn)):
        case Permitted() as permitted:
            return permitted
        case Refused() as refused:
            return _refused(call, refused)
        case Blocked() if wanted.question:
            remedy = f"Answer it: mainspring approve {turn.state.session} --say TEXT"
            return End("blocked", f"The agent asks: {wanted.question}", remedy)
        case Blocked(question):
            detail = f"A person must approve the call of {name}: {why_asked(question)}."
            remedy = f"Answer with `mainspring approve {turn.state.session}`, or resume in a terminal."
            return End("blocked", detail, remedy)
        case Stopped():
            raise _Stopped(End("interrupted", f"A person refused the call of {name} and stopped the turn."))


def _refused(call: OpenCall, refused: Refused) -> CallEnded:
    name = call.asked.call
    match refused.by:
        case "abandoned":
            return abandoned(call)
        case "edit":
            return CallEnded(call=name, outcome="error", output=f"Edited by a person: {refused.reason}")
        case "rule":
            text = f"Refused: {refused.reason}."
        case "expired":
            text = f"Not run: {refused.reason}."
        case "person":
            feedback = f" They said: {refused.feedback}" if refused.feedback else ""
            text = f"A person refused this call.{feedback}"
    return CallEnded(call=name, outcome="refused", output=text)


async def _wanted(turn: Runtime, call: OpenCall, prepared: Prepared) -> Wanted[Prepared]:
    """Tools that only touch files are held by `Files`; the sandbox is chosen when another one is judged."""
    is_file_tool = prepared.effect in ("none", "read", "write")
    is_ours = prepared.effect == "network"  # this process reaches out itself, outside every sandbox
    proposed = proposed_of(
        prepared,
        files=turn.workbench.files,
        workspace=turn.state.workspace,
        session=turn.state.session,
        is_contained=is_file_tool or (not is_ours and _contains(await turn.sandbox(), prepared)),
    )
    tool = prepared.tool
    return Wanted(
        call=prepared.call,
        action=prepared,
        proposed=proposed,
        arguments=prepared.text,
        is_priced=tool.cost_usd is not None,
        question=tool.question(prepared.arguments) if tool.question else "",
        asked=call.question,
    )


def _contains(sandbox: Sandbox, prepared: Prepared) -> bool:
    is_lasting = prepared.tool.outlives(prepared.arguments)
    return sandbox.is_containing_background if is_lasting else sandbox.is_containing


def proposed_of(
    prepared: Prepared,
    *,
    files: Files,
    workspace: Path,
    session: str,
    is_contained: bool,
) -> Proposed:
    """The call in the words that a policy judges."""
    tool, arguments = prepared.tool, prepared.arguments
    return Proposed(
        tool=tool.name,
        effect=prepared.effect,
        arguments=msgspec.to_builtins(arguments),
        paths=tuple(_real(files, path) for path in tool.paths(arguments)),
        command=tool.command(arguments),
        hosts=tool.hosts(arguments),
        workspace=str(workspace),
        session=session,
        is_contained=is_contained,
        cost_usd=prepared.cost_usd,
        is_recurring=prepared.is_recurring,
    )


def _real(files: Files, path: str) -> str:
    try:
        return str(files.resolve(path))
    except PathRefused:
        return path  # the tool refuses it too, in words for the model
