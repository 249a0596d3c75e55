"""Commands of `mainspring` without starting an interpreter for each: processes of their own, forked from one
that has imported what they need. Half of the time of a test of the command line went into these imports.

As a script it is that process: it hears of commands on its standard input, a socket, with their streams.
"""

from __future__ import annotations

import array
import atexit
import gc
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from threading import Thread
from typing import IO, Any, NoReturn

_MAX_REQUEST = 1 << 20
_AT_START = ("LANG", "LC_", "PYTHON", "LD_")
"""Beginnings of variables that an interpreter reads when it starts."""
_servers: dict[int, socket.socket] = {}


def run_forked(arguments: list[str], cwd: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python -m mainspring` with no input, and its output as text."""
    command = [sys.executable, "-m", "mainspring", *arguments]
    changed = (name for name in env if env[name] != os.environ.get(name))
    request = json.dumps({"arguments": arguments, "cwd": cwd, "env": env}).encode()
    is_usual = not any(name.startswith(_AT_START) for name in changed) and len(request) < _MAX_REQUEST
    if not is_usual or not hasattr(os, "pidfd_open"):
        return subprocess.run(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pipes = [os.pipe() for _ in range(2)]
    given = array.array("i", [theirs.fileno(), *(writing for _, writing in pipes)])
    with theirs:
        _server().sendmsg([str(len(request)).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
    for _, writing in pipes:
        os.close(writing)
    with ours:
        for start in range(0, len(request), 1 << 16):
            ours.sendall(request[start : start + (1 << 16)])
        said = _read([os.fdopen(reading, "rb") for reading, _ in pipes])
        ours.settimeout(300)
        code = int(ours.recv(64))
    return subprocess.CompletedProcess(command, code, *(text.decode().replace("\r\n", "\n") for text in said))


def _read(files: list[IO[bytes]]) -> list[bytes]:
    said = [b"" for _ in files]

    def read(number: int) -> None:
        with files[number] as file:
            said[number] = file.read()

    threads = [Thread(target=read, args=(number,)) for number in range(len(files))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return said


def _server() -> socket.socket:
    """The process to fork from; one for this process."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen([sys.executable, __file__], stdin=theirs.fileno())
        _servers[os.getpid()] = ours
        atexit.register(_end, process, ours)
    return _servers[os.getpid()]


def _end(process: subprocess.Popen[bytes], ours: socket.socket) -> None:
    ours.close()
    process.wait(30)


def _serve() -> None:
    requests = socket.socket(fileno=0)
    waiting = selectors.DefaultSelector()
    waiting.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in waiting.select():
            if key.fileobj is requests:
                message, handed, *_ = socket.recv_fds(requests, 64, 3)
                if not message:
                    return
                told, *streams = handed
                pid = _forked(int(message), told, streams)
                waiting.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, told))
                for stream in streams:
                    os.close(stream)
            else:
                pid, told = key.data
                waiting.unregister(key.fileobj)
                os.close(key.fd)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with suppress(BrokenPipeError), socket.socket(fileno=told) as teller:
                    teller.send(str(code).encode())


def _forked(size: int, told: int, streams: list[int]) -> int:
    request = b""
    while len(request) < size:
        request += os.read(told, 1 << 16)
    pid = os.fork()
    if not pid:
        _become(json.loads(request), streams)
    return pid


def _become(request: dict[str, Any], streams: list[int]) -> NoReturn:
    for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), *streams)):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.path.insert(0, str(request["cwd"]))
    sys.argv = ["mainspring", *request["arguments"]]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 0
    try:
        runpy.run_module("mainspring", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    atexit._run_exitfuncs()  # quicker than to take the modules apart
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _prepare() -> None:
    import mainspring

    for module in pkgutil.walk_packages(mainspring.__path__, "mainspring."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # of a package that is not installed
                import_module(module.name)
    del sys.modules["mainspring.app.debug_log"]  # a command asks whether it is loaded
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    del sys.path[0]  # our folder, in which packages have names of the standard library
    _prepare()
    _serve()
