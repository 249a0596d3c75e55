"""`completion`: a script for a shell that completes commands, options, sessions, models, providers and
settings. The words come from this program, which loads only the command that is being typed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable
from importlib import import_module

import click
from click.shell_completion import CompletionItem, get_completion_class

from mainspring.secrets.screen import plain
from mainspring.settings import Config, load_config

_PROGRAM = "mainspring"
_VARIABLE = "_MAINSPRING_COMPLETE"
_MOST = 200
_FILES = {
    "bash": "~/.local/share/bash-completion/completions/mainspring",
    "zsh": "~/.zfunc/_mainspring   # and in ~/.zshrc, before compinit: fpath+=~/.zfunc",
    "fish": "~/.config/fish/completions/mainspring.fish",
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(_FILES)))
def completion_command(shell: str) -> None:
    """Print a script for SHELL that completes commands, options, sessions, models and settings."""
    found = get_completion_class(shell)
    if found is None:  # click knows all three
        raise click.UsageError(f"There is no completion for {shell}.")
    complete = found(click.get_current_context().find_root().command, {}, _PROGRAM, _VARIABLE)
    how = f"mainspring completion {shell} > {_FILES[shell]}"
    script = complete.source_template % complete.source_vars()
    head = "#compdef mainspring\n" if shell == "zsh" else ""
    click.echo(f"{head}# Install: {how}\n{script.removeprefix('#compdef mainspring').lstrip()}")
    if sys.stdout.isatty():
        click.echo(f"Install it: {how}", err=True)


def prepare(command: click.Command) -> click.Command:
    """Gives the arguments and options of a command what completes them, also in its subcommands."""
    for parameter in command.params:
        names = _NAMES.get(parameter.name or "")
        if names is not None and not isinstance(parameter.type, click.Choice):
            parameter._custom_shell_complete = _completer(names)
    if isinstance(command, click.Group):
        inner = command.get_command

        def get_command(ctx: click.Context, cmd_name: str) -> click.Command | None:
            found = inner(ctx, cmd_name)
            return prepare(found) if found else None

        command.get_command = get_command
    return command


def _completer(
    names: Callable[[Config], Iterable[tuple[str, str]]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001
        config = load_config(is_config_optional=True)
        found = ((name, about) for name, about in names(config) if name.startswith(incomplete))
        items = [CompletionItem(name, help=plain(about)[:60]) for name, about in found]
        return items[:_MOST]

    return complete


def _sessions(config: Config) -> Iterable[tuple[str, str]]:
    operations = import_module("mainspring.app.operations.sessions")
    return [(row.id, row.title) for row in asyncio.run(operations.list_sessions(config))]


def _models(config: Config) -> Iterable[tuple[str, str]]:
    names: Iterable[str] = import_module("mainspring.app.model_names").all_names(config)
    known = dict.fromkeys(filter(None, (config.model, *config.fallback, "local", *names)))
    return [(name, "") for name in known]


def _providers(config: Config) -> Iterable[tuple[str, str]]:
    keys = import_module("mainspring.app.operations.keys")
    return [(each.name, each.title) for each in keys.list_keys(config)]


def _settings(config: Config) -> Iterable[tuple[str, str]]:
    return [(name, "") for name in import_module("mainspring.app.operations.settings").setting_names(config)]


_NAMES: dict[str, Callable[[Config], Iterable[tuple[str, str]]]] = {
    "session": _sessions,
    "sessions": _sessions,
    "model": _models,
    "models": _models,
    "fallback": _models,
    "provider": _providers,
    "key": _settings,
}
