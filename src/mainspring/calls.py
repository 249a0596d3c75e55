"""The path of a call, the same live and resumed: prepare, permit, start, run, end.

A call that is malformed, refused or fails is answered to the model and the turn goes on; its siblings keep
their results. Approval is awaited here, inside the path.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence

import msgspec

from mainspring.approvals import Proposed
from mainspring.errors import PathRefused
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    Blob,
    CallAsked,
    CallEnded,
    CallStarted,
    FilesChanged,
    OutputDelta,
)
from mainspring.state import OpenCall
from mainspring.tools import MAX_TEXT, Output, Place
from mainspring.tools.toolbox import Prepared
from mainspring.turn import End, Turn, abandoned, closed

_TRUNCATED = (
    "Not run: your message was cut off at the output limit, so this call may be incomplete."
    " Send it again, alone and with less in it."
)
_DOUBLE = "Not run: another call of the same message carried the same id. Send it again on its own."


_MAX_STEP_TEXT = 160_000
"""Characters that the model is sent of all calls of one step together."""


class _Stopped(Exception):
    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


async def run_calls(turn: Turn) -> End | None:
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


async def _run_call(turn: Turn, call: OpenCall, *, is_double: bool, room: int) -> End | None:
    prepared = turn.toolbox.prepare(call.asked)
    if call.is_lost and (isinstance(prepared, Output) or not prepared.tool.is_repeatable):
        await turn.emit(closed(call))
        return None
    if is_double or call.is_truncated:
        prepared = Output(text=_TRUNCATED if call.is_truncated else _DOUBLE, is_error=True)
    if isinstance(prepared, Output):
        await turn.emit(CallEnded(call=call.asked.call, outcome="error", output=prepared.text))
        return None
    permitted = await _permit(turn, call, prepared)
    if isinstance(permitted, CallEnded):
        await turn.emit(permitted)
        return None
    if isinstance(permitted, End):
        return permitted
    told = "" if permitted is prepared else f"[a person changed the arguments to {permitted.text}]\n"
    if not call.is_started:
        await turn.emit(CallStarted(call=call.asked.call, tool=permitted.tool.name))
    began = time.monotonic()
    output, changed = await _run_watched(turn, permitted, _place(turn, call.asked.call, room=room))
    ended = CallEnded(
        call=call.asked.call,
        outcome="error" if output.is_error else "ok",
        output=told + output.text,
        media=output.media,
        exit_code=output.exit_code,
        full=output.full,
        duration_s=round(time.monotonic() - began, 6),
    )
    await turn.emit(*changed, ended)
    return None


async def _run_watched(turn: Turn, prepared: Prepared, place: Place) -> tuple[Output, list[FilesChanged]]:
    """Runs a call, and looks at what it did to files if it may do anything, also when it is cancelled."""
    if prepared.tool.is_repeatable:
        return await turn.toolbox.run(prepared, place), []
    await turn.time_machine.begin(place.call)
    try:
        output = await turn.toolbox.run(prepared, place)
    except asyncio.CancelledError:
        if changed := await turn.time_machine.end([place.call], turn.put_blob):
            await turn.emit(changed)
        raise
    changed = await turn.time_machine.end([place.call], turn.put_blob)
    return output, [changed] if changed else []


async def _permit(turn: Turn, call: OpenCall, prepared: Prepared) -> Prepared | CallEnded | End:
    """The call as it may run, or how it ended without running, or the end of the turn."""
    asked = call.asked
    verdict = turn.policy.judge(await _proposed(turn, prepared))
    if verdict.answer == "deny":
        return CallEnded(call=asked.call, outcome="refused", output=f"Refused: {verdict.reason}.")
    to_person = prepared.tool.question(prepared.arguments) if prepared.tool.question else ""
    if verdict.answer == "allow" and not to_person:
        return prepared
    question = call.question or ApprovalAsked(
        call=asked.call,
        tool=asked.name,
        arguments=prepared.text,
        arguments_sha256=hashlib.sha256(prepared.text.encode()).hexdigest(),
        reason=to_person or verdict.reason,
    )
    answer = call.answer or await turn.ask(question)
    if answer is None and to_person:
        return End("blocked", f"The agent asks: {to_person}", "Resume the session with the answer.")
    if answer is None:
        detail = f"A person must approve the call of {asked.name}: {verdict.reason}."
        return End("blocked", detail, "Resume the session in a terminal to answer, or choose another --mode.")
    if answer.decision == "stop":
        raise _Stopped(End("interrupted", f"A person refused the call of {asked.name} and stopped the turn."))
    if answer.decision != "allow":
        return _refused(call, answer)
    if answer.edited_arguments is None:
        return prepared
    edited = turn.toolbox.prepare(asked, answer.edited_arguments)
    if isinstance(edited, Output):
        return CallEnded(call=asked.call, outcome="error", output=f"Edited by a person: {edited.text}")
    if turn.policy.judge(await _proposed(turn, edited)).answer == "deny":
        return CallEnded(
            call=asked.call, outcome="refused", output="Refused: a rule forbids the edited call."
        )
    return edited


def _refused(call: OpenCall, answer: ApprovalGiven) -> CallEnded:
    if answer.decision == "abandon":
        return abandoned(call)
    feedback = f" They said: {answer.feedback}" if answer.feedback else ""
    is_late = answer.decision == "expire"
    text = "Not run: nobody approved it in time." if is_late else f"A person refused this call.{feedback}"
    return CallEnded(call=call.asked.call, outcome="refused", output=text)


async def _proposed(turn: Turn, prepared: Prepared) -> Proposed:
    """The call in the words that a policy judges. Tools that only touch files are held by `Files`."""
    tool, arguments, state = prepared.tool, prepared.arguments, turn.state
    is_file_tool = tool.effect in ("none", "read", "write")
    is_ours = tool.effect == "network"  # this process reaches out itself, outside every sandbox
    return Proposed(
        tool=tool.name,
        effect=tool.effect,
        arguments=msgspec.to_builtins(arguments),
        paths=tuple(_real(turn, path) for path in tool.paths(arguments)),
        command=tool.command(arguments),
        hosts=tool.hosts(arguments),
        workspace=str(state.workspace),
        session=state.session,
        is_contained=is_file_tool or (not is_ours and (await turn.sandbox()).is_containing),
    )


def _real(turn: Turn, path: str) -> str:
    try:
        return str(turn.files.resolve(path))
    except PathRefused:
        return path  # the tool refuses it too, in words for the model


def _place(turn: Turn, call: str, *, room: int) -> Place:
    open_call = turn.state.open_call(call)
    answer = open_call.answer if open_call else None
    return Place(
        call=call,
        workspace=turn.state.workspace,
        sandbox=turn.sandbox,
        files=turn.files,
        show=lambda text: turn.show(OutputDelta(call=call, text=text)),
        keep=turn.put_blob,
        kept=lambda sha256: turn.get_blob(Blob(sha256=sha256, size=0)),
        record=turn.emit,
        ended=turn.ended_calls,
        seen=turn.toolbox.seen,
        answer=answer.feedback if answer else "",
        room=room,
    )
