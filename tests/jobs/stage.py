"""Settings of sessions that submit jobs: a machine named `far`, by stand-ins for Slurm unless a test says otherwise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.programs import OpenOptions
from mainspring.context.work import UNASSISTED
from mainspring.events import ApprovalAsked, Limits
from mainspring.jobs.settings import JobHostSettings
from mainspring.plugins.settings import PluginSettings
from mainspring.settings import Config, load_config
from tests.jobs.slurm_stand_in import install

COMMAND = "echo once >> effects; echo 42 > made; echo said"


def config_of(folder: Path, **changes: Any) -> Config:
    slurm = folder / "slurm"
    programs = slurm / "bin" if slurm.exists() else install(slurm)
    environment = {
        "MAINSPRING_HOME": str(folder / "home"),
        "HOME": os.environ["HOME"],
        "PATH": f"{programs}:{os.environ['PATH']}",
    }
    config = load_config(environment)
    usual = JobHostSettings(kind="slurm", folder=str(folder / "jobs"), usd_per_hour=2.0)
    far = msgspec.structs.replace(usual, **changes)
    settings = msgspec.structs.replace(
        config.settings, work=UNASSISTED, plugins=PluginSettings(enabled=False), jobs={"far": far}
    )
    return msgspec.structs.replace(config, settings=settings)


async def nobody(_: ApprovalAsked) -> None:
    """Nobody is there to be asked."""


def free(config: Config, usd: float = 10.0) -> OpenOptions:
    """Nothing is asked for that costs no more than this."""
    limits = Limits(max_cost_usd=usd)
    return {"config": config, "mode": "yolo", "limits": limits, "sandbox": "none", "approver": nobody}


def effects(folder: Path, session: str, job: str = "j1") -> list[str]:
    """What the job did, a line each time."""
    file = folder / "jobs" / f"ms-{session}-{job}" / "work/effects"
    return file.read_text().split() if file.exists() else []
