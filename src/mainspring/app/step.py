"""Runs one command without an agent: judged by the policy, confined, on record."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from mainspring.app.commands import Runner
from mainspring.app.commands import run_command as take_command
from mainspring.app.hooks import gate_of
from mainspring.app.known import workspace_at
from mainspring.app.policies import (
    DEFAULT_MODE,
    build_mode,
    build_policy,
    confine,
    confinement_of,
)
from mainspring.app.private import private_config
from mainspring.app.project_settings import settle
from mainspring.app.records import create_recorder
from mainspring.app.stores import commands_of, shared_files
from mainspring.app.team_guard import hold_of
from mainspring.app.workspaces import AllowHome
from mainspring.approvals.grants import GrantFile
from mainspring.approvals.questions import Approver
from mainspring.errors import UsageError
from mainspring.events import CommandAsked, Limits
from mainspring.sandbox import MIB, OnOutput, Sandbox
from mainspring.settings import Config, Template


async def run_command(
    argv: Sequence[str],
    *,
    folder: Path | str = ".",
    template: str = "",
    timeout_s: float | None = None,
    cpu_s: int | None = None,
    memory_bytes: int | None = None,
    label: str = "",
    mode: str = "",
    sandbox: Sandbox | str = "",
    allow_home: AllowHome = False,
    approver: Approver | None = None,
    on_output: OnOutput | None = None,
    config: Config | None = None,
) -> str:
    """Runs one command without an agent; gives the id of its record. What is not given is the template's."""
    config = private_config(config)
    place = workspace_at(Path(folder))
    config, allows_home = settle(config, place, allow_home=allow_home)
    chosen = template_of(template, config)
    usual = chosen.mode or config.settings.mode or DEFAULT_MODE
    chosen_mode, level = hold_of(config, place).mode(mode, usual)
    asked = CommandAsked(
        argv=tuple(argv),
        cwd=str(place),
        template=template,
        timeout_s=timeout_s or chosen.timeout_s,
        cpu_s=cpu_s or chosen.cpu_s,
        memory_bytes=chosen.memory_mb * MIB if memory_bytes is None else memory_bytes,
        label=label,
    )
    confinement = confinement_of(place, chosen_mode, config)
    runner = Runner(
        policy=build_policy(build_mode(chosen_mode, level, Limits()), place, config),
        sandbox=partial(confine, sandbox, confinement, config),
        template=chosen,
        grants=GrantFile(shared_files(config)),
        approver=approver,
        approval_timeout_s=config.settings.approval_timeout_s,
        on_output=on_output,
        allows_home=allows_home,
        gate=gate_of(confinement, chosen_mode, config),
    )
    recorder = await create_recorder(commands_of(config), config)
    try:
        await take_command(recorder, asked, runner)
    finally:
        await recorder.close()
    return recorder.session


def template_of(name: str, config: Config) -> Template:
    """What `[steps.NAME]` of `config.toml` says; without a name what every command gets."""
    known = config.settings.steps
    if name and name not in known:
        names = ", ".join(sorted(known)) or "none yet"
        raise UsageError(f"There is no template {name!r}.", remedy=f"config.toml has: {names}.")
    return known.get(name, Template())
