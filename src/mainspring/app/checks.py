"""The checks of changed files that the settings ask for, loaded when they are first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mainspring.approvals.trust import TrustFile, TrustSubject
from mainspring.settings import Config
from mainspring.turns.runtime import ChangeChecks, RegressionGuard, Runtime


def change_checks(config: Config) -> ChangeChecks | None:
    """None when they are off."""
    return None if config.settings.checks.after_change == "off" else _Checks(config)


def regression_guard(config: Config) -> RegressionGuard | None:
    """None when it is off."""
    return None if config.settings.checks.regressions == "off" else _Guard(config)


class _Checks:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: Any = None
        self._servers: Any = None

    async def __call__(self, runtime: Runtime) -> str:
        if self._loaded is None:
            if runtime.changed_seq is None and await runtime.journal.last("FilesChanged") is None:
                runtime.changed_seq = 0
            if runtime.changed_seq == 0:
                return ""
            settings, environment = self._config.settings.checks, self._config.environment
            servers = import_module("mainspring.checks.servers").SessionLanguageServers
            self._servers = servers(settings, environment, self._is_trusted)
            module = import_module("mainspring.checks.after_change")
            self._loaded = module.AfterChange(settings, environment, self._is_trusted, self._servers)
        return await self._loaded(runtime)

    async def close(self) -> None:
        if self._loaded is not None:
            await self._loaded.close()
            await self._servers.close()

    def _is_trusted(self, subject: TrustSubject) -> bool:
        return TrustFile(self._config.home).state(subject) == "trusted"


class _Guard:
    """Nothing of it is loaded before the first call that may change files."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: Any = None

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
