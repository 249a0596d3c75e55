"""Commands with `--server URL`: sessions of another machine, through its `mainspring serve`.

The address is given once as that machine printed it, with `#token=…` or `#pair=…` behind it; the token is
kept privately, so that later the address alone will do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import click
from click.core import ParameterSource

from mainspring.app.operations.servers import keep_token, known_token
from mainspring.cli.approve import reply_of
from mainspring.cli.config import load_config, told_channels
from mainspring.cli.messages import echo_delivery
from mainspring.cli.piped import with_piped
from mainspring.cli.sessions import print_event, print_rows
from mainspring.cli.turn import Lines, exit_code
from mainspring.client import Client
from mainspring.documents.json_lines import as_json
from mainspring.errors import UsageError
from mainspring.events import TurnEnded
from mainspring.system import host_name

_T = TypeVar("_T")
_PASSED_ON = (
    "engine",
    "effort",
    "profile",
    "mode",
    "max_steps",
    "max_tokens",
    "max_cost_usd",
    "max_cost_usd_today",
    "max_calls",
    "allow_unpriced",
)
_USED = frozenset(
    (
        *_PASSED_ON,
        "notify",
        "server",
        "task",
        "folder",
        "models",
        "fallback",
        "timeout",
        "is_branched",
        "is_json",
        "is_quiet",
    )
)


def _run(work: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(work)


async def _client(server: str) -> Client:
    config, parts = load_config(), urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{server} is no address.", remedy="Write it as `mainspring serve` prints it.")
    address, given = f"{parts.scheme}://{parts.netloc}", parse_qs(parts.fragment)
    token = next(iter(given.get("token", ())), "")
    if code := next(iter(given.get("pair", ())), ""):
        token = await Client(address, "", environment=config.environment).pair(code, host_name())
    if token:
        keep_token(config, address, token)
    return Client(address, token or known_token(config, address), environment=config.environment)


def sessions(server: str, *, is_json: bool, limit: int, is_all: bool, is_sized: bool, **_: Any) -> None:
    if is_sized:
        raise UsageError("--sizes is for this machine.", remedy="Leave out --server.")

    async def work() -> None:
        rows = await (await _client(server)).sessions(limit=1_000_000)
        print_rows(rows, rows if is_all else rows[:limit], is_json=is_json)

    _run(work())


def show(server: str, *, session: str, is_json: bool, is_whole: bool) -> None:
    async def work() -> None:
        client = await _client(server)
        async with aclosing(client.events(_named(session))) as events:
            async for recorded in events:
                print_event(recorded, is_json=is_json, is_whole=is_whole)

    _run(work())


def say(server: str, *, session: str, text: str) -> None:
    async def work() -> None:
        echo_delivery(await (await _client(server)).say(session, text), "said")

    _run(work())


def stop(server: str, *, session: str, handle: str) -> None:
    if handle:
        raise UsageError("A background process is ended on its own machine.", remedy="Leave out --server.")

    async def work() -> None:
        done = await (await _client(server)).stop(session)
        click.echo(f"stopped: {done.owner}", err=True)

    _run(work())


def approve(server: str, *, session: str, call: str, **options: Any) -> None:
    async def work() -> None:
        given = await (await _client(server)).answer(_named(session), reply_of(options), call=call)
        for each in given:
            click.echo(f"{each.call}: {each.decision}", err=True)

    _run(work())


def run(server: str, *, task: str, folder: Path, is_json: bool, is_quiet: bool, **options: Any) -> None:
    """The folder is one of that machine, so it is given in full."""
    _refuse_others()
    if not folder.is_absolute():
        raise UsageError("With --server, -C names the folder on that machine.", remedy="Give -C /its/path.")
    if not (task := with_piped(task.strip())):
        raise UsageError("The task is empty.", remedy='Say what to do: mainspring run "make the tests pass".')
    models = options["models"]
    given = {
        **{name: options[name] for name in _PASSED_ON if options.get(name)},
        "model": next(iter(models), ""),
        "fallback": (*models[1:], *options["fallback"]),
        "timeout_s": options["timeout"],
        "branch": options["is_branched"],
        "notify": told_channels(),
    }

    async def work() -> int:
        client = await _client(server)
        session = await client.start(task, workspace=str(folder), **given)
        return await _watch(client, session, is_json=is_json, is_quiet=is_quiet)

    sys.exit(_run(work()))


def _refuse_others() -> None:
    """An option that the other machine is not told would be dropped without a word."""
    context = click.get_current_context()
    for param in context.command.params:
        is_given = context.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if is_given and param.name not in _USED:
            raise UsageError(
                f"{param.opts[0]} is not possible with --server.",
                remedy="Leave it out, or run mainspring on that machine.",
            )


async def _watch(client: Client, session: str, *, is_json: bool, is_quiet: bool) -> int:
    lines, code = Lines(is_alone=is_quiet or not sys.stdout.isatty(), is_quiet=is_quiet), 0
    if not is_quiet and not is_json:
        click.echo(f"session {session}", err=True)
    async with aclosing(client.follow(session)) as events:
        async for recorded in events:
            if is_json and recorded.seq:
                click.echo(as_json(recorded))
            elif not is_json:
                lines.show(recorded)
            code = exit_code(recorded.event, code)
            if isinstance(recorded.event, TurnEnded):
                break
    lines.end()
    return code


def _named(session: str) -> str:
    if not session:
        raise UsageError(
            "With --server, name the session.", remedy="`mainspring sessions --server URL` lists them."
        )
    return session
