"""Every command of the command line, on its way from the table of commands to the function that does it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import wraps
from typing import Any

import click
from click.core import ParameterSource

from mainspring.app.dispatch import CommandCall, begin_command, local_permission, log_refusal
from mainspring.cli.blocking import LOOP
from mainspring.cli.config import load_config
from mainspring.errors import AccessRefused

_LOGGED = "mainspring.is_logged"
_SESSION = "session"
_SILENT = frozenset({"completion", "schema"})
"""What shells and programs call for words of ours, before anything is set up."""


def logged(command: click.Command, name: str) -> click.Command:
    """The command with all below it, each logged when it is called; itself, if that was done before."""
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            logged(each, f"{name} {below}")
    if command.callback is not None and not hasattr(command.callback, "logged_as") and name not in _SILENT:
        command.callback = _wrapped(command.callback, name)
    return command


def _wrapped(callback: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(callback)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context()
        if context.invoked_subcommand is not None or context.meta.get(_LOGGED):
            return callback(*args, **kwargs)
        context.meta[_LOGGED] = True
        config = load_config(is_config_optional=True)
        call = _call(context, name, local_permission(name))
        # The command goes on in this loop: ending it and its threads takes longer than the log does.
        with asyncio.Runner() as runner:
            runner.run(begin_command(config, call))
            context.meta[LOOP] = runner
            try:
                return callback(*args, **kwargs)
            except AccessRefused as error:
                runner.run(log_refusal(config, call, error))
                raise

    run.logged_as = name  # pyright: ignore[reportAttributeAccessIssue] - so that it is not wrapped twice
    return run


def _call(context: click.Context, name: str, permission: Any) -> CommandCall:
    """What was given, without what stayed at its default."""
    given = {
        key: value
        for key, value in context.params.items()
        if context.get_parameter_source(key) is not ParameterSource.DEFAULT and value not in (None, ())
    }
    session = given.pop(_SESSION, "")
    return CommandCall(
        operation=name,
        permission=permission,
        session=session if isinstance(session, str) else "",
        folder=_folder(context.params),
        arguments=given,
    )


def _folder(given: dict[str, Any]) -> str:
    """Where a command works."""
    chosen = given.get("folder") or given.get("workspace")
    try:
        return os.path.realpath(chosen if isinstance(chosen, str | os.PathLike) else os.curdir)
    except FileNotFoundError:  # the folder we are in was removed
        return ""
