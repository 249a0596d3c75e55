"""Inside a sandbox without a network: pass connections of a local port on to our proxy's Unix socket.

It runs the command as its child, tells it the port by the usual variables, and ends with its exit code.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import NoReturn

from .guard import exit_code

PIECE = 64 * 1024


def main(path: str, argv: list[str]) -> NoReturn:
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        _become(listener.getsockname()[1], argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(child, number))
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    _, status = os.waitpid(child, 0)
    os._exit(exit_code(status))


def _become(port: int, argv: list[str]) -> NoReturn:
    url = f"http://127.0.0.1:{port}"
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        os.putenv(name, url)
        os.putenv(name.upper(), url)
    for name in ("no_proxy", "NO_PROXY"):
        os.putenv(name, "localhost,127.0.0.1,::1")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(argv[0], argv)  # noqa: S606 - no shell is the point
    finally:
        os._exit(126)


def _accept(listener: socket.socket, path: str) -> None:
    while True:
        near, _ = listener.accept()
        threading.Thread(target=_relay, args=(near, path), daemon=True).start()


def _relay(near: socket.socket, path: str) -> None:
    far = socket.socket(socket.AF_UNIX)
    with near, far:
        try:
            far.connect(path)
        except OSError:
            return
        back = threading.Thread(target=_copy, args=(far, near), daemon=True)
        back.start()
        _copy(near, far)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(PIECE):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
