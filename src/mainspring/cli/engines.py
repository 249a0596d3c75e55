"""`engines`: who can take turns here, where their programs are, and which versions they say they have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click
import msgspec

from mainspring import __version__
from mainspring.app.policies import confinement_of
from mainspring.approvals.screen import plain
from mainspring.config import Config, load_config
from mainspring.engines.builtin import NAME as BUILTIN
from mainspring.engines.catalog import COMMANDS, described, find_engine, find_program
from mainspring.engines.outside import remedy, version_of
from mainspring.errors import UsageError
from mainspring.sandbox.process import PlainSandbox


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """An engine as it is set up here. Without a path it is not installed, and `remedy` says what to do."""

    engine: str
    title: str
    is_installed: bool
    path: str = ""
    version: str = ""
    remedy: str = ""


@click.command("engines")
@click.option("--json", "is_json", is_flag=True, help="Print one engine per line as JSON.")
def engines_command(*, is_json: bool) -> None:
    """List who can take turns (`--engine NAME`), whether they are installed, and their versions."""
    for listed in asyncio.run(_listed(load_config())):
        click.echo(msgspec.json.encode(listed) if is_json else plain(_line(listed)))
    if not is_json:
        click.echo("acp:COMMAND     any agent that speaks the Agent Client Protocol")
        click.echo("exec:COMMAND    any command that reads a prompt and prints text")


async def _listed(config: Config) -> list[Listed]:
    own = [name for name in config.settings.engines if name not in (*COMMANDS, "acp", "exec")]
    found = await asyncio.gather(*(_look(name, config) for name in (*COMMANDS, *own)))
    ours = Listed(engine=BUILTIN, title="our own loop", is_installed=True, version=__version__)
    return [ours, *found]


async def _look(name: str, config: Config) -> Listed:
    settings, environment = config.settings.engines, config.environment
    try:
        facts, command, _ = described(name, settings)
        path = find_program(command[0], environment)
        if path is None:
            how = remedy(name, facts)
            return Listed(engine=name, title=facts.title, is_installed=False, remedy=how)
        outside = find_engine(name, settings, environment)
    except UsageError as error:
        text = f"{error.message} {error.remedy}".strip()
        return Listed(engine=name, title="of your own", is_installed=False, remedy=text)
    version = ""
    if facts.has_version:
        sandbox = PlainSandbox(environment=environment)
        try:
            policy = outside.confinement(confinement_of(Path.cwd(), "plan", config))
            version = await version_of(outside, sandbox, policy)
        finally:
            await sandbox.close()
    return Listed(engine=name, title=facts.title, is_installed=True, path=path, version=version)


def _line(listed: Listed) -> str:
    head = f"{listed.engine:<15} {listed.title:<14}"
    if not listed.is_installed:
        return f"{head} not installed. {listed.remedy}"
    return f"{head} {listed.version or 'version unknown':<24} {listed.path}".rstrip()
