"""The checks of a session and its tools that ask language servers, loaded when they are needed: when the
first file has changed, or when the project has a server that can answer."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mainspring.app.session_index import SessionIndex
from mainspring.checks.programs import configured, subject_of
from mainspring.checks.server_facts import server_rows
from mainspring.settings import Config
from mainspring.tools import Tool
from mainspring.turns.runtime import RegressionGuard, Runtime

if TYPE_CHECKING:
    from mainspring.approvals.trust import TrustSubject


def session_checks(config: Config) -> SessionChecks | None:
    """None when they are off."""
    return None if config.settings.checks.after_change == "off" else SessionChecks(config)


def regression_guard(config: Config) -> RegressionGuard | None:
    """None when it is off."""
    return None if config.settings.checks.regressions == "off" else _Guard(config)


def code_tools(servers: Any, index: SessionIndex | None, *, has_symbols: bool = False) -> list[Tool]:
    if servers is None and index is None:
        return []
    module = import_module("mainspring.checks.code_tools")
    return module.code_tools(servers, has_symbols=has_symbols, index=index)


class SessionChecks:
    """Both ask the same servers, which end with the session."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: Any = None
        self._running_servers: Any = None

    async def __call__(self, runtime: Runtime) -> str:
        if self._loaded is None:
            if runtime.changed_seq is None and await runtime.journal.last("FilesChanged") is None:
                runtime.changed_seq = 0
            if runtime.changed_seq == 0:
                return ""
            settings, environment = self._config.settings.checks, self._config.environment
            module = import_module("mainspring.checks.after_change")
            self._loaded = module.AfterChange(settings, environment, self._is_trusted, self._servers())
        return await self._loaded(runtime)

    async def close(self) -> None:
        if self._loaded is not None:
            await self._loaded.close()
        if self._running_servers is not None:
            await self._running_servers.close()

    def tools(self, place: Path, index: SessionIndex | None = None) -> list[Tool]:
        """Those that can work in a folder: where a server is configured, installed and approved, or the index
        can tell."""
        environment = self._config.environment
        rows = configured(server_rows(self._config.settings.checks), place, environment)
        usable = [
            each.facts
            for each in rows
            if each.program
            and not each.facts.is_ours
            and self._may_run(subject_of("language-server", each.facts, each.program, each.config, place))
        ]
        has_symbols = not all(facts.is_linter for facts in usable)
        return code_tools(self._servers if usable else None, index, has_symbols=has_symbols)

    def _servers(self) -> Any:
        if self._running_servers is None:
            module = import_module("mainspring.checks.servers")
            settings, environment = self._config.settings.checks, self._config.environment
            self._running_servers = module.SessionLanguageServers(settings, environment, self._is_trusted)
        return self._running_servers

    def _may_run(self, subject: TrustSubject | None) -> bool:
        return subject is None or self._is_trusted(subject)

    def _is_trusted(self, subject: TrustSubject) -> bool:
        trust_file = import_module("mainspring.approvals.trust").TrustFile(self._config.home)
        return trust_file.state(subject) == "trusted"


class _Guard:
    """Nothing of it is loaded before the first call that may change files."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: Any = None

    @property
    def is_measuring(self) -> bool:
        return self._config.settings.checks.coverage == "on"

    async def is_due(self, runtime: Runtime) -> bool:
        return await self._guard.is_due(runtime)

    async def before_calls(self, runtime: Runtime) -> None:
        await self._guard.before_calls(runtime)

    async def comparison(self, runtime: Runtime) -> Any:
        return await self._guard.comparison(runtime)

    async def tell_broken(self, runtime: Runtime, ran: Any, project: Any) -> bool:
        return await self._guard.tell_broken(runtime, ran, project)

    async def after_step(self, runtime: Runtime) -> None:
        if self._loaded or (runtime.changed_seq != 0 and await runtime.journal.last("FilesChanged")):
            await self._guard.after_step(runtime)

    @property
    def _guard(self) -> Any:
        if self._loaded is None:
            module = import_module("mainspring.checks.regressions")
            self._loaded = module.Regressions(self._config.settings.checks)
        return self._loaded
