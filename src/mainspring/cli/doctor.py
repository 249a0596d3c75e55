"""`doctor`: what mainspring finds on this machine, what holds here and what does not, and how to fix it.

Keys are named by their provider and never shown.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from mainspring import __version__
from mainspring.app import skills_of
from mainspring.approvals.screen import plain
from mainspring.config import Config, load_config
from mainspring.daemon.place import Place
from mainspring.errors import SandboxError
from mainspring.journal.owner import owner_of
from mainspring.journal.shelf import Shelf
from mainspring.models.providers import PROVIDERS
from mainspring.sandbox.probe import Report, Rung, probe


class Check(msgspec.Struct, frozen=True, kw_only=True):
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
    checks: tuple[Check, ...]
    keys: tuple[str, ...]

    @property
    def is_healthy(self) -> bool:
        return bool(self.rung) and all(check.is_ok for check in self.checks if check.is_needed)


@click.command("doctor")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def doctor_command(*, is_json: bool) -> None:
    """Say what this machine holds, what it does not, and the command that would fix it. Ends with 1 when
    something that is needed is missing."""
    config = load_config()
    report = asyncio.run(probe(config.environment))
    diagnosis = Diagnosis(
        version=__version__,
        rung=_in_use(report),
        rungs=report.rungs,
        checks=_checks(config),
        keys=tuple(each.id for each in PROVIDERS if any(map(config.variable, each.key_variables))),
    )
    if is_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(diagnosis), "ok": diagnosis.is_healthy}))
    else:
        for line in _lines(diagnosis):
            click.echo(plain(line))
    sys.exit(0 if diagnosis.is_healthy else 1)


def _in_use(report: Report) -> str:
    try:
        return report.best().name
    except SandboxError:
        return ""


def _checks(config: Config) -> tuple[Check, ...]:
    return (
        Check(name="python", is_ok=True, found=platform.python_version()),
        _program("git", config, remedy="apt-get install git"),
        _program("rg", config, remedy="apt-get install ripgrep", is_needed=False),
        _data_folder(config.home),
        *_skills(config),
        *_other_versions(config),
    )


def _skills(config: Config) -> Iterator[Check]:
    """The skills for work in the current folder, as far as they cannot be used."""
    _, broken = skills_of(Path.cwd(), config)
    for each in broken:
        found = f"{each.path} is not used: {each.problem}"
        yield Check(name="skill", is_ok=False, found=found, remedy="change that file", is_needed=False)


def _other_versions(config: Config) -> Iterator[Check]:
    """Processes that run another version of this program, as after an upgrade."""
    daemon = Place(config.home).owner()
    if daemon is not None and daemon.other_version:
        remedy = "mainspring daemon stop && mainspring daemon start"
        yield Check(name="daemon", is_ok=False, found=daemon.other_version, remedy=remedy, is_needed=False)
    shelf = Shelf(config.home)
    for session in shelf.names():
        owner = owner_of(shelf.folder / session)
        if owner is not None and owner.is_alive and owner.other_version:
            found = f"{session}: {owner.other_version}"
            remedy = f"end process {owner.pid}, then mainspring resume {session}"
            yield Check(name="session", is_ok=False, found=found, remedy=remedy, is_needed=False)


def _program(name: str, config: Config, *, remedy: str, is_needed: bool = True) -> Check:
    found = shutil.which(name, path=config.variable("PATH"))
    return Check(name=name, is_ok=bool(found), found=found or "", remedy=remedy, is_needed=is_needed)


def _data_folder(home: Path) -> Check:
    """Writable is what was written to."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(b"mainspring")
            file.flush()
    except OSError as error:
        found = f"{home}: {error.strerror}"
        return Check(name="data folder", is_ok=False, found=found, remedy="set MAINSPRING_HOME elsewhere")
    return Check(name="data folder", is_ok=True, found=str(home))


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"mainspring {diagnosis.version}"
    for check in diagnosis.checks:
        yield f"  {_mark(check)} {check.name}: {check.found or 'not found'}" + (
            "" if check.is_ok else f". To fix it: {check.remedy}"
        )
    yield f"  keys: {', '.join(diagnosis.keys) or 'none in the environment'}"
    yield f"sandbox: {diagnosis.rung or 'none stands, so commands run only with --sandbox none'}"
    for rung in diagnosis.rungs:
        yield from _about(rung, is_in_use=rung.name == diagnosis.rung)


def _about(rung: Rung, *, is_in_use: bool) -> Iterator[str]:
    if not rung.is_available:
        yield f"  ✗ {rung.name}: {rung.why_not}"
        yield f"      to fix it: {rung.remedy}"
        return
    use = "in use" if is_in_use else "only with --sandbox none" if rung.name == "none" else "available"
    yield f"  {'▶' if is_in_use else '✓'} {rung.name}: {use}"
    for subject, holds in rung.holds.items():
        yield f"      {subject}: {holds}"
    for name, gap in rung.gaps.items():
        yield f"      ! not guaranteed ({name}): {gap}"


def _mark(check: Check) -> str:
    return "✓" if check.is_ok else "✗" if check.is_needed else "·"
