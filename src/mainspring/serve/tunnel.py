"""A tunnel that makes the server reachable from elsewhere: an installed program, in our custody."""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import msgspec

from mainspring.errors import UsageError

_WITHIN_S = 60.0
_TOLD = 300
_ADDRESS = {
    "cloudflared": re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)*\.trycloudflare\.com"),
    "tailscale": re.compile(r"https://[a-z0-9-]+(?:\.[a-z0-9-]+)*\.ts\.net(?::\d+)?"),
}


class Tunnel(msgspec.Struct, frozen=True):
    """Where the server is reachable through it; `exposed` says for whom."""

    address: str
    exposed: str


@contextmanager
def opened_tunnel(kind: str, port: int, environment: Mapping[str, str]) -> Generator[Tunnel]:
    """Starts `cloudflared`, `tailscale` or `ssh:DESTINATION`; it ends with the block, or with us."""
    name, _, destination = kind.partition(":")
    command = _command(name, destination, port)
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise UsageError(f"`{command[0]}` is not installed.", remedy="Install it, or leave out --tunnel.")
    keeper = subprocess.Popen(
        [sys.executable, "-I", "-m", "mainspring.serve.tunnel_keeper", program, *command[1:]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        if name == "ssh":
            yield Tunnel(f"http://127.0.0.1:{port}", f"everybody who is logged in at {destination}")
            return
        address = _address(keeper, name)
        whom = "everybody who knows the address" if name == "cloudflared" else "your tailnet"
        yield Tunnel(address, whom)
    finally:
        if keeper.stdin is not None:
            keeper.stdin.close()
        keeper.wait()


def _command(name: str, destination: str, port: int) -> list[str]:
    here = f"http://127.0.0.1:{port}"
    match name:
        case "cloudflared":
            return ["cloudflared", "tunnel", "--no-autoupdate", "--url", here]
        case "tailscale":
            return ["tailscale", "serve", here]
        case "ssh" if destination and not destination.startswith("-"):
            forward = f"127.0.0.1:{port}:127.0.0.1:{port}"
            options = [
                "-o",
                "ExitOnForwardFailure=yes",
                "-o",
                "ServerAliveInterval=30",
                "-o",
                "BatchMode=yes",
            ]
            return ["ssh", "-N", *options, "-R", forward, destination]
        case _:
            raise UsageError(
                f"There is no tunnel {name!r}.", remedy="Use cloudflared, tailscale or ssh:USER@HOST."
            )


def _address(keeper: subprocess.Popen[str], name: str) -> str:
    """The address that the program prints; what it prints later is read and dropped."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in keeper.stdout or ():
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    said, deadline = "", time.monotonic() + _WITHIN_S
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            line = lines.get(timeout=left_s)
        except queue.Empty:
            break
        if line is None:
            raise UsageError(f"{name} ended without a tunnel: {said.strip()[-_TOLD:]}")
        if found := _ADDRESS[name].search(line):
            return found[0]
        said += line
    raise UsageError(f"{name} has named no address within {_WITHIN_S:g} s: {said.strip()[-_TOLD:]}")
