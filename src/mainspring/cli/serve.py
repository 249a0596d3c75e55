"""`serve`: the page and the HTTP interface of this machine, until it is interrupted."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from mainspring.app.operations.device_roles import PAIRED_ROLES, Role
from mainspring.app.operations.devices import Access
from mainspring.cli.config import NO_GATEWAY, load_config
from mainspring.cli.devices import show_offer
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain
from mainspring.system import host_name


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8790, show_default=True, help="0: any free one."
)
@click.option(
    "--name", "names", multiple=True, help="Further name or address that devices call this machine by."
)
@click.option("--cert", type=click.Path(path_type=Path, dir_okay=False), help="Certificate (PEM), for https.")
@click.option("--key", type=click.Path(path_type=Path, dir_okay=False), help="Its key (PEM).")
@click.option(
    "--self-signed", "is_self_signed", is_flag=True, help="Make and keep a certificate of our own, for https."
)
@click.option(
    "--tunnel",
    default="",
    metavar="PROGRAM",
    help="Reach it through cloudflared, tailscale or ssh:HOST.",
)
@click.option("--open-metrics", is_flag=True, help="Answer /healthz and /metrics without a token.")
@click.option(
    "--openai", "is_openai", is_flag=True, help="Also serve chats that speak OpenAI's protocols, at /v1."
)
@click.option(
    "-C",
    "folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder that sessions of such chats work in.",
)
@click.option("--pair", "is_paired", is_flag=True, help="Show a code that pairs one device, valid for 90 s.")
@click.option(
    "--role", type=click.Choice(PAIRED_ROLES), default="steer", show_default=True, help="Role of that device."
)
@NO_GATEWAY
def serve_command(
    *,
    host: str,
    port: int,
    names: tuple[str, ...],
    cert: Path | None,
    key: Path | None,
    is_self_signed: bool,
    tunnel: str,
    open_metrics: bool,
    is_openai: bool,
    folder: Path,
    is_paired: bool,
    role: Role,
) -> None:
    """Serve sessions, goals and questions of this machine over HTTP.

    Only this machine can reach it unless --host says otherwise. Every request needs the token that is
    printed, or a paired device. The interface for programs is described at /api/v1/openapi.json.
    """
    try:
        run = import_module("mainspring.serve.run")
    except ModuleNotFoundError as error:
        raise UsageError(
            f"This needs {error.name}, which is not installed.", remedy="pip install 'mainspring[web]'"
        ) from error
    config, certificate = load_config(), import_module("mainspring.serve.certificate")
    if is_self_signed and cert is None and key is None:
        called = ("localhost", "127.0.0.1", "::1", host_name(), host, *names)
        cert, key = certificate.self_signed(config, called)
    place = run.Listening(
        host=host,
        port=port,
        names=names,
        cert=cert,
        key=key,
        is_open=open_metrics,
        tunnel=tunnel,
        chats_in=folder.resolve() if is_openai else None,
    )

    def ready(address: str, access: Access, opened: Any) -> None:
        whom = opened.exposed if opened else f"other machines, at {host}," if place.is_exposed else ""
        if whom:
            click.echo(_exposes(whom, is_encrypted=bool(opened) or place.is_secure), err=True)
        if cert is not None:
            click.echo(f"certificate SHA-256 {certificate.fingerprint(cert)}", err=True)
        click.echo(f"{address}/#token={access.token}")
        if opened:
            click.echo(f"{opened.address} ({tunnel})", err=True)
        if is_paired:
            show_offer(opened.address if opened else address, access.offer(role), role)

    def ended(said: str) -> None:
        click.echo(
            plain(f"The tunnel has ended; the server goes on for this machine alone. {said}"), err=True
        )

    run.serve(config, place, ready, ended)


def _exposes(whom: str, *, is_encrypted: bool) -> str:
    """What another bind than loopback, or a tunnel, means."""
    lines = (
        f"warning: {whom} can reach this server: an empty page, where a token or a code can be entered.",
        "  Who has one sees all sessions of this machine, and does what the role of the device allows:",
        "  watch, answer, or steer, which runs commands here.",
        "" if is_encrypted else "  The connection is not encrypted: add --self-signed, or --cert and --key.",
    )
    return "\n".join(filter(None, lines))
