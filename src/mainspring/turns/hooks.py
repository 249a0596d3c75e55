"""The hooks of a session, where its turns need them; loaded only where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mainspring.events import Event
from mainspring.hooks.gate import HookGate
from mainspring.hooks.runner import HookRunner
from mainspring.hooks.sources import Hook
from mainspring.sandbox import Sandbox
from mainspring.secrets.vault import Vault
from mainspring.turns.runtime import Runtime


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

    async def sandbox(self) -> Sandbox:
        return await self._runtime.sandbox()

    async def record(self, *events: Event) -> None:
        await self._runtime.record(*events, is_durable=False)


def attach(runtime: Runtime, hooks: Sequence[Hook]) -> None:
    """Puts hooks around the calls of a session."""
    runtime.approvals.gate = HookGate(HookRunner(hooks, SessionHost(runtime)))
