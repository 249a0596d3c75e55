"""`sessions`, `show` and `tail`: what is in the journals, without owning them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module

import click
import msgspec

from mainspring.app.operations.sessions import (
    Follower,
    SessionRow,
    list_sessions,
    read_events,
    session_bytes,
    with_children,
)
from mainspring.cli.config import load_config_or_defaults, newest_here
from mainspring.cli.json_output import json_line
from mainspring.cli.server_option import with_server
from mainspring.documents.figures import money, when
from mainspring.documents.json_lines import as_json
from mainspring.documents.lines import as_text
from mainspring.events import Origin, Recorded, SpendReserved, SpendSettled
from mainspring.events.counts import readable_bytes
from mainspring.secrets.screen import plain

_LINE = 60
_SUBCOMMANDS = {
    "delete": ("disk", "delete_command"),
    "open-tasks": ("open_tasks", "open_tasks_command"),
}


class _Sessions(click.Group):
    """A list does not wait for what deletes."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        module, name = _SUBCOMMANDS.get(cmd_name, ("", ""))
        return getattr(import_module(f"mainspring.cli.{module}"), name) if module else None


@click.group("sessions", cls=_Sessions, invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one session per line as JSON.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="How many to list.")
@click.option("--all", "is_all", is_flag=True, help="List all of them.")
@click.option("--sizes", "is_sized", is_flag=True, help="Show the disk space of each.")
@click.pass_context
@with_server("sessions")
def sessions_command(
    context: click.Context, *, is_json: bool, limit: int, is_all: bool, is_sized: bool
) -> None:
    """List sessions, the most recent first."""
    if context.invoked_subcommand is not None:
        return
    config = load_config_or_defaults()
    rows = asyncio.run(list_sessions(config))
    shown = rows if is_all else rows[:limit]
    sizes = asyncio.run(session_bytes(config, [row.id for row in shown])) if is_sized else {}
    print_rows(rows, shown, is_json=is_json, sizes=sizes)


def print_rows(
    rows: Sequence[SessionRow],
    shown: Sequence[SessionRow],
    *,
    is_json: bool,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Those that are `shown` of all `rows`, with the disk space of each if that is given."""
    is_sized, sizes = bool(sizes), sizes or {}
    listed = {row.id for row in shown}
    for row in shown if is_json else with_children(shown):
        if is_json:
            size = {"bytes": sizes[row.id]} if is_sized else {}
            click.echo(json_line({**msgspec.to_builtins(row), **size}))
            continue
        line = plain(row.last_line or row.title)[:_LINE]
        size = f"  {readable_bytes(sizes[row.id]):>9}" if is_sized else ""
        where = plain(f"  └ {row.agent}" if row.agent and row.parent in listed else row.workspace)
        click.echo(
            f"{row.id}  {when(row.updated_us)}  {row.state:<11} {money(row.cost_usd):>8}{size}"
            f"  {where}  {line}"
        )
    if not is_json and len(rows) > len(shown):
        click.echo(f"({len(rows) - len(shown)} older ones: --all)", err=True)
    if not rows and not is_json:
        click.echo('No sessions yet. Start one: mainspring run "…"', err=True)


@click.command("show")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON.")
@click.option("--all", "is_whole", is_flag=True, help="Print outputs in full length.")
@with_server("show")
def show_command(session: str, *, is_json: bool, is_whole: bool) -> None:
    """Show what happened in SESSION (by default the newest of this folder)."""
    config = load_config_or_defaults()
    asyncio.run(
        _print_all(read_events(config, session or newest_here(config)), is_json=is_json, is_whole=is_whole)
    )


@click.command("tail")
@click.argument("session", default="")
@click.option("--json", "is_json", is_flag=True, help="Print one event per line as JSON.")
@click.option("--after", type=click.IntRange(min=0), default=0, help="Begin after this event number.")
@click.option("--follow/--no-follow", default=True, help="Continue until the run has ended.")
def tail_command(session: str, *, is_json: bool, after: int, follow: bool) -> None:
    """Watch SESSION (by default the newest of this folder) while another process runs it; ends when that
    process is gone, or when its turn or its goal is over."""
    config = load_config_or_defaults()
    follower = Follower(config, session or newest_here(config), after=after)
    asyncio.run(_print_all(follower.events(is_followed=follow), is_json=is_json, is_whole=False))
    if follow and not follower.has_ended:
        resume = "goal resume" if follower.has_goal else "resume"
        click.echo(
            f"No process runs this session now. Continue it: mainspring {resume} {follower.session}", err=True
        )


async def _print_all(events: AsyncGenerator[Recorded], *, is_json: bool, is_whole: bool) -> None:
    last: Origin | None = None
    async with aclosing(events):
        async for recorded in events:
            origin: Origin | None = getattr(recorded.event, "origin", None)
            if origin and last and origin != last and not is_json:
                click.echo(plain(f"{'':15} {_named(origin)}"))
            last = origin or last
            print_event(recorded, is_json=is_json, is_whole=is_whole)


def _named(origin: Origin) -> str:
    """Who gives commands from here on."""
    where = f" on {origin.device}" if origin.device else ""
    token = f", token {origin.token}" if origin.token else ""
    program = f" ({origin.program})" if origin.program else ""
    return f"by {origin.user or 'unknown'}{where}{token}, through {origin.face or 'unknown'}{program}:"


def print_event(recorded: Recorded, *, is_json: bool, is_whole: bool) -> None:
    if is_json:
        sys.stdout.buffer.write(as_json(recorded) + b"\n")
        sys.stdout.flush()
        return
    match recorded.event:
        case SpendSettled(usage=usage, usd=usd) if usage.input_tokens:
            share = f"{usage.cached_tokens / usage.input_tokens:.0%} cached"
            text = f"  ({usage.input_tokens:,} in, {share}, {usage.output_tokens:,} out, {money(usd)})"
            text = "\n".join(filter(None, (text, as_text(recorded.event))))
        case SpendReserved():
            text = ""
        case event:
            text = as_text(event, whole=is_whole)
    if text:
        margin = "\n" + " " * 16
        click.echo(f"{recorded.seq:>6} {when(recorded.time_us)[11:19]} {text.replace(chr(10), margin)}")
