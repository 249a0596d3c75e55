"""Starts the daemon in the background, and returns when it is up."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

from mainspring.catalog import Owner
from mainspring.daemon.files import DaemonFiles, DaemonRunning
from mainspring.disk.files import closing_descriptor
from mainspring.errors import MainspringError
from mainspring.sandbox.detached import READY_FD, start_detached
from mainspring.settings import Config

_WITHIN_S = 30.0
_TOLD_BYTES = 2000
_READY = b"ready"


class DaemonFailed(MainspringError):
    """It did not come up."""


def launch(config: Config, arguments: Sequence[str] = ()) -> Owner:
    """Gives the daemon that runs now; `DaemonRunning` names one that was there before."""
    place = DaemonFiles(config.home)
    place.make()
    if place.owner() is not None:
        raise place.running()
    before = place.log.stat().st_size if place.log.exists() else 0
    ready, told = os.pipe()
    with closing_descriptor(ready):
        with closing_descriptor(told):
            command = ["daemon", "run", "--detached", *arguments]
            pid = start_detached(command, environment=config.environment, log=place.log, ready=told)
        is_ready = _answer(ready) == _READY
    owner = place.owner()
    if is_ready and owner is not None and owner.pid == pid:
        return owner
    if owner is not None and owner.pid != pid:
        raise place.running()
    with place.log.open("rb") as log:
        log.seek(max(before, place.log.stat().st_size - _TOLD_BYTES))
        said = log.read().decode("utf-8", "replace").strip()
    raise DaemonFailed(f"The daemon did not start. {said}".strip(), remedy=f"Its log is {place.log}.")


def ensure(config: Config) -> None:
    """Makes the daemon look at what there is to do, and starts it when it is not running."""
    if DaemonFiles(config.home).wake():
        return
    try:
        launch(config)
    except DaemonRunning:
        # Another command started it at the same moment.
        DaemonFiles(config.home).wake()


def tell_ready() -> None:
    """Tells whoever started this process in the background that it is up."""
    os.write(READY_FD, _READY)
    os.close(READY_FD)


def _answer(ready: int) -> bytes:
    poll = select.poll()
    poll.register(ready, select.POLLIN)
    return os.read(ready, len(_READY)) if poll.poll(_WITHIN_S * 1000) else b""
