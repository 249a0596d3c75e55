"""The settings of this process, with who gives its commands, and the session that is meant by default."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

import click
import msgspec

from mainspring import settings
from mainspring.app.private import make_private
from mainspring.app.team import account_name
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.events import Origin
from mainspring.settings import FACE, Config
from mainspring.system import host_name, user_name


def _leave_gateway(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001
    if value:
        ctx.meta[_NO_GATEWAY] = True


NO_GATEWAY = click.option(
    "--no-gateway",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_leave_gateway,
    help="Ask providers directly, not through [gateway].",
)
_NO_GATEWAY = "mainspring.no_gateway"


def refuse_no_gateway() -> None:
    """`UsageError` for `--no-gateway` where another process, which does not know of it, does the work."""
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_NO_GATEWAY):
        raise UsageError(
            "--no-gateway counts for this process, and another one does the work.",
            remedy="Start that one with --no-gateway: mainspring daemon start, mainspring worker.",
        )


def _tell(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> None:  # noqa: ARG001
    ctx.meta[_NOTIFY] = value


NOTIFY = click.option(
    "--notify",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=_tell,
    help="Channel of [notify] that is told about this run.",
)
_NOTIFY = "mainspring.notify"


def load_config_or_defaults() -> Config:
    """The settings, for commands that change nothing: with a `config.toml` that is not valid they say so and
    go on with the defaults."""
    config = load_config(is_config_optional=True)
    if config.problem is not None:
        click.echo(f"warning: {config.problem.message} Defaults are used.", err=True)
    return config


def load_config(*, is_config_optional: bool = False) -> Config:
    """The settings, for commands that are given on the command line, or by the daemon through it."""
    config = settings.load_config(is_config_optional=is_config_optional)
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_NO_GATEWAY):
        config = msgspec.structs.replace(
            config, environment={**config.environment, settings.GATEWAY_VARIABLE: "0"}
        )
    for folder in make_private(config):
        click.echo(f"{folder} was open to other users of this machine; now it is yours alone.", err=True)
    try:
        user = account_name(user_name())
    except OSError:  # Windows, without a terminal
        user = ""
    face = config.variable(FACE) or "cli"
    origin = Origin(user=user, device=host_name(), program="mainspring", face=face)
    told = config.settings.notify.named(told_channels())
    found = msgspec.structs.replace(config, origin=origin, notify=told, is_attended=is_person_there())
    if not config.settings.login.issuer:
        return found
    return import_module("mainspring.app.login").with_login(found)


def told_channels() -> tuple[str, ...]:
    """The channels that the command names with `--notify`."""
    context = click.get_current_context(silent=True)
    return () if context is None else context.meta.get(_NOTIFY, ())


def newest_here(config: Config) -> str:
    """The newest session that works in this folder."""
    sessions = import_module("mainspring.app.operations.sessions")  # not for a new one
    return asyncio.run(sessions.newest_session(config, Path.cwd()))


def offer_setup() -> None:
    """Sets up what does the work when nothing is chosen and a person is there to be asked; else nothing more
    is loaded."""
    config = load_config()
    if not (config.model or config.settings.engine) and is_person_there():
        import_module("mainspring.cli.setup").set_up_if_needed(config)
