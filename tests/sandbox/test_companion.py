"""A process of ours that never outlives us. Python's own prompt (`-m code`) stands for one: a line in, one out."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox.companion import Companion, start_companion

HOST = """
import asyncio
from mainspring.sandbox.companion import start_companion
async def main():
    companion = await start_companion("code", b"print(1)", environment={}, timeout_s=60)
    print(companion.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


async def start(line: bytes, timeout_s: float = 60) -> Companion:
    return await start_companion("code", line, environment={}, timeout_s=timeout_s)


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_answers_and_ends_when_it_is_closed() -> None:
    async def use() -> int:
        companion = await start(b"print(6 * 7)")
        assert b"42" in companion.answer
        assert companion.is_alive
        await companion.close()
        assert not companion.is_alive
        return companion.pid

    assert is_gone(asyncio.run(use()))


def test_one_that_ends_without_an_answer_says_what_it_printed() -> None:
    with pytest.raises(SandboxError, match=r"(?s)ended before it answered.*out of tensors"):
        asyncio.run(start(b"import os; os.write(2, b'out of tensors'); os._exit(3)"))


def test_one_that_does_not_answer_in_time_is_ended() -> None:
    with pytest.raises(SandboxError, match=r"did not answer within 0\.5 s"):
        asyncio.run(start(b"import time; time.sleep(60)", 0.5))


def test_it_is_gone_when_we_are_killed() -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    assert not is_gone(pid)
    host.send_signal(signal.SIGKILL)
    host.communicate()
    deadline = time.monotonic() + 60
    while not is_gone(pid):
        assert time.monotonic() < deadline
        os.sched_yield()
