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
    """The program and its first arguments, instead of the one on PATH."""
    protocol: Literal["", "acp", "exec"] = ""
    """Protocol of an engine of your own: acp or exec."""
    model: str = ""
    """Model that the engine uses."""
    args: tuple[str, ...] = ()
    """Further arguments."""
    env: tuple[str, ...] = ()
    """Environment variables that it gets in addition to the usual ones."""
    writable: tuple[str, ...] = ()
    """Folders and files outside the workspace that it may write."""
    readable: tuple[str, ...] = ()
    """Folders and files outside the workspace that it may read."""
    conversation: bool = True
    """Continue the engine's conversation from turn to turn; false: each turn begins a new one."""
