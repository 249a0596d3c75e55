"""What `config.toml` may say about commands of an agent (`[sandbox]`)."""

from __future__ import annotations

from typing import Annotated

import msgspec


class SandboxSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each command may use that has no such limit of its own (`[sandbox]` in `config.toml`)."""

    memory_mb: Annotated[int, msgspec.Meta(ge=0)] | None = None
    """Megabytes of memory, files in `/tmp` and `/dev/shm` included; without it three quarters of the
    machine, at least 2048, where cgroups can limit it. 0 is no limit."""
    disk_mb: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Megabytes by which the free space of the workspace's disk may shrink while a command runs; 0 is
    no limit."""
    new_files: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Files by which that disk may fill while a command runs; 0 is no limit."""
    hide: tuple[str, ...] = ()
    """Files and folders that commands and tools cannot read, besides those that hold secrets by their name or
    place: names as in a shell (`*.sqlite`), or paths (`~/mail`, `config/prod.yml` in the workspace)."""
    show: tuple[str, ...] = ()
    """What they may read although it would be hidden, in the same form; mainspring's own settings and data
    stay hidden."""
