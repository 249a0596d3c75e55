"""Settings of sessions whose commands run on a machine named `far`, which is this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.jobs.settings import MachineSettings
from mainspring.settings import Config
from tests.jobs.stage import config_of


def config_there(folder: Path, ssh_options: tuple[str, ...], **changes: Any) -> Config:
    usual = MachineSettings(
        host="machine", ssh_options=ssh_options, folder=str(folder / "there"), usd_per_hour=0.0
    )
    config = config_of(folder)
    far = msgspec.structs.replace(usual, **changes)
    settings = msgspec.structs.replace(config.settings, machines={"far": far})
    return msgspec.structs.replace(config, settings=settings, machine="far")
