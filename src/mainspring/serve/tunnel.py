"""A tunnel that makes the server reachable from elsewhere: an installed program, in our custody."""

from __future__ import annotations

import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping
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
def opened_tunnel(
    kind: str, port: int, environment: Mapping[str, str], on_end: Callable[[str], None] = lambda _: None
) -> Generator[Tunnel]:
    """Starts `cloudflared`, `tailscale` or `ssh:DESTINATION`; it ends with the block, or with us. `on_end` is
    told what it said last when it ends before."""
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
    said = _Said(keeper)
    try:
        if name == "ssh":
            tunnel = Tunnel(f"http://127.0.0.1:{port}", f"everybody who is logged in at {destination}")
        else:
            whom = "everybody who knows the address" if name == "cloudflared" else "your tailnet"
            tunnel = Tunnel(said.address(name), whom)
        said.tell_end(on_end)
        yield tunnel
    finally:
        said.tell_end(None)
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


class _Said:
    """What the program prints: all is read, so that it never has to wait, and the end of it is kept."""

    def __init__(self, keeper: subprocess.Popen[str]) -> None:
        self._keeper, self._text = keeper, ""
        self._on_end: Callable[[str], None] | None = None
        self._is_over, self._lock = False, threading.Lock()
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._keeper.stdout or ():
            self._text = (self._text + line)[-_TOLD:]
            self._lines.put(line)
        self._lines.put(None)
        with self._lock:
            self._is_over = True
            if self._on_end is not None:
                self._on_end(self._text.strip())

    def tell_end(self, on_end: Callable[[str], None] | None) -> None:
        """Calls when the program ends, or has; None: not any more."""
        with self._lock:
            self._on_end = on_end
            if self._is_over and on_end is not None:
                on_end(self._text.strip())

    def address(self, name: str) -> str:
        """The address that the program prints."""
        deadline = time.monotonic() + _WITHIN_S
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                line = self._lines.get(timeout=left_s)
            except queue.Empty:
                break
            if line is None:
                raise UsageError(f"{name} ended without a tunnel: {self._text.strip()}")
            if found := _ADDRESS[name].search(line):
                return found[0]
        raise UsageError(f"{name} has named no address within {_WITHIN_S:g} s: {self._text.strip()}")
