"""Reads the files with hooks for work in a folder, and tells which of them a person approved."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.app.hooks import HOOKS_FILE, hook_paths
from mainspring.app.plugins import UsedPlugins, load_plugins
from mainspring.approvals.trust import TrustFile, TrustState
from mainspring.errors import ConfigError
from mainspring.events import Event
from mainspring.events.counts import plural
from mainspring.hooks.gate import HookGate
from mainspring.hooks.runner import HookRunner
from mainspring.hooks.sources import Hook, HookFile, HookSource, read_sources
from mainspring.sandbox import Confinement, Sandbox
from mainspring.secrets.recorder import Recorder
from mainspring.settings import Config


class LoadedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file with hooks, and whether they may run."""

    file: HookFile
    state: TrustState

    @property
    def is_used(self) -> bool:
        return self.state == "trusted" and not self.file.problem


class LoadedHooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks that count, and a sentence for each file whose hooks do not."""

    hooks: tuple[Hook, ...]
    warnings: tuple[str, ...] = ()

    def before(
        self, recorder: Recorder, sandbox: Sandbox, confinement: Confinement, mode: str
    ) -> HookGate | None:
        """The same for a command without an agent."""
        if not self.hooks:
            return None
        return HookGate(HookRunner(self.hooks, _CommandHost(recorder, sandbox, confinement, mode)))


class _CommandHost:
    """A command without an agent, as hooks see it."""

    def __init__(self, recorder: Recorder, sandbox: Sandbox, confinement: Confinement, mode: str) -> None:
        self._recorder = recorder
        self._sandbox = sandbox
        self.session = recorder.session
        self.workspace = confinement.workspace
        self.confinement = confinement
        self.mode = mode
        self.vault = recorder.vault

    async def sandbox(self) -> Sandbox:
        return self._sandbox

    async def record(self, *events: Event) -> None:
        await self._recorder.record(*events)


def hook_sources(workspace: Path, config: Config, plugins: UsedPlugins) -> list[HookSource]:
    """The files that may have hooks for work in a folder."""
    own = [
        HookSource(path=path, label=label, is_own=label == HOOKS_FILE)
        for label, path in hook_paths(workspace, config).items()
    ]
    brought = [
        HookSource(path=file, label=f"the plugin {name}", plugin=folder)
        for name, file, folder in plugins.hook_files
    ]
    return [*own, *brought]


def list_hook_files(
    workspace: Path, config: Config, plugins: UsedPlugins | None = None
) -> tuple[LoadedFile, ...]:
    """All files with hooks. Those of plugins in use were approved with the plugin."""
    trust = TrustFile(config.home)
    used = load_plugins(config, workspace) if plugins is None else plugins
    found = read_sources(hook_sources(workspace, config, used), workspace)
    return tuple(
        LoadedFile(
            file=file,
            state=trust.state(file.subject) if file.subject else "trusted",
        )
        for file in found
    )


def load_hooks(workspace: Path, config: Config, plugins: UsedPlugins | None = None) -> LoadedHooks:
    """The hooks that count; raises `ConfigError` when the user's own file cannot be used."""
    files = list_hook_files(workspace, config, plugins)
    for each in files:
        if each.file.source.is_own and each.file.problem:
            path, problem = each.file.source.path, each.file.problem
            raise ConfigError(f"The hooks in {path} cannot be used: {problem}.", remedy="Correct that file.")
    hooks = tuple(hook for each in files if each.is_used for hook in each.file.hooks)
    return LoadedHooks(hooks=hooks, warnings=tuple(_warning(each) for each in files if not each.is_used))


def _warning(loaded: LoadedFile) -> str:
    label, problem = loaded.file.source.label, loaded.file.problem
    if problem:
        return f"The hooks of {label} are not run: {problem}."
    why = "changed since they were approved" if loaded.state == "changed" else "were not approved"
    count = plural(len(loaded.file.hooks), "hook")
    return f"{count} of {label} are not run, because they {why}. `mainspring trust add` shows them."
