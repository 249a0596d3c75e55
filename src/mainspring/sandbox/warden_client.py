"""Our end of the helper process that starts guards, and of those that wait for commands in namespaces."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mainspring.errors import SandboxError

BOOT = "import sys; sys.path.append(sys.argv[1]); from custody.warden import main; main(int(sys.argv[2]))"


class WardenClient:
    """The helper process that forks guards; started when first needed, and again if it died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._attended: dict[tuple[int, ...], socket.socket] = {}

    def ask(self, job: dict[str, Any], fds: Sequence[int]) -> socket.socket:
        """Starts a guard and gives the socket to it."""
        try:
            return _handed(self._connection(), job, fds)
        except ConnectionError:
            self.close()
        try:
            return _handed(self._connection(), job, fds)
        except ConnectionError as error:
            raise broken("cannot start a process", error) from error

    def attend(self, joins: tuple[int, ...]) -> socket.socket:
        """Has guards wait in namespaces; the socket tells when they do."""
        self.leave(joins)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            control = self.ask({"attends": True}, [*joins, theirs.fileno()])
        self._attended[joins] = ours
        return control

    def ask_inside(
        self, joins: tuple[int, ...], job: dict[str, Any], fds: Sequence[int]
    ) -> socket.socket | None:
        """As `ask`, of a guard that waits in these namespaces; nothing when there is none."""
        if (requests := self._attended.get(joins)) is None:
            return None
        try:
            return _handed(requests, job, fds)
        except ConnectionError:
            self.leave(joins)
            return None

    def leave(self, joins: tuple[int, ...]) -> None:
        """Ends what waits in namespaces when its commands have ended."""
        if requests := self._attended.pop(joins, None):
            requests.close()

    def _connection(self) -> socket.socket:
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            folder = str(Path(__file__).parent)
            with theirs:
                argv = [sys.executable, "-I", "-S", "-X", "utf8", "-c", BOOT, folder, str(theirs.fileno())]
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={},
                    cwd="/",
                )
            self._socket = ours
        return self._socket

    def close(self) -> None:
        for joins in tuple(self._attended):
            self.leave(joins)
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._process is not None:
            # It ends by itself when its socket closes.
            self._process.wait()
            self._process = None


def _handed(connection: socket.socket, job: dict[str, Any], fds: Sequence[int]) -> socket.socket:
    """Sends a job to whatever guard waits, with one end of a socket; the other. Without anybody at the other
    side of the connection it raises `ConnectionError`."""
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        body = os.memfd_create("job")
    except OSError as error:
        raise broken("cannot start a process", error) from error
    ours.settimeout(0)
    try:
        _write_all(body, json.dumps(job).encode())
        socket.send_fds(connection, [b"job"], [body, theirs.fileno(), *fds])
        return ours
    except OSError as error:
        ours.close()
        if isinstance(error, ConnectionError):
            raise
        raise broken("cannot start a process", error) from error
    finally:
        os.close(body)
        theirs.close()


def broken(what: str, error: OSError) -> SandboxError:
    return SandboxError(f"The sandbox {what}: {error.strerror}.", remedy="Check `ulimit -n` and free memory.")


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
