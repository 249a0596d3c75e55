"""The filter of system calls, run step by step, for machines that this one is not, too."""

from __future__ import annotations

import errno
import struct

import pytest

from mainspring.sandbox.rungs import seccomp
from mainspring.sandbox.rungs.seccomp import ALLOW, INET, REFUSE, UNIX, X32_BIT

REFUSED = REFUSE | errno.EPERM


def answer(program: bytes, arch: int, number: int, *arguments: int) -> int:
    data = {seccomp.NUMBER_AT: number, seccomp.ARCH_AT: arch}
    data |= {seccomp.ARGS_AT + 8 * index: value for index, value in enumerate((*arguments, *[0] * 6)[:6])}
    at = loaded = 0
    while True:
        code, if_true, if_false, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        match code:
            case seccomp.LD_WORD:
                loaded = data[value]
            case seccomp.JUMP_EQUAL:
                at += if_true if loaded == value else if_false
            case seccomp.JUMP_SET:
                at += if_true if loaded & value else if_false
            case seccomp.JUMP_GREATER_EQUAL:
                at += if_true if loaded >= value else if_false
            case _:
                return value


@pytest.mark.parametrize("machine", seccomp.ARCHES)
def test_each_system_call_gets_the_answer_that_its_rule_says(
    monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    seccomp.filter_for.cache_clear()
    program, (arch, column) = seccomp.filter_for(UNIX | INET), seccomp.ARCHES[machine]
    seccomp.filter_for.cache_clear()
    refused = {numbers[column] for numbers in seccomp.NUMBERS.values()}
    missing = {numbers[column]: errno.ENOSYS for numbers in (seccomp.CLONE3, seccomp.OPENAT2)}
    for number in range(600):
        wanted = REFUSED if number in refused else REFUSE | missing[number] if number in missing else ALLOW
        innocent = (2,) if number == seccomp.SOCKET[column] else ()
        assert answer(program, arch, number, *innocent) == wanted, number
    for numbers, arguments in (
        (seccomp.CLONE, (0x10000000,)),
        (seccomp.UNSHARE, (0x20000,)),
        (seccomp.IOCTL, (0, seccomp.TIOCSTI)),
        (seccomp.IOCTL, (0, seccomp.TIOCLINUX)),
        *((numbers, (0,) * index + (0o4755,)) for numbers, index in seccomp.WITH_MODE.items()),
        *(
            (numbers, (0,) * index + (0o100, 0o2755))
            for numbers, index in seccomp.WITH_FLAGS_AND_MODE.items()
        ),
        *((numbers, (0,) * index + (7,)) for numbers, index in seccomp.OF_OTHERS.items()),
    ):
        if numbers[column] >= 0:
            assert answer(program, arch, numbers[column], *arguments) == REFUSED, numbers
    assert answer(program, arch, seccomp.SOCKET[column], 40) == REFUSE | errno.EAFNOSUPPORT
    assert answer(program, arch, X32_BIT) == answer(program, 1, 0) == REFUSE | errno.ENOSYS
