"""`approve`: answers what a session waits for, from any terminal or script, and goes on with the turn."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any, get_args

import click

from mainspring.approvals.answers import Requests
from mainspring.approvals.inbox import Inbox, is_pending, refusal_of, withdraw
from mainspring.approvals.screen import plain
from mainspring.cli.answers import edited, lasting
from mainspring.cli.run import take_turn, turn_options
from mainspring.cli.wake import wake_daemon
from mainspring.config import load_config
from mainspring.errors import JournalOwned, UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision, Scope
from mainspring.journal.owner import owner_of
from mainspring.journal.store import Store
from mainspring.state import load_state

_TAKEN_WITHIN_S = 10.0
_LOOK_S = 0.05
_SAID = {"allow": "allowed", "reject": "refused", "stop": "refused, and the turn is stopped"}


@click.command("approve")
@click.argument("session")
@click.argument("call", default="")
@click.option("--reject", metavar="TEXT", help="Say no, and why.")
@click.option("--stop", "is_stop", is_flag=True, help="Say no, and stop the turn.")
@click.option(
    "--scope", type=click.Choice(get_args(Scope)), default="once", show_default=True, help="How far."
)
@click.option("--pattern", default="", help="What to allow instead of what was offered, with --scope.")
@click.option("--for", "duration", help="How long the yes holds, with --scope: 30m, 8h, 7d.")
@click.option("--edit", metavar="JSON", help="Run it with these arguments, or with this command, instead.")
@click.option("--say", default="", metavar="TEXT", help="Your answer to a question of the agent.")
@turn_options
def approve_command(session: str, call: str, **options: Any) -> None:
    """Answer what SESSION waits for (CALL, or everything) and go on. Without options it is a yes.

    When another process runs the session, it gets the answer and goes on there.
    """
    names = ("reject", "is_stop", "scope", "pattern", "duration", "edit", "say")
    answer = {name: options.pop(name) for name in names}
    code = asyncio.run(_approve(session, call, answer, options))
    wake_daemon(load_config().home)
    sys.exit(code)


async def _approve(session: str, call: str, answer: dict[str, Any], options: dict[str, Any]) -> int:
    store = Store(load_config().home)
    session = store.find(session)
    requests, has_goal = await _requests(store, session)
    asked = [question for name, question in requests.open.items() if name.startswith(call)]
    if not asked:
        why = requests.closed.get(call, "nothing is asked")
        raise UsageError(
            f"Session {session} does not wait for an answer{f' to {call}' if call else ''}: {why}.",
            remedy=f"`mainspring show {session}` tells what happened.",
        )
    answers = [_given(question, requests, **answer) for question in asked]
    folder = store.directory(session)
    ours = [given for given in answers if not await _is_taken(given, folder)]
    if not ours:
        return 0
    code = await take_turn("", session, Path(), answers=ours, **options)
    if has_goal:
        click.echo(
            f"This turn belongs to a goal. Go on with that: mainspring goal resume {session}", err=True
        )
    return code


async def _is_taken(given: ApprovalGiven, folder: Path) -> bool:
    """Gives an answer to the process that runs the session; False when there is none, or it ends without
    having taken it."""
    running = owner_of(folder)
    if running is None or not running.is_alive:
        return False
    owner = f"process {running.pid} on {running.host}"
    if running.other_version:
        click.echo(plain(f"{running.other_version} It is given the answer all the same."), err=True)
    path = Inbox(folder).leave(given)
    deadline = time.monotonic() + _TAKEN_WITHIN_S
    while is_pending(path):
        await asyncio.sleep(_LOOK_S)
        running = owner_of(folder)
        if (running is None or not running.is_alive) and withdraw(path):
            return False
        if time.monotonic() > deadline + _TAKEN_WITHIN_S:
            raise JournalOwned(
                f"The answer was taken by {owner}, but it is not on record yet.",
                remedy="`mainspring show` tells what became of it.",
            )
        if time.monotonic() > deadline and withdraw(path):
            raise JournalOwned(
                f"The answer was not taken: {owner} runs the session and does not wait for {given.call}.",
                remedy="Answer there, or stop it first; then answer from here again.",
            )
    if why := refusal_of(path):
        raise UsageError(f"The call {given.call} cannot be answered so: {why}.")
    click.echo(f"{given.call}: {_SAID.get(given.decision, given.decision)}; {owner} goes on.", err=True)
    return True


async def _requests(store: Store, session: str) -> tuple[Requests, bool]:
    """What is asked, and whether that is for a goal."""
    reader = await store.read(session)
    try:
        state = await load_state(reader)
        return state.requests, state.has_goal
    finally:
        await reader.close()


def _given(
    question: ApprovalAsked,
    requests: Requests,
    *,
    reject: str | None,
    is_stop: bool,
    scope: Scope,
    pattern: str,
    duration: str | None,
    edit: str | None,
    say: str,
) -> ApprovalGiven:
    if scope == "once" and (pattern or duration):
        raise UsageError("--pattern and --for need a --scope that lasts.")
    if edit is not None and len(requests.open) > 1:
        raise UsageError("--edit is for one call: name it.", remedy=f"They are {', '.join(requests.open)}.")
    decision: Decision = "stop" if is_stop else "allow" if reject is None else "reject"
    given = ApprovalGiven(
        call=question.call,
        arguments_sha256=question.arguments_sha256,
        decision=decision,
        feedback=reject or say,
        edited_arguments=None if edit is None else edited(question, edit),
        scope=scope,
        pattern=pattern,
        expires_us=None if duration is None else lasting(duration, now_us=time.time_ns() // 1000),
    )
    if why := requests.refusal(given):
        raise UsageError(f"The call {question.call} cannot be answered so: {why}.")
    return given
