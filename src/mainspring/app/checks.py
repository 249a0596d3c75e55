"""The checks of changed files that the settings ask for, loaded when the first file has changed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mainspring.approvals.trust import TrustFile, TrustSubject
from mainspring.settings import Config
from mainspring.turns.runtime import ChangeChecks, Runtime


def change_checks(config: Config) -> ChangeChecks | None:
    """None when they are off."""
    return None if config.settings.checks.after_change == "off" else _Checks(config)


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
