"""What was run without an agent, from the journals of steps. `mainspring.app.building.run_step` runs one."""

from __future__ import annotations

from mainspring.app.stores import steps_of
from mainspring.config import Config
from mainspring.errors import UnknownSession, UsageError
from mainspring.events import Blob
from mainspring.journal.file import JournalFile
from mainspring.steps import Step, newest_steps, read_step

__all__ = ["Step", "list_steps", "load_output", "load_step"]


def list_steps(config: Config, *, limit: int) -> list[Step]:
    """The newest steps."""
    return newest_steps(steps_of(config), limit)


def load_step(config: Config, step: str) -> Step:
    """The one step whose id begins so."""
    file = _open(config, step)
    try:
        found = read_step(file)
    finally:
        file.close()
    if found is None:
        raise UsageError(f"Nothing was asked for in the step {step}.")
    return found


def load_output(config: Config, step: Step) -> tuple[bytes, bytes]:
    """All that a step wrote to its standard output and to its standard error."""
    file = _open(config, step.id)
    try:
        return _content(file, step.stdout), _content(file, step.stderr)
    finally:
        file.close()


def _open(config: Config, step: str) -> JournalFile:
    store = steps_of(config)
    try:
        return store.file(store.find(step))
    except UnknownSession as error:
        raise UsageError(f"There is no step {step}.", remedy="`mainspring steps` lists them.") from error


def _content(file: JournalFile, blob: Blob | None) -> bytes:
    return file.get(blob) if blob else b""
