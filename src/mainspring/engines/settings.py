"""What a user can say about an engine: `[engines.NAME]` in `config.toml`."""

from __future__ import annotations

from typing import Literal

import msgspec


class EngineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`command` takes the place of the program (and is all of it for an engine of one's own, which also says
    the `protocol` that it speaks). `env` are variables that it gets beside the usual ones. `writable` and
    `readable` are folders and files that it needs outside the workspace. Without `conversation` every turn
    begins a new one."""

    command: tuple[str, ...] = ()
    """The program and its first arguments, instead of what is on PATH."""
    protocol: Literal["", "acp", "exec"] = ""
    """What an engine of your own speaks: acp or exec."""
    model: str = ""
    """The model that it is told to use."""
    args: tuple[str, ...] = ()
    """Further arguments."""
    env: tuple[str, ...] = ()
    """Variables that it may see beside the usual ones."""
    writable: tuple[str, ...] = ()
    """Folders and files outside the workspace that it may write."""
    readable: tuple[str, ...] = ()
    """Folders and files outside the workspace that it may read."""
    conversation: bool = True
    """Whether a turn goes on with its own conversation; false: each begins a new one."""
