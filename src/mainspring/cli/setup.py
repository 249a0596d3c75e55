"""`setup`: chooses what does the work, on a plain terminal; and the offer to do so when nothing is chosen."""

from __future__ import annotations

import getpass
import shutil
import sys
from textwrap import TextWrapper

import click

from mainspring.app.operations.models import DEFAULT_MODEL
from mainspring.app.operations.setup import needs_setup, run_setup
from mainspring.cli.config import load_config
from mainspring.cli.models import pull_command
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain
from mainspring.settings import Config


class PlainDialog:
    """Questions on standard error, answers from the keyboard."""

    def say(self, text: str) -> None:
        columns = shutil.get_terminal_size().columns
        for line in plain(text).split("\n"):
            lines = TextWrapper(
                columns, subsequent_indent=_indent(line), break_long_words=False, break_on_hyphens=False
            ).wrap(line)
            click.echo("\n".join(lines), err=True)

    def ask(self, question: str, *, usual: str = "") -> str:
        return str(click.prompt(plain(question), default=usual, show_default=bool(usual), err=True)).strip()

    def ask_secret(self, question: str) -> str:
        return getpass.getpass(plain(question), stream=sys.stderr)

    def fetch_local_model(self) -> None:
        click.get_current_context().invoke(pull_command, name=DEFAULT_MODEL)


def _indent(line: str) -> str:
    """As far in as the words behind the number of a choice."""
    number, _, words = line.strip().partition("  ")
    return " " * line.index(words) if number.isdecimal() else ""


@click.command("setup")
def setup_command() -> None:
    """Choose what does the work: a provider with your key, a server on this machine, another agent that is
    installed, or a small model here."""
    if not is_person_there():
        raise UsageError(
            "The set-up asks questions, so it needs a terminal.",
            remedy="Use mainspring keys add PROVIDER --stdin, and mainspring config set model NAME.",
        )
    _run(load_config())


def set_up_if_needed(config: Config) -> None:
    """Asks for what is missing, if anything is."""
    if needs_setup(config):
        _run(config)


def _run(config: Config) -> None:
    try:
        run_setup(config, PlainDialog())
    except (click.Abort, KeyboardInterrupt):
        click.echo(err=True)  # what comes next begins on a line of its own
        raise
