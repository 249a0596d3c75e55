"""What mainspring finds on this machine, what holds here and what does not, and how to fix it.

Keys are named by their provider and never shown.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec

from mainspring import __version__
from mainspring.app.operations.approvals import rules_in_force
from mainspring.app.operations.cleaning import disk_use
from mainspring.app.operations.hooks import hook_cost, list_hooks
from mainspring.app.operations.keys import KeyOrigin, key_origin, list_keys
from mainspring.app.operations.models import without_login
from mainspring.app.plugins import load_plugins
from mainspring.app.policies import DEFAULT_MODE, confinement_of
from mainspring.app.prompt import skills_of
from mainspring.app.stores import sessions_of, temporal_server
from mainspring.catalog import running
from mainspring.daemon.files import DaemonFiles
from mainspring.errors import ConfigError, MainspringError, SandboxError
from mainspring.events.counts import plural, readable_bytes
from mainspring.models.pricelist import load_table
from mainspring.models.prices import refreshed_path
from mainspring.models.providers import PROVIDERS
from mainspring.sandbox.probe import Rung, SandboxReport, probe
from mainspring.sandbox.programs import program_folders
from mainspring.settings import Config
from mainspring.system import this_system

_LOW_DISK_BYTES = 1_000_000_000


class DoctorCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Something that should be there. What is not needed only makes things better."""

    name: str
    is_ok: bool
    found: str = ""
    remedy: str = ""
    is_needed: bool = True


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """`rung` is the one in use, empty when none stands; `keys` names providers."""

    version: str
    rung: str
    rungs: tuple[Rung, ...]
    checks: tuple[DoctorCheck, ...]
    keys: tuple[str, ...]
    key_origins: dict[str, KeyOrigin] = {}

    @property
    def is_healthy(self) -> bool:
        return bool(self.rung) and all(check.is_ok for check in self.checks if check.is_needed)


async def diagnose(config: Config, folder: Path) -> Diagnosis:
    """What is here for work in a folder; tries every rung of the sandbox."""
    report = await probe(config.environment)
    return Diagnosis(
        version=__version__,
        rung=_in_use(report),
        rungs=report.rungs,
        checks=(
            *_checks(config, folder),
            *await _hooks(config, folder),
            *await _other_versions(config),
            *await _temporal(config),
            *await _job_hosts(config),
        ),
        keys=tuple(each.id for each in PROVIDERS if key_origin(config, each.key_variables)),
        key_origins={each.name: each.origin for each in list_keys(config) if each.origin},
    )


def _in_use(report: SandboxReport) -> str:
    try:
        return report.best().name
    except SandboxError:
        return ""


def _checks(config: Config, folder: Path) -> tuple[DoctorCheck, ...]:
    return (
        *_settings(config),
        _system(),
        DoctorCheck(name="python", is_ok=True, found=platform.python_version()),
        _program("git", config, remedy="apt-get install git"),
        _program("rg", config, remedy="apt-get install ripgrep", is_needed=False),
        _data_folder(config.home),
        _disk(config),
        *_gateway(config),
        *_unread_keys(config),
        *_daily_anchor(config.daily_anchor),
        DoctorCheck(name="prices", is_ok=True, found=str(load_table(refreshed_path(config.home)))),
        *_hidden_programs(config, folder),
        *_skills(config, folder),
        *_plugins(config, folder),
        *_rules(config, folder),
    )


def _settings(config: Config) -> Iterator[DoctorCheck]:
    """The settings file, when it is not valid."""
    if config.problem is not None:
        found = f"{config.problem.message} Defaults are used"
        yield DoctorCheck(name="settings", is_ok=False, found=found, remedy=config.problem.remedy)


def _system() -> DoctorCheck:
    here = this_system()
    found = f"{here.name}. {here.limits.removesuffix('.')}" if here.limits else here.name
    return DoctorCheck(name="system", is_ok=not here.limits, found=found, remedy=here.remedy)


def _hidden_programs(config: Config, workspace: Path) -> Iterator[DoctorCheck]:
    """Entries of PATH whose programs confined commands do not reach."""
    policy = confinement_of(workspace, DEFAULT_MODE, config)
    for folder in program_folders(config.environment, policy):
        if folder.why_not:
            found = f"commands do not reach {folder.entry or 'an empty entry'}: {folder.why_not}"
            remedy = "take it out of PATH, or move its programs"
            yield DoctorCheck(name="PATH", is_ok=False, found=found, remedy=remedy, is_needed=False)


def _skills(config: Config, folder: Path) -> Iterator[DoctorCheck]:
    """The skills for work in a folder, as far as they cannot be used."""
    _, broken = skills_of(folder, config)
    for each in broken:
        found = f"{each.path} is not used: {each.problem}"
        yield DoctorCheck(name="skill", is_ok=False, found=found, remedy="change that file", is_needed=False)


def _plugins(config: Config, folder: Path) -> Iterator[DoctorCheck]:
    """The plugins that cannot be used."""
    for sentence in load_plugins(config, folder).warnings:
        remedy = "see mainspring plugins list"
        found = sentence.removesuffix(".")
        yield DoctorCheck(name="plugin", is_ok=False, found=found, remedy=remedy, is_needed=False)


def _rules(config: Config, folder: Path) -> Iterator[DoctorCheck]:
    """Rules that allow less than they seem to, or that cannot be used."""
    try:
        files = rules_in_force(config, folder).files
    except ConfigError as error:
        yield DoctorCheck(name="rules", is_ok=False, found=error.message, remedy=error.remedy)
        return
    for file in files:
        for warning in file.warnings:
            yield DoctorCheck(name="rules", is_ok=True, found=f"{file.path}: {warning}", is_needed=False)


async def _hooks(config: Config, folder: Path) -> list[DoctorCheck]:
    """How many hooks there are for work in a folder, and what they cost."""
    hooks = list_hooks(config, folder)
    if not hooks:
        return []
    used = [each for each in hooks if each.state == "used"]
    cost = await hook_cost(config)
    took = f"{cost.per_turn_s * 1000:.0f} ms a turn in the last {plural(cost.turns, 'turn')} with hooks"
    found = f"{plural(len(used), 'hook')} in use" + (f", {took}" if cost.runs else "")
    waiting = len(hooks) - len(used)
    found += f"; {waiting} not approved or not usable" if waiting else ""
    remedy = "mainspring hooks list, then mainspring trust add"
    return [DoctorCheck(name="hooks", is_ok=not waiting, found=found, remedy=remedy, is_needed=False)]


async def _other_versions(config: Config) -> list[DoctorCheck]:
    """Processes that run another version of this program, as after an upgrade."""
    found: list[DoctorCheck] = []
    daemon = DaemonFiles(config.home).owner()
    if daemon is not None and daemon.other_version:
        remedy = "mainspring daemon stop && mainspring daemon start"
        found.append(_other("daemon", daemon.other_version, remedy))
    sessions = sessions_of(config)
    for session in await sessions.names():
        owner = await running(sessions, session)
        if owner is not None and owner.other_version:
            remedy = f"end process {owner.pid}, then mainspring resume {session}"
            found.append(_other("session", f"{session}: {owner.other_version}", remedy))
    return found


async def _temporal(config: Config) -> list[DoctorCheck]:
    """The Temporal server that the settings name."""
    named = config.settings.temporal
    if not named.address:
        return []
    try:
        is_ready = await temporal_server(config).is_ready()
    except MainspringError as error:
        return [DoctorCheck(name="temporal", is_ok=False, found=error.message, remedy=error.remedy)]
    found = f"{named.address}, namespace {named.namespace}"
    found += "" if is_ready else ", not used by a worker yet"
    return [DoctorCheck(name="temporal", is_ok=True, found=found)]


async def _job_hosts(config: Config) -> list[DoctorCheck]:
    """The machines that the settings name for jobs and commands, each asked whether it could run one."""
    if not (config.settings.jobs or config.settings.machines):
        return []
    operations = import_module("mainspring.app.operations.jobs")
    checks = {
        "jobs": await operations.check_hosts(config),
        "machine": await operations.check_machines(config),
    }
    return [
        DoctorCheck(name=f"{what} {each.name}", is_ok=each.is_ok, found=each.found, remedy=each.remedy)
        for what, found in checks.items()
        for each in found
    ]


def _other(name: str, found: str, remedy: str) -> DoctorCheck:
    return DoctorCheck(name=name, is_ok=False, found=found, remedy=remedy, is_needed=False)


def _program(name: str, config: Config, *, remedy: str, is_needed: bool = True) -> DoctorCheck:
    found = shutil.which(name, path=config.variable("PATH"))
    return DoctorCheck(name=name, is_ok=bool(found), found=found or "", remedy=remedy, is_needed=is_needed)


def _gateway(config: Config) -> Iterator[DoctorCheck]:
    """The server that model calls go through, when there is one."""
    gateway = config.gateway
    if not gateway.url:
        return
    whose = ", ".join(gateway.providers) or "all providers"
    has_key = not gateway.key_variable or bool(key_origin(config, (gateway.key_variable,)))
    yield DoctorCheck(
        name="gateway",
        is_ok=has_key,
        found=f"{without_login(gateway.url)} for {whose}" + ("" if has_key else ", without a key"),
        remedy=f"mainspring keys add gateway, or set {gateway.key_variable}",
    )


def _unread_keys(config: Config) -> Iterator[DoctorCheck]:
    """Keys that were stored and cannot be read."""
    for each in list_keys(config):
        if each.problem:
            found = f"the key of {each.title} is stored, but {each.problem}"
            remedy = f"unlock the keyring, or mainspring keys add {each.name}"
            yield DoctorCheck(name="key", is_ok=False, found=found, remedy=remedy, is_needed=False)


def _disk(config: Config) -> DoctorCheck:
    """How much room the data takes."""
    use = disk_use(config)
    parts = {
        plural(use.session_count, "session"): use.sessions,
        "exec records": use.execs,
        "contents of files": use.contents,
        "models": use.models,
        "other": use.other,
    }
    said = ", ".join(f"{name} {readable_bytes(size)}" for name, size in parts.items() if size)
    return DoctorCheck(
        name="disk",
        is_ok=use.free >= _LOW_DISK_BYTES,
        found=f"{said or 'nothing kept yet'}; {readable_bytes(use.free)} free",
        remedy="mainspring clean, and mainspring sessions delete --older-than 90d",
        is_needed=False,
    )


def _data_folder(home: Path) -> DoctorCheck:
    """Writable is what was written to."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"mainspring")
            file.flush()
    except OSError as error:
        found = f"{home}: {error.strerror}"
        return DoctorCheck(
            name="data folder", is_ok=False, found=found, remedy="set MAINSPRING_HOME elsewhere"
        )
    return DoctorCheck(name="data folder", is_ok=True, found=str(home))


def _daily_anchor(file: Path | None) -> Iterator[DoctorCheck]:
    """The file for daily lines about sessions, when there shall be one."""
    if file is not None:
        there = next(each for each in (file, *file.parents) if each.exists())
        is_ok = os.access(there, os.W_OK) and there.is_dir() == (there != file)
        found = str(file) if is_ok else f"{file} cannot be written: no lines are kept"
        remedy = "correct `daily_anchor` under [journal] in config.toml"
        yield DoctorCheck(name="daily anchor", is_ok=is_ok, found=found, remedy=remedy)
