"""The port to what an agent can do: a tool is data plus one async function, and a toolbox runs its calls.

A tool says what it changes (`effect`), so that the policy can judge it and a resumed session knows whether an
interrupted call may be run again. What goes wrong in a tool is told to the model in its `Output`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from mainspring.approvals import Effect
from mainspring.events import Blob, Media
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files


class ToolFailed(Exception):
    """A tool could not do what it was asked; the message is for the model."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """What a call gave. `full` is what did not fit into `text`."""

    text: str
    is_error: bool = False
    exit_code: int | None = None
    media: tuple[Media, ...] = ()
    full: Blob | None = None


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a call runs, and what it may use there."""

    call: str
    workspace: Path
    sandbox: Callable[[], Awaitable[Sandbox]]
    files: Files
    show: Callable[[str], None]
    keep: Callable[[bytes, str], Awaitable[Blob]]
    recall: Callable[[str], Awaitable[str | None]]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """`arguments` is a struct type: it validates a call and gives the schema that the model sees.
    `paths` and `command` tell the policy what a call with such arguments would touch or run."""

    name: str
    description: str
    arguments: type[msgspec.Struct]
    effect: Effect
    run: Callable[[Any, Place], Awaitable[Output | str]]
    paths: Callable[[Any], tuple[str, ...]] = lambda _: ()
    command: Callable[[Any], str] = lambda _: ""

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that may have run already can simply be run again."""
        return self.effect in ("none", "read")
