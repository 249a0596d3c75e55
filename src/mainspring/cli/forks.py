"""`fork`, `replay` and `compare`: the same history again, with another continuation or another program."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations.forks import ReplayedRequest, SessionSide, compare, fork, replay_session
from mainspring.app.workspaces import AllowHome
from mainspring.cli.allow_home import ALLOW_HOME
from mainspring.cli.config import load_config
from mainspring.cli.made_forks import tell_fork
from mainspring.cli.turn import take_turn
from mainspring.cli.turn_options import turn_options
from mainspring.documents.figures import money
from mainspring.documents.lines import as_text
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_SHOWN = 400


@click.command("fork")
@click.argument("session")
@click.option("--at", type=click.IntRange(min=1), help="Number of the last event to share; all if none.")
@click.option("--model", default="", help="Model of the new session.")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path), help="Workspace of the new session, if another."
)
@click.option("--repair", "is_repaired", is_flag=True, help="Leave out events that cannot be read.")
@ALLOW_HOME
def fork_command(
    session: str,
    at: int | None,
    model: str,
    folder: Path | None,
    allow_home: AllowHome,
    *,
    is_repaired: bool,
) -> None:
    """Make a new session that shares the history of SESSION, up to an event. Files stay as they are now: both
    work in the same folder, unless -C names one, and a git branch stays with the session that began it."""
    making = fork(
        load_config(),
        session,
        at=at,
        model=model,
        folder=folder,
        allow_home=allow_home,
        is_repaired=is_repaired,
    )
    tell_fork(asyncio.run(making))


@click.command("replay")
@click.argument("session")
@click.option("--check", "is_check", is_flag=True, help="Say only what differs; the exit code is then 1.")
@click.option("--from", "from_seq", type=click.IntRange(min=1), help="Fork there, and go on live.")
@turn_options
def replay_command(session: str, from_seq: int | None, *, is_check: bool, **options: Any) -> None:
    """Run SESSION again, offline, and report the first model request that would differ now."""
    if from_seq is not None:
        made = asyncio.run(fork(load_config(), session, at=from_seq))
        sys.exit(asyncio.run(take_turn("", made.session, **options)))
    sys.exit(asyncio.run(_replay(session, is_quiet=is_check)))


@click.command("compare")
@click.argument("one")
@click.argument("other")
def compare_command(one: str, other: str) -> None:
    """Show where two sessions begin to differ, and what each did after that."""
    found = asyncio.run(compare(load_config(), one, other))
    shared = found.shared_events
    click.echo(f"They share the first {plural(shared, 'event')}." if shared else "They share nothing.")
    for side in found.sides:
        click.echo(plain(f"\n== {side.session}: {plural(len(side.events), 'event')} from there on"))
        first = next((text for item in side.events if (text := as_text(item.event))), "")
        if first:
            click.echo(f"first     {first.splitlines()[0]}")
        for label, value in _facts(side):
            click.echo(plain(f"{label:<9} {value}"))


async def _replay(session: str, *, is_quiet: bool) -> int:
    same = unknown = 0
    async with aclosing(replay_session(load_config(), session)) as requests:
        async for request in requests:
            if request.verdict == "different":
                _print_difference(request)
                return 1
            same += request.verdict == "same"
            unknown += request.verdict == "unknown"
            if not is_quiet:
                click.echo(
                    f"{request.seq:>6} {request.spend:<10} {request.messages:>5} messages  {request.verdict}"
                )
    left = f"; {unknown} were recorded without a hash" if unknown else ""
    click.echo(f"{plural(same, 'request')} would be the same{left}.", err=True)
    return 0


def _print_difference(request: ReplayedRequest) -> None:
    click.echo(f"{request.seq:>6} {request.spend} would be another request to {plain(request.model)}.")
    click.echo(
        f"       {plural(request.messages, 'message')}; the difference lies in the prompt or in these:"
    )
    for message in request.news:
        text = message.decode("utf-8", "replace")
        more = f" … ({len(text):,} characters)" if len(text) > _SHOWN else ""
        click.echo(plain(f"       {text[:_SHOWN]}{more}"))


def _facts(side: SessionSide) -> list[tuple[str, str]]:
    facts = [
        ("models", ", ".join(side.models)),
        ("steps", f"{side.steps}, {side.tokens:,} tokens, {money(side.usd)}"),
        ("calls", ", ".join(f"{count} {outcome}" for outcome, count in sorted(side.outcomes.items()))),
        ("files", ", ".join(side.files)),
        ("ending", side.ending),
        ("said", side.said[:_SHOWN]),
    ]
    return [(label, value) for label, value in facts if value]
