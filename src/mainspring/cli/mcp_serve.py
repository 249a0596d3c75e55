"""`mcp serve`: mainspring as an MCP server, for other programs' agents."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

import click

from mainspring.app.modes import MODE_NAMES
from mainspring.app.operations.device_roles import PAIRED_ROLES, Role
from mainspring.app.operations.devices import Access
from mainspring.app.policies import DEFAULT_MODE
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.options import POSITIVE
from mainspring.errors import UsageError


@click.command("serve")
@click.option(
    "-C",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder that all workspaces lie in.",
)
@click.option("--mode", type=click.Choice(MODE_NAMES), default=None, help="The freest mode of a session.")
@click.option("--max-cost-usd", type=POSITIVE, help="Maximum cost of a session or goal, in US dollars.")
@click.option("--max-steps", type=click.IntRange(min=1), help="Maximum model requests in a turn.")
@click.option("--timeout", "timeout_s", type=POSITIVE, help="Maximum seconds of a turn, or of a command.")
@click.option(
    "--role",
    type=click.Choice(PAIRED_ROLES),
    default="steer",
    show_default=True,
    help="The most that a client may do.",
)
@click.option("--http", "is_http", is_flag=True, help="Over HTTP on this machine, with a token.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8791, show_default=True, help="0: any free one."
)
@NO_GATEWAY
def mcp_serve_command(
    *,
    folder: Path,
    mode: str | None,
    max_cost_usd: float | None,
    max_steps: int | None,
    timeout_s: float | None,
    role: Role,
    is_http: bool,
    port: int,
) -> None:
    """Serve sessions and goals as tools of an MCP server, on standard input and output.

    Whatever a client asks for stays within --mode, the limits and the folder. With --http it is served at
    /mcp of a port of this machine, and every request needs the token that is printed, or a paired device.
    """
    try:
        run = import_module("mainspring.serve.mcp.run")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"This needs {error.name}, which is not installed.", remedy="pip install 'mainspring[mcp]'"
        ) from error
    config = load_config()
    caller = import_module("mainspring.serve.mcp.caller").Caller(
        mode=mode or config.settings.mode or DEFAULT_MODE,
        folder=folder.resolve(),
        role=role,
        max_cost_usd=max_cost_usd,
        max_steps=max_steps,
        timeout_s=timeout_s,
    )
    if not is_http:
        asyncio.run(run.serve_stdio(config, caller))
        return

    def ready(address: str, access: Access) -> None:
        click.echo(f"{address}{run.PATH}")
        click.echo(f"Authorization: Bearer {access.token}")

    run.serve_http(config, caller, import_module("mainspring.serve.run").Listening(port=port), ready)
