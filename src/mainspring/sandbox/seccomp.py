"""A seccomp filter, assembled here: system calls that a command has no business making.

It refuses what widens the kernel's surface or reaches around the other walls: keyrings, io_uring (its
operations pass no filter), new namespaces, mounts, set-user-id files, typing into terminals, and every
socket family but those asked for (AF_VSOCK, for one, ignores network namespaces).
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
from collections.abc import Iterable

LD_WORD, JUMP_EQUAL, JUMP_SET, JUMP_GREATER_EQUAL, AND, RETURN = 0x20, 0x15, 0x45, 0x35, 0x54, 0x06
ALLOW = 0x7FFF0000
REFUSE = 0x00050000
NUMBER_AT, ARCH_AT, ARGS_AT = 0, 4, 16
X32_BIT = 0x40000000
NEW_NAMESPACES = 0x7E020080
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SOCKET_TYPE_MASK = 0xF

ARCHES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

NUMBERS: dict[str, tuple[int, int]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "umount2": (166, 39),
    "userfaultfd": (323, 282),
}
WITH_MODE: dict[tuple[int, int], int] = {
    # -1: x86-64 alone has it.
    (90, -1): 1,
    (91, 52): 1,
    (268, 53): 2,
    (452, 452): 2,
    (85, -1): 1,
    (133, -1): 1,
    (259, 33): 2,
}
"""chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat: which argument is the mode."""
WITH_FLAGS_AND_MODE: dict[tuple[int, int], int] = {(2, -1): 1, (257, 56): 2}
"""open, openat: which argument is the flags; the mode follows, and means something if they create."""
CREATES = os.O_CREAT | (os.O_TMPFILE & ~os.O_DIRECTORY)
SETUID_AND_SETGID = 0o6000
OPENAT2 = (437, 437)
CLONE, CLONE3, UNSHARE, IOCTL, SOCKET = (56, 220), (435, 435), (272, 97), (16, 29), (41, 198)

UNIX = frozenset({int(socket.AF_UNIX), int(socket.AF_NETLINK)})
INET = frozenset({int(socket.AF_INET), int(socket.AF_INET6)})


def is_known_machine() -> bool:
    return platform.machine() in ARCHES


def filter_for(families: Iterable[int], *, allows_datagrams: bool = True) -> bytes:
    """The program for this machine; empty where we do not know its system call numbers."""
    if not is_known_machine():
        return b""
    arch, column = ARCHES[platform.machine()]
    code = [
        _step(LD_WORD, ARCH_AT),
        _step(JUMP_EQUAL, arch, 1, 0),
        _refuse(errno.ENOSYS),
        _step(LD_WORD, NUMBER_AT),
        _step(JUMP_GREATER_EQUAL, X32_BIT, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for numbers in NUMBERS.values():
        code += _on(numbers[column], [_refuse(errno.EPERM)])
    # These hide their flags behind a pointer; without them programs fall back to clone and openat.
    for call in (CLONE3, OPENAT2):
        code += _on(call[column], [_refuse(errno.ENOSYS)])
    # Where we are root, a set-user-id file in the workspace would be root's.
    for numbers, argument in WITH_MODE.items():
        if numbers[column] >= 0:
            has_bit = _step(JUMP_SET, SETUID_AND_SETGID, 0, 1)
            code += _on(numbers[column], [_argument(argument), has_bit, _refuse(errno.EPERM)])
    for numbers, argument in WITH_FLAGS_AND_MODE.items():
        if numbers[column] >= 0:
            creates, has_bit = _step(JUMP_SET, CREATES, 0, 3), _step(JUMP_SET, SETUID_AND_SETGID, 0, 1)
            body = [_argument(argument), creates, _argument(argument + 1), has_bit, _refuse(errno.EPERM)]
            code += _on(numbers[column], body)
    for call in (CLONE, UNSHARE):
        code += _on(call[column], [_argument(0), _step(JUMP_SET, NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    for request in (TIOCSTI, TIOCLINUX):
        code += _on(IOCTL[column], [_argument(1), _step(JUMP_EQUAL, request, 0, 1), _refuse(errno.EPERM)])
    code += _on(SOCKET[column], _sockets(sorted(families), allows_datagrams=allows_datagrams))
    code.append(_step(RETURN, ALLOW))
    return b"".join(code)


def _sockets(families: list[int], *, allows_datagrams: bool) -> list[bytes]:
    body = [_argument(0)]
    for index, family in enumerate(families):
        # Jumps over the remaining comparisons and the refusal.
        body.append(_step(JUMP_EQUAL, family, len(families) - index, 0))
    body.append(_refuse(errno.EAFNOSUPPORT))
    if not allows_datagrams:
        is_stream = _step(JUMP_EQUAL, int(socket.SOCK_STREAM), 1, 0)
        body += [_step(JUMP_EQUAL, int(socket.AF_UNIX), 4, 0)]
        body += [_argument(1), _step(AND, SOCKET_TYPE_MASK), is_stream, _refuse(errno.EACCES)]
    return body


def _on(number: int, body: list[bytes]) -> list[bytes]:
    """Runs `body` for one system call; falls through with the number loaded again."""
    return [_step(JUMP_EQUAL, number, 0, len(body) + 1), *body, _step(LD_WORD, NUMBER_AT)]


def _argument(index: int) -> bytes:
    return _step(LD_WORD, ARGS_AT + 8 * index)


def _refuse(number: int) -> bytes:
    return _step(RETURN, REFUSE | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
