"""`approve`: answers what a session waits for, from any terminal or script, and goes on with the turn."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any, get_args

import click

from mainspring.app.operations.approve import (
    ApprovalReply,
    deliver_answer,
    prepare_answers,
    record_answers,
    waiting_session,
)
from mainspring.app.operations.daemon import wake_daemon
from mainspring.app.operations.workers import answer_queued
from mainspring.cli.config import load_config
from mainspring.cli.server_option import with_server
from mainspring.cli.turn import take_turn
from mainspring.cli.turn_options import turn_options
from mainspring.cli.wake import say_other_daemon
from mainspring.errors import UsageError
from mainspring.events import ApprovalGiven, Decision, Scope
from mainspring.secrets.screen import plain
from mainspring.settings import Config

_SAID = {"allow": "allowed", "reject": "refused", "stop": "refused, and the turn is stopped"}


@click.command("approve")
@click.argument("session", default="")
@click.argument("call", default="")
@click.option("--reject", metavar="TEXT", help="Say no, and why.")
@click.option("--stop", "is_stop", is_flag=True, help="Say no, and stop the turn.")
@click.option(
    "--scope",
    type=click.Choice(get_args(Scope)),
    default="once",
    show_default=True,
    help="What the yes applies to.",
)
@click.option("--pattern", default="", help="What to allow instead of what was offered, with --scope.")
@click.option("--for", "duration", help="How long the yes is valid, with --scope: 30m, 8h, 7d.")
@click.option("--edit", metavar="JSON", help="Run it with these arguments, or with this command, instead.")
@click.option("--say", default="", metavar="TEXT", help="Your answer to a question of the agent.")
@turn_options
@with_server("approve")
def approve_command(session: str, call: str, **options: Any) -> None:
    """Answer what SESSION waits for (CALL, or everything) and go on. Without options it is a yes.

    Without SESSION, the one session of this folder that waits for an answer.

    When another process runs the session, it gets the answer and goes on there.
    """
    reply = reply_of(options)
    config = load_config()
    code = asyncio.run(_approve(config, session, call, reply, options))
    say_other_daemon(config)
    wake_daemon(config)
    sys.exit(code)


async def _approve(
    config: Config, session: str, call: str, reply: ApprovalReply, options: dict[str, Any]
) -> int:
    session = session or await waiting_session(config, Path.cwd())
    prepared = await prepare_answers(config, session, reply, call=call)
    session = prepared.session
    if prepared.other_version:
        click.echo(plain(f"{prepared.other_version} It is given the answer all the same."), err=True)
    ours: list[ApprovalGiven] = []
    for given in prepared.answers:
        missing = prepared.missing.get(given.call, "")
        if missing:
            click.echo(plain(f"{given.call}: {missing}."), err=True)
        if owner := await deliver_answer(config, session, given):
            if missing:
                continue
            said = _SAID.get(given.decision, given.decision)
            click.echo(f"{given.call}: {said}; {owner} goes on.", err=True)
        else:
            ours.append(given)
    if not ours:
        return 0
    if not prepared.decides:
        await record_answers(config, session, ours)
        return 0
    if queue := await answer_queued(config, session, ours):
        click.echo(f"{session}: answered; a worker of the queue {queue} goes on.", err=True)
        return 0
    code = await take_turn("", session, Path(), answers=ours, **options)
    if prepared.has_goal:
        click.echo(
            f"This turn belongs to a goal. Go on with that: mainspring goal resume {session}", err=True
        )
    return code


def reply_of(options: dict[str, Any]) -> ApprovalReply:
    """The answer that the options of this command give; they are taken out."""
    names = ("reject", "is_stop", "scope", "pattern", "duration", "edit", "say")
    return _reply(**{name: options.pop(name) for name in names})


def _reply(
    *,
    reject: str | None,
    is_stop: bool,
    scope: Scope,
    pattern: str,
    duration: str | None,
    edit: str | None,
    say: str,
) -> ApprovalReply:
    given = [name for name, value in (("--reject", reject), ("--edit", edit), ("--say", say)) if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} cannot be combined.", remedy="Give one of them.")
    decision: Decision = "stop" if is_stop else "allow" if reject is None else "reject"
    return ApprovalReply(
        decision=decision,
        feedback=reject or say,
        scope=scope,
        pattern=pattern,
        lasts=duration,
        edit=edit,
        is_said=bool(say),
    )
