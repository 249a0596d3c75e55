"""Runs hooks: side by side, in the sandbox of the session, bounded, on record before and after."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from mainspring.errors import SandboxError
from mainspring.events import HOOK_SOURCE, Event, HookEnded, HookEvent, HookStarted, NoteAdded
from mainspring.hooks.answers import GUARDING, MAX_OUTPUT_BYTES, HookAnswer, failure, read_answer
from mainspring.hooks.sources import Hook, variables_of
from mainspring.sandbox import Command, CommandResult, Confinement, Sandbox
from mainspring.sandbox.streams import written
from mainspring.secrets.injection import suspicions
from mainspring.secrets.screen import without_controls
from mainspring.secrets.vault import Vault

_MAX_SHOWN = 2_000
_MODES = {"plan": "plan", "edits": "acceptEdits", "yolo": "bypassPermissions"}


class HookHost(Protocol):
    """Where hooks run: a session, or a command without one."""

    @property
    def session(self) -> str: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def mode(self) -> str: ...

    @property
    def vault(self) -> Vault: ...

    @property
    def confinement(self) -> Confinement: ...

    async def sandbox(self) -> Sandbox: ...

    async def record(self, *events: Event) -> None:
        """Records them; what follows is durable."""
        ...


class HookRun(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that ran, and what it said. `told` is what it was told of a call."""

    hook: Hook
    answer: HookAnswer
    told: Mapping[str, Any] = {}

    @property
    def is_refusing(self) -> bool:
        """Whether a guard said no, or could not say anything."""
        if self.answer.verdict == "failed":
            return self.hook.event in GUARDING and not self.hook.fail_open
        return self.answer.verdict == "denied"

    @property
    def reason(self) -> str:
        """Why not, for whoever is refused."""
        if self.answer.verdict != "failed":
            return self.answer.reason
        return f"the hook `{self.hook.command[:120]}` of {self.hook.source} failed: {self.answer.reason}"


class Wake(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that is to run, with what it is told on its standard input besides what all are told."""

    hook: Hook
    fields: Mapping[str, Any]
    tool: str = ""
    call: str = ""


def notes_of(runs: Sequence[HookRun]) -> list[NoteAdded]:
    """What hooks have for the model."""
    return [note(run.answer.context, run.hook.event) for run in runs if run.answer.context.strip()]


def note(text: str, event: HookEvent) -> NoteAdded:
    text = without_controls(text)
    return NoteAdded(text=text, source=note_source(event), suspicious=suspicions(text))


def note_source(event: HookEvent) -> str:
    return f"{HOOK_SOURCE} ({event})"


class HookRunner:
    def __init__(self, hooks: Sequence[Hook], host: HookHost) -> None:
        self.hooks = tuple(hooks)
        self._host = host
        self._name = secrets.token_hex(4)
        self._count = itertools.count(1)

    @property
    def host(self) -> HookHost:
        return self._host

    def of(self, event: HookEvent) -> tuple[Hook, ...]:
        return tuple(hook for hook in self.hooks if hook.event == event)

    async def fire(self, event: HookEvent, subject: str, **fields: Any) -> list[HookRun]:
        """Runs the hooks of an event that is not about a call; `subject` is what their matchers are for."""
        wakes = [
            Wake(hook=hook, fields=fields)
            for hook in self.of(event)
            if not subject or hook.matched((subject,)) is not None
        ]
        return await self.run(wakes)

    async def run(self, wakes: Sequence[Wake]) -> list[HookRun]:
        """Runs them side by side; of those that differ in nothing but their matchers only one."""
        replace = msgspec.structs.replace
        wakes = list({(replace(each.hook, matcher=""), str(each.fields)): each for each in wakes}.values())
        if not wakes:
            return []
        number = next(self._count)
        starts = [_started(each, f"{self._name}.{number}.{at}") for at, each in enumerate(wakes, 1)]
        await self._host.record(*starts)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._run(each)) for each in wakes]
        done = [task.result() for task in tasks]
        runs = [
            HookRun(hook=each.hook, answer=answer, told=each.fields.get("tool_input", {}))
            for each, (answer, _) in zip(wakes, done, strict=True)
        ]
        ends = [
            _ended(start.run, run, result) for start, run, (_, result) in zip(starts, runs, done, strict=True)
        ]
        await self._host.record(*ends)
        return runs

    async def _run(self, wake: Wake) -> tuple[HookAnswer, CommandResult | None]:
        hook, host = wake.hook, self._host
        if why := hook.problem or hook.why_changed(host.workspace):
            return failure(why), None
        given = {
            "session_id": host.session,
            "transcript_path": "",
            "cwd": str(host.workspace),
            "permission_mode": _MODES.get(host.mode, "default"),
            "hook_event_name": hook.event,
            **wake.fields,
        }
        try:
            sandbox = await host.sandbox()
            async with written(msgspec.json.encode(given) + b"\n") as stdin:
                result = await sandbox.run(
                    Command(
                        argv=("bash", "-c", hook.command),
                        cwd=host.workspace,
                        timeout_s=hook.timeout_s,
                        env=variables_of(hook, host.workspace),
                        max_output_bytes=MAX_OUTPUT_BYTES,
                        policy=_policy(hook, host.confinement),
                        stdin=stdin,
                        is_whole=True,
                    )
                )
        except SandboxError as error:
            return failure(f"it could not be run: {error.message}"), None
        # Before anything is cut: half of a secret would not be known as one.
        hide = host.vault.redact_bytes
        result = msgspec.structs.replace(result, stdout=hide(result.stdout), stderr=hide(result.stderr))
        return read_answer(hook.event, result), result


def _policy(hook: Hook, usual: Confinement) -> Confinement | None:
    """What the hook of a plugin may read besides: the files of its plugin."""
    if not hook.plugin:
        return None
    return msgspec.structs.replace(usual, readable=(*usual.readable, Path(hook.plugin)))


def _started(wake: Wake, run: str) -> HookStarted:
    hook = wake.hook
    return HookStarted(
        run=run, event=hook.event, command=hook.command, source=hook.source, tool=wake.tool, call=wake.call
    )


def _ended(run: str, done: HookRun, result: CommandResult | None) -> HookEnded:
    answer = done.answer
    ended = HookEnded(
        run=run,
        verdict=answer.verdict,
        reason=answer.reason,
        message=answer.message,
        arguments="" if answer.updated is None else msgspec.json.encode(answer.updated).decode(),
        is_refusing=done.is_refusing,
    )
    if result is None:
        return ended
    parts = (part.decode("utf-8", "replace").strip() for part in (result.stdout, result.stderr))
    return msgspec.structs.replace(
        ended,
        exit_code=result.exit_code,
        duration_s=round(result.duration_s, 6),
        cpu_s=round(result.cpu_s, 6),
        output="\n".join(filter(None, parts))[:_MAX_SHOWN],
    )
