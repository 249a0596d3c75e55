"""A session that gives work to others, on a scripted model: one script for the parent, one for each task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring import testing
from mainspring.context.work import UNASSISTED
from mainspring.events import Recorded
from mainspring.models import Price
from mainspring.models.scripted import Case, Script, ScriptedCall, ScriptedReply
from mainspring.settings import Config, load_config

FREE = Price()
PARENT = "Work for the parent."
"""What is said to the parent: requests with this text are its own."""


def settings(home: Path, **variables: str) -> Config:
    home.mkdir(parents=True, exist_ok=True)
    config = load_config(
        {"MAINSPRING_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home), **variables}
    )
    work = msgspec.structs.replace(UNASSISTED, delegate="tasks")
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, work=work))


def asks(*tasks: str, **options: Any) -> ScriptedReply:
    """A reply that gives these tasks away, side by side."""
    return ScriptedReply(calls=tuple(ScriptedCall("delegate", {"task": task, **options}) for task in tasks))


def script_of(
    parent: tuple[ScriptedReply, ...],
    price: Price = FREE,
    /,
    **tasks: tuple[ScriptedReply, ...],
) -> Script:
    """The parent's replies, and those of children by a word of their task."""
    cases = [Case(PARENT, parent), *(Case(task, replies) for task, replies in tasks.items())]
    return Script(cases=tuple(cases), price=price)


class Family(testing.Stage):
    def __init__(self, folder: Path, script: Script, **options: Any) -> None:
        super().__init__(folder, **options)
        self.script = script

    def _config(self) -> Config:
        return settings(self.folder / "home")

    def of(self, child: str) -> list[Recorded]:
        """All that is on record of a child."""
        own, self.session = self.session, child
        try:
            return self.journal()
        finally:
            self.session = own
