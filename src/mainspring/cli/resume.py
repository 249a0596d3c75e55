"""`resume` and `retry`: what goes on with a session that was there before."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

import click

from mainspring.cli.blocking import wait_for
from mainspring.cli.config import load_config, newest_here
from mainspring.cli.piped import with_piped
from mainspring.cli.turn_options import turn_options

_TURN = "mainspring.cli.turn"


@click.command("retry")
@click.argument("session", default="")
@turn_options
def retry_command(session: str, **options: Any) -> None:
    """Take back the last turn of SESSION (by default the newest of this folder), with what it did to files,
    and ask the same again: with another --model or --effort, if given."""
    session = session or newest_here(load_config())
    turn = import_module(_TURN)
    sys.exit(wait_for(turn.take_turn("", session, is_retry=True, **options)))


@click.command("resume")
@click.argument("session", default="")
@click.argument("text", default="")
@turn_options
def resume_command(session: str, text: str, **options: Any) -> None:
    """Continue SESSION (by default the newest of this folder), and tell it TEXT if given; `-` is what is
    piped in."""
    session = session or newest_here(load_config())
    text = with_piped(text) if text == "-" else text
    sessions = import_module("mainspring.app.operations.sessions")
    if not text and asyncio.run(sessions.has_open_tasks(load_config(), session)):
        import_module("mainspring.cli.tasks").go_on(session, click.get_current_context())
    if not text and asyncio.run(sessions.has_open_fix(load_config(), session)):
        import_module("mainspring.cli.fix").go_on(session, click.get_current_context())
    turn = import_module(_TURN)
    sys.exit(wait_for(turn.take_turn(text, session, **options)))
