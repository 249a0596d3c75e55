"""A network that reaches nothing but itself, made to be joined by all commands of a session.

A guard moves into it, brings its loopback up, hands over descriptors and ends. Without the right to make one
it makes a user namespace around it, which whoever joins has to join first.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct

from . import kernel

SIOCSIFFLAGS = 0x8914
IFF_UP_AND_RUNNING = 0x41


def hand_over(control: socket.socket) -> None:
    """Sends the descriptors to join, in their order, or the reason why there are none."""
    try:
        fds = _made()
    except OSError as error:
        control.send(json.dumps({"crashed": error.strerror or str(error)}).encode())
        return
    socket.send_fds(control, [b"{}"], fds)


def _made() -> list[int]:
    names = ["net"]
    try:
        kernel.unshare(kernel.CLONE_NEWNET)
    except PermissionError:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNET)
        maps = {"setgroups": "deny", "uid_map": f"{uid} {uid} 1", "gid_map": f"{gid} {gid} 1"}
        for name, text in maps.items():
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - pathlib is not loaded here
                file.write(text)
        names = ["user", "net"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP_AND_RUNNING))
    return [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
