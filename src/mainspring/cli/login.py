"""`login` and `logout`: who somebody is, by the issuer of `[login]`."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime

import click

from mainspring.app.operations.login import (
    LoggedIn,
    log_in,
    log_in_by_code,
    log_out,
    login_status,
    offers_codes,
)
from mainspring.cli.config import load_config
from mainspring.cli.json_output import json_line
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_PLACES = {"keyring": "the OS keyring", "file": "keys.json in the settings folder"}


@click.command("login")
@click.option("--status", "is_status", is_flag=True, help="Say who is logged in; exit code 1: nobody.")
@click.option("--code", "is_code", is_flag=True, help="Enter a code in a browser of any machine.")
@click.option(
    "--browser/--no-browser", "is_browser", default=None, help="Open the address in a browser here."
)
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def login_command(*, is_status: bool, is_code: bool, is_browser: bool | None, is_json: bool) -> None:
    """Log in at the issuer of [login] in config.toml. From then on that is who gives your commands, on
    record and to a team's policy. Without a browser on this machine it is done with a code, if the issuer
    offers that."""
    config = load_config()
    if is_status:
        _status(config, is_json=is_json)
        return
    done = asyncio.run(_log_in(config, is_code=is_code, is_browser=is_browser))
    click.echo(json_line(done) if is_json else plain(_said(done)))


@click.command("logout")
def logout_command() -> None:
    """Forget the login, and end what renews it at the issuer."""
    was_there, problem = asyncio.run(log_out(load_config()))
    click.echo("logged out" if was_there else "nobody was logged in")
    if problem:
        click.echo(plain(f"note: {problem}"), err=True)


async def _log_in(config: Config, *, is_code: bool, is_browser: bool | None) -> LoggedIn:
    can_open = _has_screen(config) if is_browser is None else is_browser
    if is_code or (is_browser is None and not can_open and await offers_codes(config)):
        return await log_in_by_code(config, _show)

    def visit(url: str) -> None:
        click.echo(f"Visit: {plain(url)}", err=True)
        if can_open:
            click.launch(url)

    return await log_in(config, visit)


def _show(address: str, code: str, whole: str) -> None:
    click.echo(plain(f"Visit {address} and enter {code}"), err=True)
    if whole:
        click.echo(plain(f"or visit {whole}"), err=True)


def _has_screen(config: Config) -> bool:
    if sys.platform in ("win32", "darwin"):
        return not config.variable("SSH_CONNECTION")
    return bool(config.variable("DISPLAY") or config.variable("WAYLAND_DISPLAY"))


def _said(done: LoggedIn) -> str:
    until = f"until {_time(done.until_s)}" + (", renewed by itself" if done.is_renewed else "")
    return f"logged in as {done.person.name}, {until}; kept in {_PLACES[done.place]}"


def _status(config: Config, *, is_json: bool) -> None:
    found = asyncio.run(login_status(config))
    if is_json:
        click.echo(json_line(found))
    elif found.person is not None:
        groups = f"; groups: {', '.join(found.person.claims)}" if found.person.claims else ""
        how = f"{found.person.known_by} until {_time(found.until_s)}"
        click.echo(plain(f"{found.person.name}, {how}{groups}"))
    else:
        click.echo(plain(f"nobody: an account of this machine, {found.problem}"))
    sys.exit(0 if found.person is not None else 1)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")
