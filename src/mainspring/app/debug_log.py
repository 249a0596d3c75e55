"""Opens the debug log (`--debug`, `MAINSPRING_LOG`): a private file; every line is appended without secrets.

Loaded only when it was asked for. Processes that share a file append whole lines.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from pathlib import Path
from types import TracebackType

from mainspring import __version__
from mainspring.disk.files import make_folder
from mainspring.disk.log import open_log
from mainspring.errors import ConfigError, MainspringError
from mainspring.secrets.screen import plain
from mainspring.secrets.vault import Vault
from mainspring.settings import Config, is_log_wanted

_LOGGER = logging.getLogger("mainspring")


class _Redacted(logging.Formatter):
    """A record as one text, its traceback included, without secrets."""

    converter = time.gmtime

    def __init__(self, vault: Vault) -> None:
        super().__init__("%(asctime)s.%(msecs)03dZ %(process)d %(message)s", "%Y-%m-%dT%H:%M:%S")
        self._vault = vault

    def format(self, record: logging.LogRecord) -> str:
        return plain(self._vault.redact(super().format(record)))


def start_log(config: Config, *, is_debug: bool) -> Path | None:
    """Opens the log that was asked for, in this process; gives its file, None when there was none to open."""
    path = config.log_file
    if not is_debug and not is_log_wanted():
        return None
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if stat.S_ISREG((status := os.fstat(descriptor)).st_mode) and status.st_uid == os.geteuid():
            os.fchmod(descriptor, 0o600)
    except OSError as error:
        raise ConfigError(
            f"The log {path} cannot be written: {error.strerror}.",
            remedy="Set MAINSPRING_LOG to a file that can be written.",
        ) from error
    handler = logging.StreamHandler(os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace"))
    handler.setFormatter(_Redacted(Vault(config.secrets)))
    for logger in (_LOGGER, logging.getLogger("asyncio")):
        logger.addHandler(handler)
        logger.propagate = False
    _LOGGER.setLevel(logging.DEBUG)
    open_log(_line)
    sys.excepthook = _uncaught
    command = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    _line(f"start version={__version__} python={sys.version.split()[0]} command={command}")
    return path


def log_error(error: MainspringError) -> None:
    """Says which error a command ended with, and where it came from."""
    _LOGGER.error("error %s", type(error).__name__, exc_info=error)


def _line(text: str) -> None:
    _LOGGER.debug("%s", text)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    _LOGGER.error("crashed", exc_info=(kind, error, trace))
    sys.__excepthook__(kind, error, trace)
