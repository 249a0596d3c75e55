"""The hooks for work in a folder, for every face: which there are, what one would say, what they said, and
what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.hook_files import LoadedFile, list_hook_files, load_hooks
from mainspring.app.policies import DEFAULT_MODE, confine, confinement_of
from mainspring.app.stores import sessions_of
from mainspring.approvals import Proposed
from mainspring.catalog import reading
from mainspring.errors import JournalError, UsageError
from mainspring.events import HOOK_EVENTS, Event, HookEnded, HookEvent, HookStarted, Recorded
from mainspring.hooks.runner import HookRunner, Wake
from mainspring.hooks.sources import Hook
from mainspring.hooks.tool_names import told_calls
from mainspring.sandbox import Confinement, Sandbox
from mainspring.secrets.vault import Vault
from mainspring.settings import Config

_LOOKED_AT = 20
"""How many sessions are looked at, the newest first, where none is named."""


class ListedHook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook as people see it. `state` is used, new or changed (both wait for an approval), or problem."""

    event: str
    matcher: str
    command: str
    source: str
    state: str
    problem: str = ""
    timeout_s: float = 0.0
    fail_open: bool = False


class LoggedHook(msgspec.Struct, frozen=True, kw_only=True):
    """A hook that ran. The verdict of one whose process died is `interrupted`."""

    session: str
    time_us: int
    event: str
    command: str
    source: str
    tool: str
    call: str
    verdict: str
    reason: str = ""
    is_refusing: bool = False
    exit_code: int | None = None
    duration_s: float = 0.0
    cpu_s: float = 0.0
    output: str = ""


class TriedHook(msgspec.Struct, frozen=True, kw_only=True):
    """What a hook said when it was tried."""

    command: str
    source: str
    verdict: str
    is_refusing: bool
    reason: str = ""
    message: str = ""
    context: str = ""
    updated: dict[str, Any] | None = None
    duration_s: float = 0.0


class HookCost(msgspec.Struct, frozen=True, kw_only=True):
    """What hooks took in the sessions that were looked at. Hooks of one event run side by side, so a turn may
    wait for less."""

    runs: int = 0
    turns: int = 0
    total_s: float = 0.0

    @property
    def per_turn_s(self) -> float:
        return self.total_s / max(self.turns, 1)


def list_hooks(config: Config, workspace: Path) -> list[ListedHook]:
    """All hooks for work in a folder; a file that cannot be used is one line."""
    return [each for file in list_hook_files(workspace, config) for each in _listed(file)]


def _listed(loaded: LoadedFile) -> list[ListedHook]:
    file = loaded.file
    if file.problem:
        whole = ListedHook(event="", matcher="", command="", source=file.source.label, state="problem")
        return [msgspec.structs.replace(whole, problem=file.problem)]
    state = {"trusted": "used"}.get(loaded.state, loaded.state)
    return [
        ListedHook(
            event=hook.event,
            matcher=hook.matcher,
            command=hook.command,
            source=hook.source,
            state=state,
            problem=hook.problem
            or ("" if hook.is_matcher_valid else "its matcher is no valid pattern: for all"),
            timeout_s=hook.timeout_s,
            fail_open=hook.fail_open,
        )
        for hook in file.hooks
    ]


async def try_hooks(
    config: Config, workspace: Path, event: str, *, tool: str = "", given: dict[str, Any] | None = None
) -> list[TriedHook]:
    """Runs the approved hooks of an event as a session would, and records nothing. `given` are the arguments
    of the tool, or the fields of an event that is about no call."""
    if event not in HOOK_EVENTS:
        raise UsageError(f"There is no event {event!r}.", remedy=f"The events are {', '.join(HOOK_EVENTS)}.")
    hooks = load_hooks(workspace, config).hooks
    wakes = _wakes([hook for hook in hooks if hook.event == event], workspace, tool, given or {})
    confinement = confinement_of(workspace, DEFAULT_MODE, config)
    sandbox = await confine("", confinement, config)
    host = _TryingHost(confinement, sandbox, Vault(config.secrets))
    try:
        runs = await HookRunner(hooks, host).run(wakes)
    finally:
        await sandbox.close()
    ends = [each for each in host.recorded if isinstance(each, HookEnded)]
    return [
        TriedHook(
            command=run.hook.command,
            source=run.hook.source,
            verdict=run.answer.verdict,
            is_refusing=run.is_refusing,
            reason=run.answer.reason,
            message=run.answer.message,
            context=run.answer.context,
            updated=run.answer.updated,
            duration_s=ended.duration_s,
        )
        for run, ended in zip(runs, ends, strict=True)
    ]


def _wakes(hooks: Sequence[Hook], workspace: Path, tool: str, given: dict[str, Any]) -> list[Wake]:
    if not tool:
        return [Wake(hook=hook, fields=given) for hook in hooks]
    proposed = Proposed(tool=tool, effect="other", arguments=given, workspace=str(workspace))
    return [
        Wake(
            hook=hook, fields={"tool_name": name, "tool_input": told.input, "tool_use_id": "test"}, tool=tool
        )
        for told in told_calls(proposed, given)
        for hook in hooks
        if (name := hook.matched(told.names)) is not None
    ]


class _TryingHost:
    def __init__(self, confinement: Confinement, sandbox: Sandbox, vault: Vault) -> None:
        self.session = "test"
        self.workspace = confinement.workspace
        self.confinement = confinement
        self.mode = DEFAULT_MODE
        self.vault = vault
        self._sandbox = sandbox
        self.recorded: list[Event] = []

    async def sandbox(self) -> Sandbox:
        return self._sandbox

    async def record(self, *events: Event) -> None:
        self.recorded += events


async def hook_log(config: Config, session: str = "", *, limit: int = 50) -> list[LoggedHook]:
    """What hooks said in a session, or in the newest ones, the newest last."""
    store = sessions_of(config)
    names = [await store.find(session)] if session else (await store.names())[:_LOOKED_AT]
    found: list[LoggedHook] = []
    for name in names:
        found += _logged(name, await _read(config, name, "HookStarted", "HookEnded"))
    return sorted(found, key=lambda each: each.time_us)[-limit:]


async def hook_cost(config: Config) -> HookCost:
    """What hooks took in the newest sessions that had any."""
    runs = turns = 0
    total_s = 0.0
    for name in (await sessions_of(config).names())[:_LOOKED_AT]:
        events = [each.event for each in await _read(config, name, "HookEnded", "TurnStarted")]
        ends = [each for each in events if isinstance(each, HookEnded)]
        if ends:
            runs += len(ends)
            turns += len(events) - len(ends)
            total_s += sum(each.duration_s for each in ends)
    return HookCost(runs=runs, turns=turns, total_s=total_s)


async def _read(config: Config, session: str, *kinds: str) -> Sequence[Recorded]:
    try:
        async with reading(sessions_of(config), session) as journal:
            return await journal.read(kinds=kinds, limit=100_000)
    except JournalError:
        return ()  # a damaged one is told by whoever opens it


def _logged(session: str, events: Sequence[Recorded]) -> list[LoggedHook]:
    ends = {each.event.run: each.event for each in events if isinstance(each.event, HookEnded)}
    return [_entry(session, each.time_us, each.event, ends.get(each.event.run)) for each in _starts(events)]


def _starts(events: Sequence[Recorded]) -> list[Any]:
    return [each for each in events if isinstance(each.event, HookStarted)]


def _entry(session: str, time_us: int, started: HookStarted, ended: HookEnded | None) -> LoggedHook:
    entry = LoggedHook(
        session=session,
        time_us=time_us,
        event=started.event,
        command=started.command,
        source=started.source,
        tool=started.tool,
        call=started.call,
        verdict="interrupted",
    )
    if ended is None:
        return entry
    names = ("verdict", "reason", "is_refusing", "exit_code", "duration_s", "cpu_s", "output")
    return msgspec.structs.replace(entry, **{name: getattr(ended, name) for name in names})


def event_named(name: str) -> HookEvent:
    """The event of a name, whatever its case."""
    for event in HOOK_EVENTS:
        if event.lower() == name.lower():
            return event
    raise UsageError(f"There is no event {name!r}.", remedy=f"The events are {', '.join(HOOK_EVENTS)}.")
