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
from mainspring.events import ApprovalAsked, ApprovalGiven, CallAsked, CallEnded, CallStarted, OutputDelta
from mainspring.state import OpenCall
from mainspring.tools import Output, Place
from mainspring.tools.toolbox import Prepared
from mainspring.turn import End, Turn, abandoned, closed

_TRUNCATED = (
    "Not run: your message was cut off at the output limit, so this call may be incomplete."
    " Send it again, alone and with less in it."
)
_DOUBLE = "Not run: another call of the same message carried the same id. Send it again on its own."


async def run_calls(turn: Turn) -> End | None:
    """Runs all open calls side by side; what each gives is recorded as it comes."""
    doubles = _doubles(turn.state.last_reply.calls)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_run_call(turn, call, is_double=call.asked.call in doubles))
                for call in turn.state.open_calls
            ]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from errors
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


async def _run_call(turn: Turn, call: OpenCall, *, is_double: bool) -> End | None:
    prepared = turn.toolbox.prepare(call.asked)
    if call.is_lost and (isinstance(prepared, Output) or not prepared.tool.is_repeatable):
        await turn.emit(closed(call))
        return None
    if is_double or call.is_truncated:
        prepared = Output(text=_TRUNCATED if call.is_truncated else _DOUBLE, is_error=True)
    if isinstance(prepared, Output):
        await turn.emit(CallEnded(call=call.asked.call, outcome="error", output=prepared.text))
        return None
    told = ""
    if not call.is_started:
        permitted = await _permit(turn, call, prepared)
        if isinstance(permitted, CallEnded):
            await turn.emit(permitted)
            return None
        if isinstance(permitted, End):
            return permitted
        told = "" if permitted is prepared else f"[a person changed the arguments to {permitted.text}]\n"
        prepared = permitted
        await turn.emit(CallStarted(call=call.asked.call, tool=prepared.tool.name))
    began = time.monotonic()
    output = await turn.toolbox.run(prepared, _place(turn, call.asked.call))
    ended = CallEnded(
        call=call.asked.call,
        outcome="error" if output.is_error else "ok",
        output=told + output.text,
        media=output.media,
        exit_code=output.exit_code,
        full=output.full,
        duration_s=round(time.monotonic() - began, 6),
    )
    await turn.emit(ended)
    return None


async def _permit(turn: Turn, call: OpenCall, prepared: Prepared) -> Prepared | CallEnded | End:
    """The call as it may run, or how it ended without running, or the end of the turn."""
    asked = call.asked
    verdict = turn.policy.judge(await _proposed(turn, prepared))
    if verdict.answer == "deny":
        return CallEnded(call=asked.call, outcome="refused", output=f"Refused: {verdict.reason}.")
    if verdict.answer == "allow":
        return prepared
    question = call.question or ApprovalAsked(
        call=asked.call,
        tool=asked.name,
        arguments=prepared.text,
        arguments_sha256=hashlib.sha256(prepared.text.encode()).hexdigest(),
        reason=verdict.reason,
    )
    answer = call.answer or await turn.ask(question)
    if answer is None:
        detail = f"A person must approve the call of {asked.name}: {verdict.reason}."
        return End("blocked", detail, "Resume the session in a terminal to answer, or choose another --mode.")
    if answer.decision == "stop":
        return End("interrupted", f"A person refused the call of {asked.name} and stopped the turn.")
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
    return Proposed(
        tool=tool.name,
        effect=tool.effect,
        arguments=msgspec.to_builtins(arguments),
        paths=tuple(_real(turn, path) for path in tool.paths(arguments)),
        command=tool.command(arguments),
        workspace=str(state.workspace),
        session=state.session,
        is_contained=is_file_tool or (await turn.sandbox()).is_containing,
    )


def _real(turn: Turn, path: str) -> str:
    try:
        return str(turn.files.resolve(path))
    except PathRefused:
        return path  # the tool refuses it too, in words for the model


def _place(turn: Turn, call: str) -> Place:
    return Place(
        call=call,
        workspace=turn.state.workspace,
        sandbox=turn.sandbox,
        files=turn.files,
        show=lambda text: turn.show(OutputDelta(call=call, text=text)),
        keep=turn.put_blob,
        recall=turn.recall,
    )
