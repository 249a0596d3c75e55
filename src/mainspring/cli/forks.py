"""`fork`, `replay` and `compare`: the same history again, with another continuation or another program."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click
import msgspec

from mainspring import app
from mainspring.app import models as built
from mainspring.app.records import fork_session, recording
from mainspring.approvals.screen import plain
from mainspring.cli.render import as_text, money
from mainspring.cli.run import take_turn, turn_options
from mainspring.config import Config, load_config
from mainspring.errors import UsageError
from mainspring.events import (
    AssistantSaid,
    CallEnded,
    Event,
    FilesChanged,
    ModelChosen,
    NoteAdded,
    Recorded,
    SpendSettled,
    TurnEnded,
    encode,
)
from mainspring.journal.shelf import Shelf
from mainspring.journal.store import Store
from mainspring.replay import Request, replay

_SHOWN = 400


@click.command("fork")
@click.argument("session")
@click.option("--at", type=click.IntRange(min=1), help="Number of the last event to share; all if none.")
@click.option("--model", default="", help="Model to go on with.")
@click.option(
    "-C", "folder", type=click.Path(path_type=Path), help="Workspace, when it is to be another one."
)
def fork_command(session: str, at: int | None, model: str, folder: Path | None) -> None:
    """Make a new session that shares the history of SESSION, up to an event. Files stay as they are now: both
    work in the same folder, unless -C names one, and a git branch stays with the session that began it."""
    config = load_config()
    opening: list[Event] = []
    if model:
        built.build_model(model, config)
        opening.append(ModelChosen(model=model, reason="fork"))
    if folder:
        folder = app.workspace_at(folder)
        opening.append(NoteAdded(text=f"From here on the workspace is {folder}.", source="user"))
    made, shared = asyncio.run(fork_session(session, config, at=at, workspace=str(folder or "")))
    if opening:
        asyncio.run(_record(made, opening, config))
    click.echo(made)
    click.echo(f'It shares {shared} events. Go on: mainspring resume {made} "…"', err=True)


@click.command("replay")
@click.argument("session")
@click.option("--check", "is_check", is_flag=True, help="Say only what differs; the exit code is then 1.")
@click.option("--from", "from_seq", type=click.IntRange(min=1), help="Fork there, and go on live.")
@turn_options
def replay_command(session: str, from_seq: int | None, *, is_check: bool, **options: Any) -> None:
    """Run SESSION again, offline, and report the first request that would now be another."""
    if from_seq is not None:
        made, _ = asyncio.run(fork_session(session, load_config(), at=from_seq))
        sys.exit(asyncio.run(take_turn("", made, **options)))
    sys.exit(asyncio.run(_replay(session, is_quiet=is_check)))


@click.command("compare")
@click.argument("one")
@click.argument("other")
def compare_command(one: str, other: str) -> None:
    """Show where two sessions part, and what each did from there."""
    shelf = Shelf(load_config().home)
    journals = [_events(shelf, shelf.find(name)) for name in (one, other)]
    shared = _shared(*journals)
    click.echo(f"The first {shared} events are the same." if shared else "They share nothing.")
    for journal in journals:
        rest = journal[shared:]
        click.echo(plain(f"\n== {_name(journal)}: {len(rest)} events from there on"))
        first = next((text for item in rest if (text := as_text(item.event))), "")
        if first:
            click.echo(f"first     {first.splitlines()[0]}")
        for label, value in _facts(rest):
            click.echo(plain(f"{label:<9} {value}"))


async def _record(session: str, events: list[Event], config: Config) -> None:
    async with recording(session, config) as recorder:
        await recorder.record(*events)


async def _replay(session: str, *, is_quiet: bool) -> int:
    config = load_config()
    store = Store(config.home)
    reader = await store.read(await store.find(session))
    same = unknown = 0
    try:
        async for request in replay(reader, lambda name: built.build_model(name, config)):
            if request.verdict == "different":
                _print_difference(request)
                return 1
            same += request.verdict == "same"
            unknown += request.verdict == "unknown"
            if not is_quiet:
                click.echo(
                    f"{request.seq:>6} {request.spend:<10} {request.messages:>5} messages  {request.verdict}"
                )
    finally:
        await reader.close()
    if not same:
        raise UsageError("No request of this session was recorded with a hash, so none can be compared.")
    left = f"; {unknown} were recorded without a hash" if unknown else ""
    click.echo(f"{same} {'request' if same == 1 else 'requests'} would be the same{left}.", err=True)
    return 0


def _print_difference(request: Request) -> None:
    click.echo(f"{request.seq:>6} {request.spend} would be another request to {plain(request.model)}.")
    click.echo(f"       {request.messages} messages; the difference lies in the prompt or in these:")
    for message in request.news:
        text = message.decode("utf-8", "replace")
        more = f" … ({len(text):,} characters)" if len(text) > _SHOWN else ""
        click.echo(plain(f"       {text[:_SHOWN]}{more}"))


def _events(shelf: Shelf, session: str) -> list[Recorded]:
    file = shelf.file(session)
    try:
        found: list[Recorded] = []
        while page := file.read(after=found[-1].seq if found else 0):
            found += page
        return found
    finally:
        file.close()


def _shared(one: list[Recorded], other: list[Recorded]) -> int:
    """How many events are the same from the first on; the first names its session and may differ."""
    count = 0
    for mine, yours in zip(one, other, strict=False):
        is_start = mine.seq == 1 and mine.kind == yours.kind == "SessionStarted"
        if not is_start and (mine.time_us, encode(mine.event)) != (yours.time_us, encode(yours.event)):
            break
        count += 1
    return count if count > 1 else 0


def _name(journal: list[Recorded]) -> str:
    return msgspec.to_builtins(journal[0].event).get("session", "?") if journal else "an empty session"


def _facts(events: list[Recorded]) -> list[tuple[str, str]]:
    models, outcomes, files = dict[str, None](), Counter[str](), dict[str, None]()
    steps = tokens = 0
    usd = 0.0
    said, ended = "", ""
    for item in events:
        match item.event:
            case ModelChosen(model=model):
                models[model] = None
            case AssistantSaid() as reply:
                steps += 1
                said = reply.text.strip() or said
            case CallEnded(outcome=outcome):
                outcomes[outcome] += 1
            case SpendSettled(usage=usage, usd=cost):
                tokens, usd = tokens + usage.total_tokens, usd + cost
            case FilesChanged(changes=changes):
                files |= dict.fromkeys(change.path for change in changes)
            case TurnEnded(ending=ending):
                ended = ending
            case _:
                pass
    calls = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    facts = [
        ("models", ", ".join(models)),
        ("steps", f"{steps}, {tokens:,} tokens, {money(usd)}"),
        ("calls", calls),
        ("files", ", ".join(files)),
        ("ending", ended),
        ("said", said[:_SHOWN]),
    ]
    return [(label, value) for label, value in facts if value]
