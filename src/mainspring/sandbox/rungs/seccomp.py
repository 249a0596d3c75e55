"""A seccomp filter, assembled here: system calls that a command has no business making.

It refuses what widens the kernel's surface or reaches around the other walls: keyrings, io_uring (its
operations pass no filter), new namespaces, mounts, set-user-id files, typing into terminals, and every
socket family but those asked for (AF_VSOCK, for one, ignores network namespaces).
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterator
from functools import cache

LD_WORD, JUMP_EQUAL, JUMP_SET, JUMP_GREATER_EQUAL, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW = 0x7FFF0000
REFUSE = 0x00050000
NUMBER_AT, ARCH_AT, ARGS_AT = 0, 4, 16
X32_BIT = 0x40000000
NEW_NAMESPACES = 0x7E020080
TIOCSTI, TIOCLINUX = 0x5412, 0x541C

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
CREATES = os.O_CREAT | 0o20000000
"""O_CREAT, and O_TMPFILE without O_DIRECTORY. Linux numbers, written out: other systems lack the names."""
SETUID_AND_SETGID = 0o6000
OPENAT2 = (437, 437)
OF_OTHERS: dict[tuple[int, int], int] = {(302, 261): 0, (141, 140): 1}
"""prlimit64, setpriority: which argument names a process; 0 is the caller."""
CLONE, CLONE3, UNSHARE, IOCTL, SOCKET = (56, 220), (435, 435), (272, 97), (16, 29), (41, 198)

UNIX = frozenset({1, 16})
"""AF_UNIX, AF_NETLINK"""
INET = frozenset({2, 10})
"""AF_INET, AF_INET6"""


def is_known_machine() -> bool:
    return platform.machine() in ARCHES


@cache
def filter_for(families: frozenset[int]) -> bytes:
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
    by_number: dict[int, list[bytes]] = {}
    for numbers, body in _rules(sorted(families)):
        if numbers[column] >= 0:
            by_number.setdefault(numbers[column], []).extend(body)
    return b"".join(code + _search(sorted(by_number.items())))


def _rules(families: list[int]) -> Iterator[tuple[tuple[int, int], list[bytes]]]:
    for numbers in NUMBERS.values():
        yield numbers, [_refuse(errno.EPERM)]
    # These hide their flags behind a pointer; without them programs fall back to clone and openat.
    for numbers in (CLONE3, OPENAT2):
        yield numbers, [_refuse(errno.ENOSYS)]
    for numbers, argument in OF_OTHERS.items():
        yield numbers, [_argument(argument), _step(JUMP_EQUAL, 0, 1, 0), _refuse(errno.EPERM)]
    for numbers in (CLONE, UNSHARE):
        yield numbers, [_argument(0), _step(JUMP_SET, NEW_NAMESPACES, 0, 1), _refuse(errno.EPERM)]
    for request in (TIOCSTI, TIOCLINUX):
        yield IOCTL, [_argument(1), _step(JUMP_EQUAL, request, 0, 1), _refuse(errno.EPERM)]
    # Where we are root, a set-user-id file in the workspace would be root's.
    has_bit = [_step(JUMP_SET, SETUID_AND_SETGID, 0, 1), _refuse(errno.EPERM)]
    for numbers, argument in WITH_MODE.items():
        yield numbers, [_argument(argument), *has_bit]
    for numbers, argument in WITH_FLAGS_AND_MODE.items():
        creates = _step(JUMP_SET, CREATES, 0, 3)
        yield numbers, [_argument(argument), creates, _argument(argument + 1), *has_bit]
    # Each comparison that fits jumps over those that remain, and over the refusal.
    fits = [_step(JUMP_EQUAL, family, len(families) - index, 0) for index, family in enumerate(families)]
    yield SOCKET, [_argument(0), *fits, _refuse(errno.EAFNOSUPPORT)]


def _search(bodies: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Runs the body of a system call, found by halving: the kernel tries each number when the filter is set,
    and each use of many a system call goes through it."""
    if len(bodies) == 1:
        number, body = bodies[0]
        return [_step(JUMP_EQUAL, number, 0, len(body)), *body, _step(RETURN, ALLOW)]
    half = len(bodies) // 2
    below, above = _search(bodies[:half]), _search(bodies[half:])
    return [_step(JUMP_GREATER_EQUAL, bodies[half][0], len(below), 0), *below, *above]


def _argument(index: int) -> bytes:
    return _step(LD_WORD, ARGS_AT + 8 * index)


def _refuse(number: int) -> bytes:
    return _step(RETURN, REFUSE | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
