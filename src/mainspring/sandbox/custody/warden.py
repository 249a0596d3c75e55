"""The warden keeps a guard waiting, which serves one command after another.

A request is one packet on our socket with descriptors: a memory file with the job as JSON, the control
socket, then the command's own. A waiting guard takes it and says so, and again when it is free; the warden
forks another when none waits. What lost its guard falls to the warden, which ends it. When our side of the
socket closes, the warden ends, and every guard notices by its own socket. A guard that `attends` becomes the
warden of namespaces that it joins for good, so that no command has to.
"""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import struct
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from . import kernel, outside, tree
from .child import Job, job_in, receive
from .guard import guard, tell, wakeup
from .keeper import keep
from .loopback import hand_over

WAITING = 2
QUIET_MS = 15
LASTING = 4
"""So many guards stay for the next command; those of a burst end with theirs."""


class Warden:
    def __init__(self, requests: socket.socket, *, is_inside: bool = False) -> None:
        self._requests = requests
        self._is_inside = is_inside
        self._wake = wakeup()
        self._heard, self._news = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._guards: set[int] = set()
        self._waiting: set[int] = set()
        self._is_hunting = False

    def run(self) -> NoReturn:
        poller = select.poll()
        poller.register(self._requests, 0)
        poller.register(self._wake, select.POLLIN)
        poller.register(self._heard, select.POLLIN)
        while True:
            if not self._waiting:
                self._fork()
            # A fork beside a command that has just been asked for would slow it down.
            ready = dict(poller.poll(QUIET_MS if len(self._waiting) < WAITING else None))
            if not ready:
                self._fork()
            if self._requests.fileno() in ready:
                self._end()
            if self._heard in ready:
                for (pid,) in struct.iter_unpack("i", os.read(self._heard, 4096)):
                    (self._waiting.discard if pid > 0 else self._waiting.add)(abs(pid))
                # One may have died since it said so.
                self._waiting &= self._guards
            if self._wake in ready:
                self._reap()

    def _end(self) -> NoReturn:
        """Inside others, what our guards still do would fall to a warden that does not know them."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        while self._is_inside and self._guards:
            poller.poll()
            self._reap()
        os._exit(0)

    def _fork(self) -> None:
        is_lasting = len(self._guards) < LASTING
        pid = os.fork()
        if pid == 0:
            _serve(self._requests, self._news, is_lasting=is_lasting)
        self._guards.add(pid)
        self._waiting.add(pid)

    def _reap(self) -> None:
        tree.drain(self._wake)
        dead, _ = tree.reap()
        self._guards -= dead.keys()
        self._waiting -= dead.keys()
        # A guard that ends well has nothing below it; only one that was killed leaves strays.
        is_any_killed = any(status for status, _, _ in dead.values())
        self._is_hunting = (self._is_hunting or is_any_killed) and _end_strays(self._guards)


def main(fd: int) -> NoReturn:
    os.setsid()
    kernel.become_subreaper()
    gc.freeze()
    gc.disable()
    requests = socket.socket(fileno=fd)
    # It came to us open for a child, but must not go on to a command.
    fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    Warden(requests).run()


def _serve(requests: socket.socket, news: int, *, is_lasting: bool) -> NoReturn:
    is_done = False
    control = None
    try:
        os.setsid()
        kernel.become_subreaper()
        wake = wakeup()
        say_busy = partial(os.write, news, struct.pack("i", os.getpid()))
        while fds := receive(requests):
            control = socket.socket(fileno=fds[1])
            job = job_in(fds[0])
            os.close(fds[0])
            if job.get("attends"):
                say_busy()
                requests.close()
                os.close(news)
                _attend(fds[2:], control)
            if not _done(job, wake, fds[2:], control, say_busy) or not is_lasting:
                break
            control.close()
            os.write(news, struct.pack("i", -os.getpid()))
        is_done = True
    finally:
        # The warden's loop, which is below us on the stack, is not ours to continue.
        if control is not None and not is_done:
            tell(control, crashed=traceback.format_exc())
        os._exit(0 if is_done else 1)


def _done(
    job: Job, wake: int, fds: list[int], control: socket.socket, say_busy: Callable[[], object]
) -> bool:
    """Does what is asked; whether the guard is then as it was before."""
    if job.get("loopback"):
        say_busy()
        hand_over(control)
        return False
    if job.get("keep"):
        say_busy()
        keep(job, wake, fds, control)
        return False
    given = fds.pop() if job["has_input"] else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    # The warden would take the processor from a command that is about to start.
    guard(job, wake, [given, *fds], control, on_start=say_busy)
    return True


def _attend(fds: list[int], control: socket.socket) -> NoReturn:
    outside.root()
    *namespaces, requests = fds
    for namespace in namespaces:
        kernel.join_namespace(namespace)
        os.close(namespace)
    tell(control, exited=0)
    control.close()
    Warden(socket.socket(fileno=requests), is_inside=True).run()


def _end_strays(guards: set[int]) -> bool:
    """Ends what fell to us; whether there was anything."""
    me = os.getpid()
    strays = [process.pid for process in tree.descendants(me) if process.ppid == me]
    strays = [pid for pid in strays if pid not in guards]
    for pid in strays:
        tree.send([*(below.pid for below in tree.alive_below(pid)), pid], signal.SIGKILL)
    return bool(strays)
