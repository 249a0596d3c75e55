"""`mcp`: the servers whose tools agents can use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import cast

import click

from mainspring.app.operations.mcp_login import log_in, log_out
from mainspring.app.operations.mcp_servers import (
    McpRow,
    OtherProgram,
    add_known_server,
    add_server,
    import_servers,
    offered_tools,
    pairs,
    remove_server,
    rows,
    test_server,
)
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.cli.mcp_serve import mcp_serve_command
from mainspring.cli.options import Amount
from mainspring.cli.streams import is_person_there
from mainspring.errors import UsageError
from mainspring.mcp.settings import McpServerSettings
from mainspring.secrets.screen import plain

_folder = click.option(
    "-C", "folder", type=click.Path(path_type=Path, exists=True), default=Path(), help="The workspace."
)
_project = click.option("--project", "is_project", is_flag=True, help="In .mcp.json of the workspace.")


@click.group("mcp")
def mcp_command() -> None:
    """MCP servers: programs whose tools agents can use."""


mcp_command.add_command(mcp_serve_command)


@mcp_command.command("list")
@_folder
@click.option("--json", "is_json", is_flag=True, help="Print one server per line as JSON.")
def list_command(folder: Path, *, is_json: bool) -> None:
    """List the servers for work in this folder, and how each stands."""
    found, problem = rows(load_config_or_defaults(), folder.resolve())
    for row in found:
        click.echo(json_line(row) if is_json else plain(_line(row)))
    if problem:
        raise problem
    if not found and not is_json:
        click.echo("No MCP servers. Add one: mainspring mcp add NAME -- COMMAND ARGS", err=True)


@mcp_command.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("target", nargs=-1)
@click.option(
    "--transport", type=click.Choice(("stdio", "http", "sse")), help="By default stdio, or http for a URL."
)
@click.option("--env", "-e", "env", multiple=True, metavar="NAME=VALUE", help="A variable that it gets.")
@click.option("--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of each request.")
@click.option("--client-id", default="", help="Id of a client that you registered for its login (OAuth).")
@click.option("--client-secret", default="", help="The secret of that client; '${VAR}' keeps it elsewhere.")
@click.option("--timeout-s", type=Amount(min=0.001), help="Maximum duration of a call.")
@click.option("--no-network", is_flag=True, help="A command without network: its tools are contained.")
@click.option("--writable", multiple=True, help="A folder outside the workspace that it may write.")
@click.option("--always-load", is_flag=True, help="Show its tools in every request, however many.")
@_project
@_folder
def add_command(
    name: str,
    target: tuple[str, ...],
    transport: str | None,
    env: tuple[str, ...],
    headers: tuple[str, ...],
    client_id: str,
    client_secret: str,
    timeout_s: float | None,
    writable: tuple[str, ...],
    folder: Path,
    *,
    no_network: bool,
    always_load: bool,
    is_project: bool,
) -> None:
    """Add the server NAME: a URL, or after -- a command with its arguments; `playwright`, a browser, by its
    name alone."""
    config, workspace = load_config(), folder.resolve()
    if not target:
        if transport or env or headers or client_id or client_secret or no_network or writable or is_project:
            raise UsageError(f"{name} alone takes no other options.", remedy="Give an address or a command.")
        add_known_server(config, name, workspace, always_load=always_load)
        click.echo(_added(name))
        return
    is_url = len(target) == 1 and target[0].startswith(("http://", "https://"))
    given = {"url": target[0]} if is_url else {"command": target[0], "args": target[1:]}
    if is_project and (no_network or writable or client_id or client_secret):
        raise UsageError("--no-network, --writable and --client-id are settings of yours, not of a project.")
    settings = McpServerSettings(
        **given,  # pyright: ignore[reportArgumentType]
        transport=transport or "",  # pyright: ignore[reportArgumentType]
        env=pairs(env, "variable"),
        headers=pairs(headers, "header"),
        client_id=client_id,
        client_secret=client_secret,
        network=not no_network,
        writable=writable,
        always_load=always_load,
        **({"timeout_s": timeout_s} if timeout_s else {}),
    )
    add_server(config, name, settings, workspace=workspace if is_project else None)
    click.echo(_added(name))


def _added(name: str) -> str:
    return f"added {name}. Try it: mainspring mcp test {name}"


@mcp_command.command("remove")
@click.argument("name")
@_project
@_folder
def remove_command(name: str, folder: Path, *, is_project: bool) -> None:
    """Remove the server NAME from the settings."""
    remove_server(load_config(), name, workspace=folder.resolve() if is_project else None)
    click.echo(f"removed {name}")


@mcp_command.command("test")
@click.argument("name")
@_folder
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
def test_command(name: str, folder: Path, *, is_json: bool) -> None:
    """Start the server NAME, ask what it offers, and end it."""
    done = asyncio.run(test_server(load_config(), folder.resolve(), name))
    if is_json:
        click.echo(json_line(done))
        return
    who = " ".join(filter(None, (done.name, done.version))) or "a server without a name"
    click.echo(plain(f"{name}: {who}, protocol {done.protocol}, answered in {done.duration_s:.1f} s"))
    click.echo(f"{done.tools} tools, {done.prompts} prompts, {done.resources} resources")


@mcp_command.command("login")
@click.argument("name")
@click.option("--browser/--no-browser", "is_browser", default=True, help="Open the address in a browser.")
@_folder
def login_command(name: str, folder: Path, *, is_browser: bool) -> None:
    """Log in to the server NAME, in a browser. Needs a person at a terminal."""
    if not is_person_there():
        raise UsageError("Only a person at a terminal can log in.", remedy="Run it in a terminal.")

    def visit(url: str) -> None:
        click.echo(f"Visit: {plain(url)}", err=True)
        if is_browser:
            click.launch(url)

    asyncio.run(log_in(load_config(), folder.resolve(), name, visit))
    click.echo(f"logged in to {name}")


@mcp_command.command("logout")
@click.argument("name")
@_folder
def logout_command(name: str, folder: Path) -> None:
    """Forget the login to the server NAME."""
    is_done = log_out(load_config(), folder.resolve(), name)
    click.echo(f"logged out of {name}" if is_done else f"there was no login to {name}")


@mcp_command.command("tools")
@click.argument("name")
@_folder
@click.option("--refresh", "is_fresh", is_flag=True, help="Ask the server, instead of what is known.")
@click.option("--json", "is_json", is_flag=True, help="Print one tool per line as JSON, with its schema.")
def tools_command(name: str, folder: Path, *, is_fresh: bool, is_json: bool) -> None:
    """List the tools of the server NAME. What it says of them (read-only, destructive) grants nothing."""
    for tool in asyncio.run(offered_tools(load_config(), folder.resolve(), name, is_fresh=is_fresh)):
        text = str(tool.get("description") or "").strip().partition("\n")[0]
        hints = [
            key
            for key, value in cast("dict[str, object]", tool.get("annotations") or {}).items()
            if value is True
        ]
        said = f"  [{', '.join(hints)}]" if hints else ""
        click.echo(json_line(tool) if is_json else plain(f"{tool.get('name')}  {text}{said}"))


@mcp_command.command("import")
@click.argument("program", type=click.Choice(("claude", "codex", "vscode")))
@_folder
def import_command(program: str, folder: Path) -> None:
    """Take over the servers that Claude Code, Codex or VS Code has, for you and this folder."""
    done = import_servers(load_config(), cast("OtherProgram", program), folder.resolve())
    for name in done.added:
        click.echo(plain(f"added {name}"))
    for name in done.present:
        click.echo(plain(f"{name} was there already"), err=True)


def _line(row: McpRow) -> str:
    tools = "" if row.tools is None else f" ({row.tools} tools)"
    detail = f"  {json.dumps(row.detail, ensure_ascii=False)[1:-1]}" if row.detail else ""
    return f"{row.name:<20} {row.state:<11} {row.scope:<8} {row.target}{tools}{detail}"
