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
    protocol: Literal["", "acp", "exec"] = ""
    model: str = ""
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    conversation: bool = True
