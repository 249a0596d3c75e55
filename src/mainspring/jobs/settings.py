"""What a user can say about machines that run jobs: `[jobs.NAME]` in `config.toml`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainspring.errors import UsageError

_Usd = Annotated[float, msgspec.Meta(ge=0, le=100_000)]


class HardwareSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One kind of hardware of a host (`[jobs.NAME.hardware.KIND]`)."""

    usd_per_hour: _Usd | None = None
    """What an hour costs, in USD; unset: that of the host. When neither is known, a person is asked."""
    options: tuple[str, ...] = ()
    """Options of `sbatch` that ask for it: ["--gres=gpu:a100:1"]."""


class JobHostSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One place that runs jobs: a machine reached over ssh, a Slurm cluster, or a hub of hosted jobs."""

    kind: Literal["ssh", "slurm", "hub"] = "ssh"
    """ssh, slurm or hub."""
    host: str = ""
    """Where ssh goes, as you would type it: me@gpu1. With slurm, empty means that `sbatch` is on this
    machine."""
    ssh_options: tuple[str, ...] = ()
    """Further options of `ssh`: ["-p", "2222"]."""
    folder: str = ".mainspring/jobs"
    """The folder there that jobs have theirs in; from the home folder, unless it begins with `/`. With slurm
    all nodes must see it."""
    options: tuple[str, ...] = ()
    """Options of `sbatch` for every job: ["--partition=long"]."""
    hardware: dict[str, HardwareSettings] = {}
    """Kinds of hardware by name. With a hub the names are its flavors."""
    usd_per_hour: _Usd | None = None
    """What an hour costs on hardware that has no price of its own, in USD."""
    max_hours: Annotated[float, msgspec.Meta(gt=0, le=24 * 365)] = 24.0
    """The longest time limit of a job."""
    url: str = "https://huggingface.co"
    """The address of a hub, which speaks as that of Hugging Face Jobs does."""
    namespace: str = ""
    """Whose jobs they are on a hub: a user or an organization."""
    image: str = "python:3.12"
    """The container image that jobs of a hub run in."""
    token_variable: str = "HF_TOKEN"  # noqa: S105 - the name of a variable
    """The environment variable with the token of a hub."""
    hub_hardware: str = "cpu-basic"
    """The flavor of a hub for jobs that ask for none."""


class MachineSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One machine that the commands of a session can run on: `mainspring run --on NAME`."""

    host: str = ""
    """Where ssh goes, as you would type it: me@gpu1."""
    ssh_options: tuple[str, ...] = ()
    """Further options of `ssh`: ["-p", "2222"]."""
    folder: str = ".mainspring/machines"
    """The folder there that copies of workspaces lie in; from the home folder, unless it begins with `/`."""
    usd_per_hour: _Usd | None = None
    """What an hour costs, in USD. Unset: a person is asked when a session first uses it."""
    max_hours: Annotated[float, msgspec.Meta(gt=0, le=24 * 365)] = 12.0
    """For how long a session may use it at once; then everything of it is ended there."""
    silence_minutes: Annotated[float, msgspec.Meta(ge=0.05, le=24 * 60)] = 10.0
    """After how many minutes without a sign of life from here everything of a session is ended there."""
    leave_out: tuple[str, ...] = (".venv", "venv", "node_modules", "__pycache__", ".tox")
    """Names of files and folders that do not travel, beside `.git` and what is hidden from agents."""


def hardware_of(settings: JobHostSettings, hardware: str) -> HardwareSettings:
    """What is known of a kind of hardware; `UsageError` when the host has none of this name."""
    if settings.kind == "hub":
        return settings.hardware.get(hardware or settings.hub_hardware, HardwareSettings())
    if hardware and hardware not in settings.hardware:
        names = ", ".join(settings.hardware) or "none by name; leave it out"
        raise UsageError(f"There is no hardware {hardware!r} here.", remedy=f"What there is: {names}.")
    return settings.hardware.get(hardware, HardwareSettings())


def hourly_usd(settings: JobHostSettings, hardware: str) -> float | None:
    """What an hour on it costs; None when nobody said."""
    own = hardware_of(settings, hardware).usd_per_hour
    return settings.usd_per_hour if own is None else own
