"""The path of a call, the same live and resumed: prepare, permit, start, run, end.

What may run without asking is started in the commit of the reply that asks for it. The end of a call is
durable with the next request, or a moment later: its start is on record, so it is never run twice.

A call that is malformed, refused or fails is answered to the model and the turn goes on; its siblings keep
their results. Approval is awaited here, inside the path. Secrets are put back before a call is judged, so
what is judged is what runs; they are hidden again wherever something is shown or recorded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals import Proposed, why_asked
from mainspring.approvals.permit import (
    Blocked,
    Permitted,
    Refused,
    Stopped,
    Wanted,
    permit,
    permit_unasked,
)
from mainspring.context.history import ended_calls, recall
from mainspring.context.shown import shown_texts
from mainspring.context.values import ShownText
from mainspring.errors import PathRefused
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    FilesChanged,
    OutputDelta,
)
from mainspring.folds.state import OpenCall
from mainspring.models import actions
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.secrets.injection import suspicions
from mainspring.tools import CallContext, Output
from mainspring.tools.toolbox import Prepared
from mainspring.turns.endings import End, abandoned, lost
from mainspring.turns.runtime import Runtime
from mainspring.turns.small import result_text
from mainspring.turns.spend import CallMoney, settle_call

_FILE_EFFECTS = ("none", "read", "write")
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


async def startable(runtime: Runtime, said: AssistantSaid) -> list[Permitted[Prepared]]:
    """The calls of a reply, as it will be recorded, that can start with it: nobody has to be asked, no cap is
    in the way, and nothing has to be found out first."""
    calls, state = said.calls, runtime.state
    if said.stop == "length" or state.ledger.refuse_calls(len(calls), state.limits):
        return []
    doubles = _doubles(calls)
    found: list[Permitted[Prepared]] = []
    for asked in calls:
        prepared = _prepare(runtime, asked)
        if isinstance(prepared, Output) or asked.call in doubles or not _is_judged_at_once(runtime, prepared):
            continue
        wanted = await _wanted(runtime, OpenCall(asked=asked), prepared)
        if permitted := permit_unasked(runtime.approvals, wanted):
            found.append(permitted)
    return found


def start(runtime: Runtime, permitted: Permitted[Prepared]) -> CallStarted:
    """What is recorded before a call is run."""
    call = permitted.action.call
    runtime.started[call] = permitted
    return CallStarted(call=call, tool=permitted.action.tool.name)


async def run_calls(runtime: Runtime) -> End | None:
    """Runs all open calls side by side; what each gives is recorded as it comes. A person who stops the turn
    at one of them stops all."""
    calls = runtime.state.open_calls
    doubles = _doubles(runtime.state.last_reply.calls)
    room = min(result_text(runtime), _MAX_STEP_TEXT // max(len(calls), 1))
    running = [
        _run(runtime, permitted, room=room)
        if (permitted := runtime.started.get(call.asked.call))
        else _run_call(runtime, call, is_double=call.asked.call in doubles, room=room)
        for call in calls
    ]
    try:
        # Most replies ask for one, and a task costs as much as starting it.
        ends = [await running[0]] if len(running) == 1 else await _side_by_side(running)
    except _Stopped as stopped:
        return stopped.end
    return next(filter(None, ends), None)


async def _side_by_side(running: Sequence[Coroutine[Any, Any, End | None]]) -> list[End | None]:
    """What fails, or is stopped by a person, stops the others; a fault of ours comes before an end."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in running]
    except ExceptionGroup as errors:
        faults = [error for error in errors.exceptions if not isinstance(error, _Stopped)]
        raise (faults or errors.exceptions)[0] from errors
    return [task.result() for task in tasks]


def _doubles(calls: Sequence[CallAsked]) -> set[str]:
    """The calls that carry the provider's id of an earlier call of their message."""
    first: dict[str, str] = {}
    return {
        asked.call
        for asked in calls
        if asked.provider_id and first.setdefault(asked.provider_id, asked.call) != asked.call
    }


async def _run_call(runtime: Runtime, call: OpenCall, *, is_double: bool, room: int) -> End | None:
    prepared = _prepare(runtime, call.asked)
    if call.is_lost and (isinstance(prepared, Output) or not prepared.is_repeatable):
        await runtime.record(lost(call), is_durable=False)
        return None
    if is_double or call.is_truncated:
        prepared = Output(text=_TRUNCATED if call.is_truncated else _DOUBLE, is_error=True)
    if isinstance(prepared, Output):
        ended = CallEnded(call=call.asked.call, outcome="error", output=prepared.text)
        await runtime.record(ended, is_durable=False)
        return None
    permitted = await _permit(runtime, call, prepared)
    if isinstance(permitted, CallEnded):
        await runtime.record(permitted, is_durable=False)
        return None
    if isinstance(permitted, End):
        return permitted
    if not call.is_started:
        await runtime.record(start(runtime, permitted))
    await _run(runtime, permitted, room=room)
    return None


def _prepare(runtime: Runtime, asked: CallAsked, edited: str | None = None) -> Prepared | Output:
    """The call with its secrets put back; its `text` keeps what stands in for them. What is sent to others
    gets none: there it could only be a leak."""
    prepared = runtime.workbench.toolbox.prepare(asked, edited)
    if isinstance(prepared, Output) or "__secret_" not in prepared.text or prepared.is_outside:
        return prepared
    unresolved = runtime.recorder.vault.unresolved(prepared.text)
    if unresolved and not prepared.is_harmless:
        return Output(text=_UNRESOLVED.format(name=unresolved[0]), is_error=True)
    expanded = runtime.recorder.vault.expand_all(msgspec.json.decode(prepared.text))
    whole = runtime.workbench.toolbox.prepare(asked, msgspec.json.encode(expanded).decode())
    return whole if isinstance(whole, Output) else msgspec.structs.replace(whole, text=prepared.text)


async def _run(runtime: Runtime, permitted: Permitted[Prepared], *, room: int) -> None:
    prepared = permitted.action
    by = permitted.edited_by
    told = f"[a {by} changed the arguments to {prepared.text}]\n" if by else ""
    live = _Live(runtime, prepared.call)
    open_call = runtime.state.open_call(prepared.call)
    answer = open_call.answer if open_call else None
    place = CallContext(
        call=prepared.call,
        workspace=runtime.state.workspace,
        sandbox=runtime.sandbox,
        files=runtime.workbench.files,
        show=live.show,
        hide=runtime.recorder.vault.redact,
        keep=runtime.recorder.put_blob,
        kept=partial(recall, runtime.journal),
        remember=partial(_remember, runtime),
        record=partial(runtime.record, is_durable=not prepared.is_harmless),
        ended=partial(ended_calls, runtime.journal),
        seen=runtime.workbench.toolbox.seen,
        handles=runtime.handles,
        waiting=runtime.waiting,
        answer=answer.feedback if answer else "",
        ask=partial(runtime.approvals.ask_question, prepared.call),
        earlier=partial(_earlier, runtime),
        room=room,
    )
    began = time.monotonic()
    output, changed = await _run_watched(runtime, prepared, place)
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
    call, usd = prepared.call, output.cost_usd
    await settle_call(runtime, call, usd, *changed, ended, is_going_on=output.is_going_on)


async def _earlier(runtime: Runtime) -> list[ShownText]:
    """What the model has before it of what was shown; a small one looks at what it asked for alone."""
    is_cut = runtime.models.current.encode is actions.encode
    most = actions.MAX_RESULT_CHARACTERS if is_cut else None
    calls = runtime.state.ledger.tally("session").calls
    shown = await shown_texts(runtime.journal, until=runtime.last_seq, calls=calls, most_characters=most)
    is_small = runtime.state.prompt.profile == "small"
    return [each for each in shown if not (is_small and each.files)]


async def _remember(runtime: Runtime, text: str) -> None:
    """Keeps something for later sessions in the same project; raises `OSError` when it cannot."""
    if memory := runtime.workbench.memory:
        await asyncio.to_thread(memory.add, text, f"agent, session {runtime.recorder.session}")


class _Live:
    """Output of a running call as it comes: without secrets, and not more than anybody would read."""

    def __init__(self, runtime: Runtime, call: str) -> None:
        self._runtime = runtime
        self._call = call
        self._stream = runtime.recorder.vault.stream()
        self._left = _MAX_LIVE_CHARS

    def show(self, text: str) -> None:
        if self._left > 0:
            self._left -= len(text)
            self._show(self._stream.feed(text))

    def end(self) -> None:
        if self._left > 0:  # what is held of a text that was cut may be the beginning of a secret
            self._show(self._stream.end())

    def _show(self, text: str) -> None:
        if text:
            self._runtime.show(OutputDelta(call=self._call, text=text))


async def _run_watched(
    runtime: Runtime, prepared: Prepared, place: CallContext
) -> tuple[Output, list[FilesChanged]]:
    """Runs a call, and looks at what it did to files if it may do anything, also when it is cancelled."""
    if prepared.is_harmless:
        runtime.started.pop(place.call, None)
        return await runtime.workbench.toolbox.run(prepared, place), []
    await runtime.workbench.time_machine.begin(place.call)
    runtime.started.pop(place.call, None)
    try:
        output = await runtime.workbench.toolbox.run(prepared, place)
    except asyncio.CancelledError:
        if changed := await runtime.workbench.time_machine.end([place.call], runtime.recorder.put_blobs):
            await runtime.record(changed)
        raise
    changed = await runtime.workbench.time_machine.end([place.call], runtime.recorder.put_blobs)
    return output, [changed] if changed else []


async def _permit(
    runtime: Runtime, call: OpenCall, prepared: Prepared
) -> Permitted[Prepared] | CallEnded | End:
    """The call as it may run, or how it ended without running, or the end of the turn."""
    name = call.asked.name

    async def edit(arguments: str) -> Wanted[Prepared] | str:
        edited = _prepare(runtime, call.asked, arguments)
        return edited.text if isinstance(edited, Output) else await _wanted(runtime, call, edited)

    wanted = await _wanted(runtime, call, prepared)
    match await permit(runtime.approvals, wanted, edit=edit, money=CallMoney(runtime)):
        case Permitted() as permitted:
            return permitted
        case Refused() as refused:
            return _refused(call, refused)
        case Blocked() if wanted.question:
            remedy = f"Answer it: mainspring approve {runtime.state.session} --say TEXT"
            return End("blocked", f"The agent asks: {wanted.question}", remedy)
        case Blocked(question):
            detail = f"A person must approve the call of {name}: {why_asked(question)}."
            remedy = f"Answer with `mainspring approve {runtime.state.session}`, or resume in a terminal."
            return End("blocked", detail, remedy)
        case Stopped(why, is_by_hook):
            who = f"A hook ({why})" if is_by_hook else "A person"
            raise _Stopped(End("interrupted", f"{who} refused the call of {name} and stopped the turn."))


def _refused(call: OpenCall, refused: Refused) -> CallEnded:
    name = call.asked.call
    match refused.by:
        case "abandoned":
            return abandoned(call)
        case "edit":
            return CallEnded(call=name, outcome="error", output=f"Edited by a person: {refused.reason}")
        case "rule":
            text = f"Refused: {refused.reason}."
        case "hook":
            text = f"Refused by a hook: {refused.reason}"
        case "expired":
            text = f"Not run: {refused.reason}."
        case "person":
            feedback = f" They said: {refused.feedback}" if refused.feedback else ""
            text = f"A person refused this call.{feedback}"
    return CallEnded(call=name, outcome="refused", output=text)


async def _wanted(runtime: Runtime, call: OpenCall, prepared: Prepared) -> Wanted[Prepared]:
    """Tools that only touch files are held by `Files`; the sandbox is chosen when another one is judged."""
    is_file_tool = prepared.effect in _FILE_EFFECTS
    proposed = proposed_of(
        prepared,
        files=runtime.workbench.files,
        workspace=runtime.state.workspace,
        session=runtime.state.session,
        is_contained=is_file_tool
        or (not prepared.is_outside and _contains(await runtime.sandbox(), prepared)),
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


def _is_judged_at_once(runtime: Runtime, prepared: Prepared) -> bool:
    """Whether no sandbox has to be chosen first: that takes its time, and the reply must not wait for it."""
    return runtime.commands.chosen is not None or prepared.is_outside or prepared.effect in _FILE_EFFECTS


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
