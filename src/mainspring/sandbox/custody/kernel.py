"""What the kernel offers and Python does not wrap: prctl, capabilities, Landlock, seccomp.

Everything here acts on the calling process (or makes a descriptor) and raises OSError when refused.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_MODE_FILTER = 2
LAST_CAPABILITY = 63
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CAPABILITY_VERSION_3 = 0x20080522
SYS_LANDLOCK_CREATE_RULESET = 444
SYS_LANDLOCK_ADD_RULE = 445
SYS_LANDLOCK_RESTRICT_SELF = 446

if sys.platform != "win32":
    _libc = ctypes.CDLL(None, use_errno=True)


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


def prctl(option: int, value: int = 0, pointer: object = 0) -> None:
    address = pointer if not isinstance(pointer, int) else ctypes.c_ulong(pointer)
    zero = ctypes.c_ulong(0)
    if _libc.prctl(option, ctypes.c_ulong(value), address, zero, zero) != 0:
        _fail("prctl")


def syscall(number: int, *arguments: object) -> int:
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, "these are numbers of Linux")
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        _fail(f"syscall {number}")
    return result


def become_subreaper() -> None:
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def unshare(kinds: int) -> None:
    if _libc.unshare(ctypes.c_int(kinds)) != 0:
        _fail("unshare")


def join_namespace(fd: int) -> None:
    if _libc.setns(ctypes.c_int(fd), ctypes.c_int(0)) != 0:
        _fail("setns")


def gain_no_privileges() -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Root without its powers: the bounding set too, so that no exec brings them back."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError:
            # EINVAL past the kernel's last one; EPERM when they were never ours.
            break
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _libc.capset(header, nothing) != 0:
        _fail("capset")


def restrict_by_landlock(ruleset: int) -> None:
    syscall(SYS_LANDLOCK_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))


def restrict_by_seccomp(program: bytes) -> None:
    """`program` is an array of struct sock_filter, eight bytes each."""
    code = ctypes.create_string_buffer(program, len(program))
    holder = _Filter(len(program) // 8, ctypes.cast(code, ctypes.c_void_p))
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(holder))


def _fail(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")
