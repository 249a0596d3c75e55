"""The hooks of a session, where its turns need them; loaded only where there are any.

What may deny is a gate at the permit. What is said and how a turn ends are asked here, through the port of a
turn (`TurnHooks`). What hooks did is read from the journal, so a resumed turn runs those that it had not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.errors import PromptRefused
from mainspring.events import (
    CallAsked,
    CallEnded,
    Compacted,
    Event,
    HookEnded,
    HookEvent,
    HookStarted,
    NoteAdded,
    Recorded,
    SessionStarted,
    StatusDelta,
    UserSaid,
)
from mainspring.hooks.gate import HookGate
from mainspring.hooks.runner import HookRun, HookRunner, Wake, note, note_source, notes_of
from mainspring.hooks.sources import Hook
from mainspring.hooks.tool_names import told_response
from mainspring.sandbox import Confinement, Sandbox
from mainspring.secrets.vault import Vault
from mainspring.tools import Output
from mainspring.turns.calls import proposed_of
from mainspring.turns.runtime import HistoryCompactor, Runtime

MAX_HOLDS = 3
"""How often hooks can keep one turn from ending."""


class SessionHost:
    """A session, as hooks see it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def session(self) -> str:
        return self._runtime.recorder.session

    @property
    def workspace(self) -> Path:
        return self._runtime.state.workspace

    @property
    def mode(self) -> str:
        return self._runtime.state.mode

    @property
    def vault(self) -> Vault:
        return self._runtime.recorder.vault

    @property
    def confinement(self) -> Confinement:
        return self._runtime.workbench.files.policy

    async def sandbox(self) -> Sandbox:
        return await self._runtime.sandbox()

    async def record(self, *events: Event) -> None:
        is_begun = any(isinstance(each, HookStarted) for each in events)  # what runs is on record before
        await self._runtime.record(*events, is_durable=is_begun)


class SessionHooks:
    def __init__(self, runtime: Runtime, hooks: Sequence[Hook]) -> None:
        self._runtime = runtime
        self.runner = HookRunner(hooks, SessionHost(runtime))
        self._gate = HookGate(self.runner)

    async def before_prompt(self, said: UserSaid) -> Sequence[Event]:
        prompt = self._runtime.recorder.vault.redact(said.text)
        runs = await self.runner.fire("UserPromptSubmit", "", prompt=prompt)
        stops = [run for run in runs if run.is_refusing or run.answer.verdict == "stopped"]
        if stops:
            raise PromptRefused(
                f"A hook refused this message: {stops[0].reason or 'it gave no reason'}",
                remedy="Say it differently; `mainspring hooks list` shows the hooks.",
            )
        return notes_of(runs)

    async def before_end(self) -> bool:
        """Whether the turn goes on instead of ending as done; why is on record then."""
        event: HookEvent = "Stop" if self._runtime.budget.parent is None else "SubagentStop"
        if not self.runner.of(event):
            return False
        holds = await self._holds(event)
        if holds >= MAX_HOLDS:
            text = f"A hook held this turn {MAX_HOLDS} times; it ends now."
            self._runtime.show(StatusDelta(text=text))
            return False
        last = self._runtime.state.last_reply.text
        agent = await self._agent()
        subject = agent.get("agent_type", "")
        runs = await self.runner.fire(
            event, subject, stop_hook_active=holds > 0, last_assistant_message=last, **agent
        )
        held = [run for run in runs if run.answer.verdict == "held"]
        if not held or any(run.answer.verdict == "stopped" for run in runs):
            return False
        await self._runtime.record(note("\n".join(run.reason for run in held), event))
        return True

    async def after_calls(self) -> str:
        """Tells of the calls of the last reply that have ended; why the turn is to end, or nothing."""
        events: tuple[HookEvent, ...] = ("PostToolUse", "PostToolUseFailure")
        if not self._runtime.state.last_reply.calls or not any(map(self.runner.of, events)):
            return ""
        runtime = self._runtime
        last = await runtime.journal.last("AssistantSaid")
        kinds = ("CallEnded", "HookStarted", "HookEnded")
        since = await runtime.journal.read(after=last.seq if last else 0, kinds=kinds)
        wakes = [wake for asked, ended in self._untold(since) for wake in self._about(asked, ended, since)]
        if not wakes:
            return ""
        runs = await self._run_watched(wakes)
        await runtime.record(*notes_of(runs), is_durable=False)
        stops = [run.answer.reason for run in runs if run.answer.verdict == "stopped"]
        return (stops[0] or "it gave no reason") if stops else ""

    async def before_compacting(self, reason: str) -> None:
        trigger = "manual" if reason == "asked" else "auto"
        await self.runner.fire("PreCompact", trigger, trigger=trigger, custom_instructions="")

    def attach(self) -> None:
        runtime = self._runtime
        runtime.hooks, runtime.approvals.gate = self, self._gate
        if self.runner.of("PreCompact") and (inner := runtime.upkeep.compactor):
            compactor = _HookedCompactor(inner, self)
            runtime.upkeep = msgspec.structs.replace(runtime.upkeep, compactor=compactor)

    async def _holds(self, event: HookEvent) -> int:
        """How often this turn was held already."""
        journal = self._runtime.journal
        began = await journal.last("TurnStarted")
        notes = await journal.read(after=began.seq if began else 0, kinds=("NoteAdded",))
        source = note_source(event)
        return sum(isinstance(each.event, NoteAdded) and each.event.source == source for each in notes)

    async def _agent(self) -> dict[str, str]:
        """Whose turn it is, when it is not that of the session that a person opened."""
        if self._runtime.budget.parent is None:
            return {}
        started = await self._runtime.journal.last("SessionStarted")
        agent = started.event.agent if started and isinstance(started.event, SessionStarted) else ""
        return {"agent_id": self._runtime.recorder.session, "agent_type": agent or "general-purpose"}

    def _untold(self, since: Sequence[Recorded]) -> list[tuple[CallAsked, CallEnded]]:
        """Calls that ended and that no hook heard of to its end."""
        events = [each.event for each in since]
        over = {each.run for each in events if isinstance(each, HookEnded)}
        told = {
            each.call
            for each in events
            if isinstance(each, HookStarted) and each.event.startswith("PostToolUse") and each.run in over
        }
        asked = {each.call: each for each in self._runtime.state.last_reply.calls}
        return [
            (asked[each.call], each)
            for each in events
            if isinstance(each, CallEnded) and each.outcome in ("ok", "error") and each.call not in told
            if each.call in asked
        ]

    def _about(self, asked: CallAsked, ended: CallEnded, since: Sequence[Recorded]) -> list[Wake]:
        runtime = self._runtime
        prepared = runtime.workbench.toolbox.prepare(asked)
        if isinstance(prepared, Output):
            return []
        proposed = proposed_of(
            prepared,
            files=runtime.workbench.files,
            workspace=runtime.state.workspace,
            session=runtime.state.session,
            is_contained=True,
        )
        given = msgspec.json.decode(prepared.text)  # as it was asked for on record: without secrets
        event: HookEvent = "PostToolUse" if ended.outcome == "ok" else "PostToolUseFailure"
        changed = _changed(asked.call, since)
        return [
            msgspec.structs.replace(wake, fields=_told(wake, ended, changed))
            for wake in self._gate.wakes(event, asked.call, proposed, given)
        ]

    async def _run_watched(self, wakes: Sequence[Wake]) -> list[HookRun]:
        """What such hooks do to files (formatters) can be taken back as well."""
        runtime, call = self._runtime, f"hooks:{self._runtime.last_seq}"
        machine, keep = runtime.workbench.time_machine, runtime.recorder.put_blobs
        await machine.begin(call)
        try:
            return await self.runner.run(wakes)
        finally:
            if changed := await machine.end([call], keep):
                await runtime.record(changed, is_durable=False)


class _HookedCompactor:
    def __init__(self, inner: HistoryCompactor, hooks: SessionHooks) -> None:
        self._inner = inner
        self._hooks = hooks

    async def __call__(self, runtime: Runtime, /, *, reason: str, until: int) -> Compacted | None:
        await self._hooks.before_compacting(reason)
        return await self._inner(runtime, reason=reason, until=until)


def attach(runtime: Runtime, hooks: Sequence[Hook]) -> SessionHooks | None:
    """Puts hooks around the calls and turns of a session; those of its parent hold for a child as well."""
    above = runtime.budget.parent.hooks if runtime.budget.parent else None
    if isinstance(above, SessionHooks):
        hooks = (*above.runner.hooks, *hooks)
    if not hooks:
        return None
    made = SessionHooks(runtime, hooks)
    made.attach()
    return made


def _changed(call: str, since: Sequence[Recorded]) -> dict[str, Any]:
    """What hooks made of the arguments of a call before it ran."""
    events = [each.event for each in since]
    runs = {each.run for each in events if isinstance(each, HookStarted) and each.call == call}
    found: dict[str, Any] = {}
    for each in events:
        if isinstance(each, HookEnded) and each.run in runs and each.arguments:
            found |= msgspec.json.decode(each.arguments)
    return found


def _told(wake: Wake, ended: CallEnded, changed: dict[str, Any]) -> dict[str, Any]:
    fields = {**wake.fields, "tool_input": {**wake.fields["tool_input"], **changed}}
    if ended.outcome == "ok":
        return fields | {"tool_response": told_response(fields["tool_input"], ended.output)}
    return fields | {"error": ended.output, "is_interrupt": False}
