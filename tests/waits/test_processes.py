"""Processes that are waited for: ended, killed, dead and unburied, of a number that was given away, standing
still; and a mainspring that is killed meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mainspring.errors import UsageError
from mainspring.events import (
    Condition,
    OnFile,
    OnPid,
    OnProcess,
    OnSlurm,
    OnTime,
    ProcessEnded,
    ProcessStarted,
    SessionStarted,
    WaitEnded,
    WaitStarted,
)
from mainspring.sandbox import Command
from mainspring.sandbox.background import Background
from mainspring.sandbox.custody.tree import stat
from mainspring.session.session import Session, runtime_of
from mainspring.waits.hold import hold
from tests import ROOT
from tests.waits.asleep import Asleep, plain, wanted

S = 1_000_000


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def now_us() -> int:
    return time.time_ns() // 1000


def is_zombie(pid: int) -> bool:
    found = stat(pid)
    return found is not None and found.state == "Z"


def test_a_foreign_process_is_told_from_a_later_one_by_what_is_recorded(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    with running("sleep", "60") as process:

        async def ends(_: Session) -> None:
            process.kill()

        ended = asleep.wait(OnPid(pid=process.pid), meanwhile=ends)
    (started,) = asleep.events(WaitStarted)
    condition = started.conditions[0]
    assert isinstance(condition, OnPid)
    assert condition.name == "sleep"
    assert re.fullmatch(r"[0-9a-f-]{36}/pid:\[\d+\]/\d+", condition.identity)
    assert ended.cause == "met"
    assert f"Process {process.pid} (sleep) has ended" in ended.summary


def test_a_zombie_is_dead(tmp_path: Path) -> None:
    with running("true") as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_zombie(process.pid)
        ended = Asleep(tmp_path).wait(OnPid(pid=process.pid))
    assert ended.cause == "met"
    assert "was not there when the wait began" in ended.summary


def test_one_that_becomes_a_zombie_is_dead_too(tmp_path: Path) -> None:
    with running("sleep", "60") as process:

        async def dies(_: Session) -> None:
            os.kill(process.pid, signal.SIGKILL)  # and nobody waits for it

        ended = Asleep(tmp_path).wait(OnPid(pid=process.pid), meanwhile=dies)
        assert is_zombie(process.pid)
    assert ended.cause == "met"


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**63, 10**30, "own"])
def test_absurd_numbers_are_an_error_before_anything_is_recorded(tmp_path: Path, pid: int | str) -> None:
    asleep = Asleep(tmp_path)
    with pytest.raises(BaseExceptionGroup) as raised:
        asleep.wait(OnPid(pid=os.getpid() if pid == "own" else int(pid)))
    assert raised.group_contains(UsageError)
    assert asleep.events(WaitStarted) == []


@pytest.mark.parametrize("change", ["start", "boot", "namespace"])
def test_a_number_that_belongs_to_another_process_now_means_that_the_first_has_ended(
    tmp_path: Path, change: str
) -> None:
    asleep = Asleep(tmp_path)
    with running("sleep", "60") as process:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        found = stat(process.pid)
        assert found is not None
        space, start = str(Path("/proc/self/ns/pid").readlink()), found.start
        identity = {
            "start": f"{boot}/{space}/{start - 1}",
            "boot": f"another/{space}/{start}",
            "namespace": f"{boot}/pid:[1]/{start}",
        }[change]
        ended = asleep.wait(OnPid(pid=process.pid, identity=identity))
    told = {
        "start": ("met", "belongs to another process now"),
        "boot": ("met", "the machine was restarted"),
        "namespace": ("unknown", "another pid namespace"),
    }
    assert ended.cause == told[change][0]
    assert told[change][1] in ended.summary


REUSE = """
import asyncio, os, subprocess, sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from tests.waits.asleep import Asleep
from mainspring.events import OnPid, WaitStarted
first = subprocess.Popen(["sleep", "60"])
asleep = Asleep(Path({folder!r}))
async def gives_the_number_away(session):
    first.kill()
    first.wait()
    time.sleep(0.03)  # start times have a resolution of 10 ms
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(first.pid - 1))
    second = subprocess.Popen(["sleep", "60"])
    assert second.pid == first.pid, (second.pid, first.pid)
    print("given away")
print(asleep.wait(OnPid(pid=first.pid), meanwhile=gives_the_number_away).summary)
"""


def test_a_number_that_is_really_given_away_is_recognised(tmp_path: Path) -> None:
    unshare = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    can = shutil.which("unshare") and subprocess.run([*unshare, "true"], capture_output=True, check=False)
    if not can or can.returncode:
        pytest.skip("no pid namespace can be made here; the forged identities above show the same")
    paths = [str(ROOT)]
    script = REUSE.format(paths=paths, folder=str(tmp_path))
    done = subprocess.run(
        [*unshare, sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "given away" in done.stdout
    assert "has ended; its number belongs to another process now" in done.stdout


async def background(session: Session, asleep: Asleep, script: str, handle: str = "p1") -> Background:
    """A background process on record, as the tool `shell` starts it."""
    folder = asleep.folder / "processes" / handle
    await runtime_of(session).record(
        ProcessStarted(handle=handle, call="c0", command=script, folder=str(folder))
    )
    sandbox = await runtime_of(session).sandbox()
    return await sandbox.start(Command(argv=("bash", "-c", script), cwd=asleep.work, timeout_s=0), folder)


def waited_beside(asleep: Asleep, script: str, *conditions: Condition, **fields: object) -> WaitEnded:
    """Holds the wait once the process has written something, or has ended."""

    async def held() -> WaitEnded:
        async with asyncio.timeout(60), asleep.awake() as session:
            process = await background(session, asleep, script)
            while (status := process.status()).state == "running" and not status.output_bytes:
                await asyncio.sleep(0.01)
            return await hold(runtime_of(session).waiting, wanted(*conditions, **fields))

    return asyncio.run(held())


def test_a_background_process_is_told_with_exit_code_and_last_output(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)
    ended = waited_beside(asleep, "echo first; echo last; exit 7", OnProcess(handle="p1"), call="c9")
    assert ended.cause == "met"
    assert "p1 ended" in ended.summary
    assert "exit code 7" in ended.summary
    assert ended.summary.rpartition("last output:")[2].startswith("\nfirst\nlast")
    (end,) = asleep.events(ProcessEnded)
    assert (end.exit_code, end.call) == (7, "c9")


def test_a_process_whose_children_go_on_has_ended(tmp_path: Path) -> None:
    ended = waited_beside(Asleep(tmp_path), "sleep 60 & exit 3", OnProcess(handle="p1"))
    assert ended.cause == "met"
    assert "exit code 3" in ended.summary


def test_a_handle_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        Asleep(tmp_path).wait(OnProcess(handle="p7"))
    assert raised.group_contains(UsageError)


def test_processes_that_stand_still_wake_early(tmp_path: Path) -> None:
    ended = waited_beside(
        Asleep(tmp_path),
        "echo begun; sleep 60",
        OnProcess(handle="p1"),
        stall_s=0.3,
        deadline_us=now_us() + 60 * S,
    )
    assert ended.cause == "stalled"
    assert "Nothing used the processor" in ended.summary
    assert "p1 still runs; its last output:\nbegun" in ended.summary


def test_a_tree_of_which_one_leaf_works_does_not_stand_still(tmp_path: Path) -> None:
    busy = "(setsid bash -c 'echo on; while [ $SECONDS -lt 4 ]; do :; done') & wait; exit 4"
    ended = waited_beside(Asleep(tmp_path), busy, OnProcess(handle="p1"), stall_s=2.5)
    assert ended.cause == "met"
    assert "exit code 4" in ended.summary


class Killed:
    """A waiting mainspring that was killed with -9 while its wait was open."""

    def __init__(self, folder: Path, *conditions: Condition, **fields: object) -> None:
        self.asleep = Asleep(folder)
        self.started = wanted(*conditions, **fields)
        text = msgspec.json.encode(self.started).decode()
        script = str(Path(__file__).with_name("waiter.py"))
        waiter = subprocess.Popen([sys.executable, script, str(folder), text], stdout=subprocess.PIPE)
        assert waiter.stdout is not None
        self.recorded = msgspec.json.decode(waiter.stdout.readline(), type=WaitStarted)
        waiter.kill()
        waiter.wait()
        waiter.stdout.close()

    def resumed(self) -> WaitEnded:
        return self.asleep.wait(*self.started.conditions)


def test_a_wait_survives_kill_9_and_finds_out_what_happened_meanwhile(tmp_path: Path) -> None:
    with running("sleep", "60") as process:
        killed = Killed(tmp_path, OnPid(pid=process.pid), OnFile(path="made"), needs="all")
        process.kill()
        process.wait()
    made = killed.asleep.work / "made"
    made.touch()
    ended = killed.resumed()
    assert (ended.cause, ended.met) == ("met", (0, 1))
    assert "had ended already" in ended.summary
    assert killed.asleep.events(WaitEnded) == [ended]
    assert killed.asleep.events(WaitStarted) == [killed.recorded]


def test_a_deadline_and_a_time_that_passed_meanwhile_are_reported_late(tmp_path: Path) -> None:
    at_us = now_us() + 3600 * S
    killed = Killed(tmp_path, OnTime(at_us=at_us), deadline_us=at_us + 60 * S)
    asleep = Asleep(tmp_path, clock=lambda: at_us + 30 * S)
    ended = asleep.wait(*killed.started.conditions)
    assert ended.cause == "met"
    assert ended.late_s == 30.0
    other = Killed(tmp_path / "b", OnFile(path="never"), deadline_us=at_us + 60 * S)
    late = Asleep(tmp_path / "b", clock=lambda: at_us + 90 * S)
    ended = late.wait(*other.started.conditions)
    assert (ended.cause, ended.late_s) == ("deadline", 30.0)
    assert len(late.events(WaitEnded)) == 1


def slurm(folder: Path, **scripts: str) -> str:
    """Fake `sacct` and `squeue`, and the path to find them by."""
    folder.mkdir(parents=True)
    for name, script in scripts.items():
        program = folder / name
        program.write_text(
            f"#!/bin/sh\\ncd {folder}\\necho $0 $* >> asked\\n{script}\\n".replace("\\n", "\n")
        )
        program.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


COUNTED = "echo x >> n; n=$(wc -l < n)"


def test_a_job_is_asked_for_in_the_accounts_until_it_has_ended(tmp_path: Path) -> None:
    states = f"{COUNTED}; [ $n -lt 3 ] && echo 'RUNNING|0:0|Unknown' || echo 'FAILED|2:0|2026-01-31T08:00:00'"
    path = slurm(tmp_path / "bin", sacct=states, squeue="exit 1")
    ended = Asleep(tmp_path, path=path).wait(OnSlurm(job="123_4"))
    assert ended.cause == "met"
    assert "Slurm job 123_4 ended: FAILED, exit code 2:0" in ended.summary
    asked = (tmp_path / "bin" / "asked").read_text().splitlines()
    assert len(asked) == 3
    assert "sacct -X -n -P -j 123_4 -o State,ExitCode,End" in asked[0]


def test_a_job_that_the_accounts_do_not_know_is_looked_for_in_the_queue(tmp_path: Path) -> None:
    path = slurm(
        tmp_path / "bin", sacct="exit 1", squeue=f"{COUNTED}; [ $n -lt 4 ] && echo PENDING || exit 1"
    )
    ended = Asleep(tmp_path, path=path).wait(OnSlurm(job="9"))
    assert ended.cause == "unknown"
    assert "neither sacct nor squeue knows it (3 times in a row)" in ended.summary
    asked = (tmp_path / "bin" / "asked").read_text()
    assert asked.count("squeue") == 6


def test_every_task_of_a_job_array_must_have_ended(tmp_path: Path) -> None:
    rows = "printf 'COMPLETED|0:0|Unknown\\nCANCELLED by 0|0:15|Unknown\\n'"
    states = f"{COUNTED}; [ $n -lt 2 ] && printf 'COMPLETED|0:0|x\\nRUNNING|0:0|x\\n' || {rows}"
    program = tmp_path / "bin"
    program.mkdir()
    (program / "sacct").write_text(f"#!/bin/sh\ncd {program}\n{states}\n")
    (program / "sacct").chmod(0o755)
    ended = Asleep(tmp_path, path=f"{program}:{os.environ['PATH']}").wait(OnSlurm(job="5"))
    assert ended.cause == "met"
    assert "COMPLETED, CANCELLED, exit code 0:0, 0:15" in ended.summary


@pytest.mark.parametrize("job", ["", "-1", "1; true", "--help", "0", "1.batch", "9" * 40])
def test_what_cannot_be_a_job_is_refused(tmp_path: Path, job: str) -> None:
    with pytest.raises(BaseExceptionGroup) as raised:
        Asleep(tmp_path).wait(OnSlurm(job=job))
    assert raised.group_contains(UsageError)


def test_a_process_on_record_that_ended_while_nobody_was_here_is_late(tmp_path: Path) -> None:
    asleep = Asleep(tmp_path)

    async def left_behind() -> float:
        journal = await asleep.store.create("staged")
        folder = tmp_path / "processes" / "p1"
        started = ProcessStarted(
            handle="p1", call="c0", command="exit 5", folder=str(folder), is_staying=True
        )
        await journal.append(
            SessionStarted(session="staged", workspace=str(asleep.work), version="0"),
            started,
            wanted(OnProcess(handle="p1"), deadline_us=now_us() + 3600 * S),
        )
        await journal.close()
        sandbox = await plain()
        kept = await sandbox.start(Command(argv=("bash", "-c", "exit 5"), cwd=asleep.work), folder)
        status = await kept.wait()
        await sandbox.close()
        return status.ended or 0.0

    at_s = asyncio.run(left_behind())
    later = Asleep(tmp_path, clock=lambda: int((at_s + 120) * 1e6))
    ended = later.wait(OnProcess(handle="p1"))
    assert ended.cause == "met"
    assert abs(ended.late_s - 120) < 1
    assert "exit code 5" in ended.summary


def test_a_state_that_slurm_has_and_we_do_not_know_is_no_end(tmp_path: Path) -> None:
    states = f"{COUNTED}; [ $n -lt 3 ] && echo 'EXPEDITING|0:0|Unknown' || echo 'COMPLETED|0:0|Unknown'"
    path = slurm(tmp_path / "bin", sacct=states, squeue="exit 1")
    ended = Asleep(tmp_path, path=path).wait(OnSlurm(job="7"))
    assert "Slurm job 7 ended: COMPLETED" in ended.summary
    assert len((tmp_path / "bin" / "asked").read_text().splitlines()) == 3
