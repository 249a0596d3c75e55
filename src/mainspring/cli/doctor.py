"""`doctor`: what mainspring finds on this machine, what holds here and what does not, and how to fix it; and
an archive about one session for a bug report."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from mainspring.app.operations.bundle import make_bundle
from mainspring.app.operations.doctor import Diagnosis, DoctorCheck, Rung, diagnose
from mainspring.app.operations.security import SecurityCheck, Trial, check_security
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain


@click.command("doctor")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
@click.option("--bundle", metavar="SESSION", help="Write an archive about this session for a bug report.")
@click.option(
    "--security", "is_security", is_flag=True, help="Try to break out of the sandbox, and say what held."
)
@click.option("--sandbox", metavar="NAME", default="", help="The sandbox to try with --security.")
@click.option("-o", "to", type=click.Path(path_type=Path), help="The file of that archive.")
@click.option("--with-contents", is_flag=True, help="Put prompts, replies and outputs into it, too.")
def doctor_command(
    *,
    is_json: bool,
    bundle: str | None,
    is_security: bool,
    sandbox: str,
    to: Path | None,
    with_contents: bool,
) -> None:
    """Check this machine, and say how to fix what is missing. The exit code is 1 when something that is
    needed is missing, or when --security finds that a promise does not hold."""
    if is_security:
        _security(sandbox, is_json=is_json)
        return
    if sandbox:
        raise UsageError("--sandbox needs --security.", remedy="Add --security.")
    if bundle is not None:
        _bundle(bundle, to, with_contents=with_contents)
        return
    if to is not None or with_contents:
        raise UsageError("-o and --with-contents need --bundle.", remedy="Name a session: --bundle ID.")
    diagnosis = asyncio.run(diagnose(load_config(is_config_optional=True), Path.cwd()))
    if is_json:
        click.echo(json_line({**msgspec.to_builtins(diagnosis), "ok": diagnosis.is_healthy}))
    else:
        for line in _lines(diagnosis):
            click.echo(plain(line))
    sys.exit(0 if diagnosis.is_healthy else 1)


def _security(rung: str, *, is_json: bool) -> None:
    check = asyncio.run(check_security(load_config(), rung=rung))
    if is_json:
        click.echo(msgspec.json.encode({**msgspec.to_builtins(check), "ok": check.is_held}))
    else:
        for line in _security_lines(check):
            click.echo(plain(line))
    sys.exit(0 if check.is_held else 1)


def _security_lines(check: SecurityCheck) -> Iterator[str]:
    without = "none works here, so nothing confines commands. `mainspring doctor` says why"
    yield f"sandbox: {check.rung or without}"
    for subject, holds in check.holds.items():
        yield f"  {subject}: {holds}"
    for name, gap in check.gaps.items():
        yield f"  ! not guaranteed here ({name}): {gap}"
    yield "tried now:"
    by_subject: dict[str, list[Trial]] = {}
    for trial in check.trials:
        by_subject.setdefault(trial.subject, []).append(trial)
    for subject, trials in by_subject.items():
        held = sum(trial.is_held for trial in trials)
        mark = "✗" if any(trial in check.failed for trial in trials) else "✓" if held == len(trials) else "!"
        yield f"  {mark} {subject}: {held} of {len(trials)} held"
        for trial in trials:
            if not trial.is_held:
                said = "! not guaranteed here" if trial.is_gap else "✗ FAILED"
                yield f"      {said} ({trial.name}): {trial.found}"
    said = (
        "every promise held"
        if check.is_held
        else "no sandbox"
        if not check.failed
        else "NOT all promises held"
    )
    yield f"{len(check.trials)} attempts in {check.duration_s:.1f} s: {said}."


def _bundle(session: str, to: Path | None, *, with_contents: bool) -> None:
    config = load_config_or_defaults()
    made = asyncio.run(make_bundle(config, session, to, Path.cwd(), with_contents=with_contents))
    click.echo(f"Wrote {made.path} ({made.bytes:,} bytes). In it:")
    for name, said in made.contents.items():
        click.echo(plain(f"  {name}: {said}"))
    click.echo("Not in it:")
    for each in made.left_out:
        click.echo(f"  {each}")
    click.echo("Nothing was sent. Look into it before you share it.")


def found_and_remedy(check: DoctorCheck) -> str:
    """What was found, and what to do where that is known and needed."""
    found = check.found or "not found"
    return found if check.is_ok or not check.remedy else f"{found.rstrip('.')}. To fix it: {check.remedy}"


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield f"mainspring {diagnosis.version}"
    for check in diagnosis.checks:
        yield f"  {_mark(check)} {check.name}: {found_and_remedy(check)}"
    keys = [f"{name} (from {origin})" for name, origin in diagnosis.key_origins.items()]
    yield f"  keys: {', '.join(keys) or 'none; store one with mainspring keys add PROVIDER'}"
    is_plain = any(rung.name == "none" and rung.is_available for rung in diagnosis.rungs)
    without = f"none works, so {'commands run only with --sandbox none' if is_plain else 'no commands run'}"
    yield f"sandbox: {diagnosis.rung or without}"
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


def _mark(check: DoctorCheck) -> str:
    return "✓" if check.is_ok else "✗" if check.is_needed else "·"
