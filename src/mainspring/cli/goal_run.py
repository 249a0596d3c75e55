"""Works on a goal in this process: prints what happens, obeys signals, gives the exit code."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import aclosing
from pathlib import Path

import click

from mainspring.app.goals import GoalOptions, Pursuit, resume_goal, start_goal
from mainspring.app.operations.goals import goal_standing, take_order
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config
from mainspring.cli.streams import OutputLost
from mainspring.cli.system import say_limits
from mainspring.cli.turn import Lines, collect_garbage_again, obey_signals, say_lost_output
from mainspring.documents.json_lines import as_json
from mainspring.errors import MainspringError
from mainspring.events import GoalEnded, GoalPaused
from mainspring.secrets.screen import plain
from mainspring.settings import Config


async def pursue(given: str, session: str, options: GoalOptions, *, is_json: bool) -> int:
    say_limits()
    config = load_config()
    if session:
        opened = resume_goal(session, options, approver=approver(), config=config)
    else:
        opened = start_goal(given, options, approver=approver(), config=config)
    async with opened as pursuit:
        collect_garbage_again()
        name = pursuit.session.id
        try:
            async with asyncio.TaskGroup() as group:
                if not is_json:
                    await _say_where(pursuit, config)
                watching = group.create_task(_show(pursuit, is_json=is_json))
                working = group.create_task(pursuit.run())
                _obey_signals(pursuit, working, config)
                ended = await working
                await watching
        except BaseExceptionGroup as failed:
            if isinstance(lost := failed.exceptions[0], OutputLost):
                with say_lost_output(f"mainspring goal resume {name}"):
                    raise lost from None
            if isinstance(lost, MainspringError):
                raise lost from None
            raise
    if not is_json:
        click.echo(f"report: mainspring goal report {name}", err=True)
        if not (isinstance(ended, GoalEnded) and ended.ending == "done"):
            click.echo(f"go on: mainspring goal resume {name}{await _more(config, name, ended)}", err=True)
    return ended.exit_code if isinstance(ended, GoalEnded) else 130


async def _more(config: Config, name: str, ended: GoalEnded | GoalPaused) -> str:
    """What a goal that has used up its iterations needs to go on."""
    if not isinstance(ended, GoalEnded) or ended.ending != "iterations":
        return ""
    rules = (await goal_standing(config, name)).goal.rules
    return f" --max-iterations {2 * rules.max_iterations}"


def _obey_signals(pursuit: Pursuit, working: asyncio.Task[GoalEnded | GoalPaused], config: Config) -> None:
    """The first signal leaves the goal paused, or as another process ordered."""
    take_order(config, pursuit.session.id)  # one for a process that is gone

    def stop(number: signal.Signals) -> None:
        order = take_order(config, pursuit.session.id)
        if order:
            pursuit.wanted, pursuit.wanted_by = order.order, order.origin
        else:
            pursuit.wanted = "pause" if number == signal.SIGINT else "interrupt"
        working.cancel()

    obey_signals(stop)


async def _say_where(pursuit: Pursuit, config: Config) -> None:
    """Which goal it is, and where its instructions and its memory are."""
    name = pursuit.session.id
    standing = await goal_standing(config, name)
    goal, folder = standing.goal, Path(standing.row.workspace)
    click.echo(f"goal {name}", err=True)
    if standing.instructions:
        click.echo(plain(f"instructions: {folder / standing.instructions}"), err=True)
    click.echo(plain(f"memory: {folder / goal.memory}"), err=True)


async def _show(pursuit: Pursuit, *, is_json: bool) -> None:
    """Prints every event from here on, until the one that ends this process's work."""
    session = pursuit.session
    lines = Lines(in_goal=True)
    async with aclosing(session.subscribe(session.opened_seq, deltas=True)) as events:
        async for recorded in events:
            if not is_json:
                lines.show(recorded)
            elif recorded.seq:
                sys.stdout.buffer.write(as_json(recorded) + b"\n")
                sys.stdout.flush()
            if isinstance(recorded.event, GoalEnded | GoalPaused):
                return
