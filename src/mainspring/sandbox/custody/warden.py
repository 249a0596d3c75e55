"""The warden forks a guard for each request and outlives none of its askers.

A request is one packet on its socket with descriptors: a memory file with the job as JSON, the guard's
control socket, then those named in the job. An orphan that lost its guard falls to the warden, which
ends it. When our side of the socket closes, the warden ends; each guard notices by its own socket.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import traceback
from array import array
from typing import Any, NoReturn

from . import kernel, tree
from .guard import Files, guard, tell, wakeup
from .keeper import keep

MAX_FDS = 32


def main(fd: int) -> NoReturn:
    requests = socket.socket(fileno=fd)
    wake = wakeup()
    kernel.become_subreaper()
    os.setsid()
    guards: set[int] = set()
    is_hunting = False
    poller = select.poll()
    poller.register(requests, select.POLLIN)
    poller.register(wake, select.POLLIN)
    while True:
        ready = dict(poller.poll())
        if wake in ready:
            tree.drain(wake)
            dead, _ = tree.reap()
            # A guard that ends well has nothing below it; only one that was killed leaves strays.
            is_hunting = is_hunting or any(dead.values())
            guards -= dead.keys()
            is_hunting = is_hunting and _end_strays(guards)
        if fd in ready:
            guards.add(_serve(requests))


def _serve(requests: socket.socket) -> int:
    """The new guard's process id. Does not return when nobody can ask any more."""
    fds = array("i")
    # socket.recv_fds drops its flags, and these descriptors must not reach the command.
    message, headers, _, _ = requests.recvmsg(
        16, socket.CMSG_LEN(MAX_FDS * fds.itemsize), socket.MSG_CMSG_CLOEXEC
    )
    for _, _, data in headers:
        fds.frombytes(data)
    if not message:
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        _guard(requests, list(fds))
    for number in fds:
        os.close(number)
    return pid


def _guard(requests: socket.socket, fds: list[int]) -> NoReturn:
    is_done = False
    control = socket.socket(fileno=fds[1])
    try:
        requests.close()
        os.setsid()
        with os.fdopen(fds[0], "rb") as body:
            body.seek(0)
            job: Any = json.loads(body.read())
        if job.get("keep"):
            keep(job, control)
        else:
            guard(job, _files(job, fds[2:]), control)
        is_done = True
    finally:
        # The warden's loop, which is below us on the stack, is not ours to continue.
        if not is_done:
            tell(control, crashed=traceback.format_exc())
        os._exit(0 if is_done else 1)


def _files(job: dict[str, Any], fds: list[int]) -> Files:
    """The descriptors that came with the job: output, errors, a ruleset if any, then the extras.

    The extras are renumbered to what the job's argv says.
    """
    rest = fds[2:]
    ruleset = rest.pop(0) if job["confine"] else -1
    targets: list[int] = job["extra"]
    for number, target in zip(rest, targets, strict=True):
        os.dup2(number, target)
        os.close(number)
    null = os.open(os.devnull, os.O_RDONLY)
    return Files(stdin=null, stdout=fds[0], stderr=fds[1], ruleset=ruleset)


def _end_strays(guards: set[int]) -> bool:
    """Ends what fell to us; whether there was anything."""
    me = os.getpid()
    strays = [process.pid for process in tree.descendants(me) if process.ppid == me]
    strays = [pid for pid in strays if pid not in guards]
    for pid in strays:
        tree.send([*(below.pid for below in tree.alive_below(pid)), pid], signal.SIGKILL)
    return bool(strays)
