"""Hooks as a gate before calls: `PreToolUse` before a call runs, `PermissionRequest` before a question.

Every way to a call leads through `permit`, which asks this gate: calls of a turn, live and resumed, those
that a person edited, commands without an agent, and what an agent over ACP asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mainspring.approvals import Proposed
from mainspring.approvals.permit import Vetted
from mainspring.events import HookEvent
from mainspring.hooks.runner import HookRun, HookRunner, Wake, notes_of
from mainspring.hooks.tool_names import ToldCall, changed_arguments, told_calls


class HookGate:
    def __init__(self, runner: HookRunner) -> None:
        self._runner = runner

    def concerns(self, proposed: Proposed) -> bool:
        return bool(self._matching("PreToolUse", told_calls(proposed, proposed.arguments)))

    async def vet_call(self, call: str, proposed: Proposed, arguments: str) -> Vetted:
        return await self._vet("PreToolUse", call, proposed, arguments)

    async def vet_question(self, call: str, proposed: Proposed, arguments: str) -> Vetted:
        return await self._vet("PermissionRequest", call, proposed, arguments)

    def _matching(self, event: HookEvent, calls: Sequence[ToldCall]) -> list[tuple[ToldCall, Wake]]:
        return [
            (told, Wake(hook=hook, fields={"tool_name": name, "tool_input": told.input}))
            for told in calls
            for hook in self._runner.of(event)
            if (name := hook.matched(told.names)) is not None
        ]

    def wakes(self, event: HookEvent, call: str, proposed: Proposed, given: Mapping[str, Any]) -> list[Wake]:
        """The hooks that an event of a call wakes, each with what it is told of the call."""
        found = self._matching(event, told_calls(proposed, given))
        return [_about(wake, call, proposed.tool) for _, wake in found]

    async def _vet(self, event: HookEvent, call: str, proposed: Proposed, arguments: str) -> Vetted:
        given: dict[str, Any] = msgspec.json.decode(arguments)
        runs = await self._runner.run(self.wakes(event, call, proposed, given))
        if notes := notes_of(runs):
            await self._runner.host.record(*notes)
        if stops := [run for run in runs if run.answer.verdict == "stopped"]:
            return Vetted(answer="stop", reason=stops[0].reason)
        if refusals := [run for run in runs if run.is_refusing]:
            return Vetted(answer="deny", reason="; ".join(dict.fromkeys(run.reason for run in refusals)))
        try:
            changed = _changed(runs, proposed, given)
        except (ValueError, TypeError, KeyError) as error:
            return Vetted(answer="deny", reason=f"what a hook wants instead cannot be used: {error}")
        if asks := [run for run in runs if run.answer.verdict == "ask"]:
            reason = asks[0].reason or "a hook wants a person to decide"
            return Vetted(answer="ask", reason=reason, arguments=changed)
        return Vetted(arguments=changed)


def _about(wake: Wake, call: str, tool: str) -> Wake:
    fields = {**wake.fields, "tool_use_id": call, "mainspring_tool": tool}
    return msgspec.structs.replace(wake, fields=fields, tool=tool, call=call)


def _changed(runs: Sequence[HookRun], proposed: Proposed, given: dict[str, Any]) -> str | None:
    """The arguments that hooks want instead; hooks that want different ones cannot both have their way."""
    wanted = {
        changed_arguments(proposed, given, run.told, run.answer.updated)
        for run in runs
        if run.answer.updated is not None
    }
    if len(wanted) > 1:
        raise ValueError("two hooks want different ones")
    return next(iter(wanted), None)
