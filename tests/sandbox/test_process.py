"""Custody on the lowest rung: what ends, when, and what is said about it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, CommandResult, ProcessLimits
from mainspring.sandbox.custody.outside import join_cgroup
from mainspring.sandbox.custody.tree import descendants
from mainspring.sandbox.custody.warden import LASTING
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox

Run = Callable[..., Coroutine[Any, Any, CommandResult]]


def within(tmp_path: Path, story: Callable[[Run], Awaitable[None]]) -> None:
    async def main() -> None:
        sandbox = PlainSandbox(environment={"PATH": os.environ["PATH"], "GITHUB_TOKEN": "s3cret"})

        async def run(script: str, **options: Any) -> CommandResult:
            on_output = options.pop("on_output", None)
            command = Command(argv=("bash", "-c", script), cwd=tmp_path, **options)
            return await sandbox.run(command, on_output)

        try:
            await story(run)
        finally:
            await sandbox.close()

    asyncio.run(main())


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_failing_command_gives_its_code_and_both_streams(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await run("echo out; echo err >&2; exit 3")
        assert (done.exit_code, done.stdout, done.stderr, done.stopped) == (3, b"out\n", b"err\n", "")

    within(tmp_path, story)


def test_a_background_child_that_holds_the_pipes_does_not_delay_the_return(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await run("sleep 100 & echo $!")
        assert done.duration_s < 60
        assert done.left_running == (int(done.stdout),)
        assert is_alive(done.left_running[0])

    within(tmp_path, story)


def test_what_was_left_running_ends_with_the_sandbox(tmp_path: Path) -> None:
    left: list[int] = []

    async def story(run: Run) -> None:
        left.extend((await run("setsid sleep 100 & setsid sleep 100 & true")).left_running)

    within(tmp_path, story)
    assert len(left) == 2
    assert not any(is_alive(pid) for pid in left)


async def timed_out(run: Run, script: str, *, words: int) -> CommandResult:
    """What is left of a command whose time was over when it had printed so many words: it gets as much time
    as that takes on this machine."""
    for timeout_s in (0.2, 1, 5, 25):
        done = await run(script, timeout_s=timeout_s)
        assert done.stopped == f"timed out after {timeout_s} s"
        assert done.duration_s < timeout_s + 30
        if len(done.stdout.split()) == words:
            return done
    raise AssertionError(f"it printed only {done.stdout!r}")


def test_a_time_out_ends_children_that_called_setsid_and_forked_twice(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        script = "(setsid sh -c 'echo $$; exec sleep 100' &); setsid sleep 100 & echo $!; sleep 100"
        done = await timed_out(run, script, words=2)
        assert not any(is_alive(int(pid)) for pid in done.stdout.split())

    within(tmp_path, story)


def test_a_command_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await timed_out(run, "trap '' TERM; echo deaf; while :; do sleep 1; done", words=1)
        assert done.exit_code == 137

    within(tmp_path, story)


def test_cancellation_ends_the_tree_before_it_is_passed_on(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        pids: list[int] = []
        ready = asyncio.Event()

        def note(data: bytes) -> None:
            pids.extend(int(word) for word in data.split())
            ready.set()

        async with asyncio.TaskGroup() as group:
            task = group.create_task(run("setsid sleep 100 & echo $!; sleep 100", on_output=note))
            await ready.wait()
            task.cancel()
        assert not is_alive(pids[0])

    within(tmp_path, story)


def test_output_of_any_length_is_kept_at_both_ends_and_counted(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await run("echo first; head -c 300M /dev/zero; echo last", max_output_bytes=1000)
        assert done.stdout.startswith(b"first\n")
        assert done.stdout.endswith(b"last\n")
        assert len(done.stdout) < 1100
        assert done.dropped_bytes == 300 * 1024 * 1024 + len("first\nlast\n") - 1000

    within(tmp_path, story)


def test_an_output_limit_ends_an_endless_writer_and_is_named(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await run("yes", limits=ProcessLimits(output_bytes=8 * 1024 * 1024), max_output_bytes=1000)
        assert done.stopped == "output limit of 8 MiB"

    within(tmp_path, story)


def test_a_cpu_limit_is_named_for_one_process_and_for_a_tree(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        alone = await run("while :; do :; done", limits=ProcessLimits(cpu_s=1))
        together = await run(
            "for i in 1 2 3 4; do (while :; do :; done) & done; wait", limits=ProcessLimits(cpu_s=1)
        )
        assert (alone.stopped, together.stopped) == ("CPU limit of 1 s", "CPU limit of 1 s")

    within(tmp_path, story)


def test_output_arrives_while_the_command_still_runs(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        def answer(data: bytes) -> None:
            (tmp_path / "seen").write_bytes(data)

        script = "echo ready; until [ -s seen ]; do sleep 0.01; done; cat seen"
        assert (await run(script, on_output=answer, timeout_s=60)).stdout == b"ready\nready\n"

    within(tmp_path, story)


def test_a_program_that_is_missing_or_not_executable_is_the_commands_failure(tmp_path: Path) -> None:
    async def main() -> None:
        sandbox = PlainSandbox(environment={})
        (tmp_path / "plain").write_text("text")
        for argv, code in {
            ("no-such-program",): 127,
            ("./plain",): 126,
            ("./gone",): 127,
            ("a\0b",): 126,
        }.items():
            assert (await sandbox.run(Command(argv=argv, cwd=tmp_path))).exit_code == code
        huge = await sandbox.run(Command(argv=("true", "x" * 3_000_000), cwd=tmp_path))
        assert (huge.exit_code, huge.stderr) == (126, b"true: Argument list too long\n")
        nowhere = await sandbox.run(Command(argv=("true",), cwd=tmp_path / "gone"))
        assert nowhere.exit_code == 126
        await sandbox.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    "script",
    [
        "read answer; echo got:$answer",
        "cat",
        "read answer </dev/tty",
        "git -c user.name=a -c user.email=b@c init -q . && git commit --allow-empty",
        "python3 -c 'input()'",
        "python3 -c 'import getpass; getpass.getpass()'",
        "less /etc/passwd",
        "vi x </dev/tty",
        "ssh -o ConnectTimeout=1 nobody@localhost true",
    ],
)
def test_a_command_that_wants_a_person_does_not_hang(tmp_path: Path, script: str) -> None:
    async def story(run: Run) -> None:
        assert (await run(script, timeout_s=60)).stopped == ""

    within(tmp_path, story)


def test_the_environment_is_fresh_and_unattended(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        seen = dict(line.split("=", 1) for line in (await run("env")).stdout.decode().splitlines())
        assert "GITHUB_TOKEN" not in seen
        assert (seen["CI"], seen["GIT_TERMINAL_PROMPT"], seen["PAGER"]) == ("1", "0", "cat")

    within(tmp_path, story)


def test_no_descriptor_of_ours_reaches_the_command(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        done = await run("exec ls /proc/self/fd")
        assert done.stdout.split() == [b"0", b"1", b"2", b"3"]

    within(tmp_path, story)


def test_killing_its_guard_gains_a_command_nothing(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        with pytest.raises(SandboxError):
            await run("echo $$ > pid; kill -9 $PPID; exec sleep 100")
        pid = int((tmp_path / "pid").read_text())
        descriptor = None
        try:
            descriptor = os.pidfd_open(pid)
            ended = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().add_reader(descriptor, ended.set_result, None)
            await asyncio.wait_for(ended, 60)
        except ProcessLookupError:
            pass
        finally:
            if descriptor is not None:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)
        assert not is_alive(pid)
        assert (await run("echo on")).stdout == b"on\n"

    within(tmp_path, story)


def test_one_guard_serves_many_commands_and_counts_each_alone(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        first = await run("head -c 200m /dev/zero | tail -c 100m | wc -c")
        later = [await run("echo $PPID") for _ in range(20)]
        assert len({done.stdout for done in later}) <= LASTING
        assert first.max_rss_bytes > 100_000_000
        assert all(done.max_rss_bytes < first.max_rss_bytes / 2 for done in later)

    within(tmp_path, story)


@pytest.fixture
def without_sigio() -> Iterator[None]:
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGIO, before)


@pytest.mark.usefixtures("without_sigio")
def test_commands_that_cannot_start_yet_do_not_hold_up_others(tmp_path: Path) -> None:
    """As with a program on a network disk that is away. A lease has the kernel wait before it opens a file."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    async def story(run: Run) -> None:
        with program.open("r+b") as file:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError:
                pytest.skip("this file system knows no leases")
            sandbox = PlainSandbox(environment={"PATH": os.environ["PATH"]})
            await run("true")
            command = Command(argv=(str(program),), cwd=tmp_path)
            held = [asyncio.create_task(sandbox.run(command)) for _ in range(4)]
            for _ in range(2):  # the first may come before those
                other = await sandbox.run(Command(argv=("true",), cwd=tmp_path, timeout_s=20))
                assert other.stopped == ""
            assert not any(task.done() for task in held)
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        await asyncio.gather(*held)
        await sandbox.close()

    within(tmp_path, story)


def test_two_hundred_commands_run_at_once(tmp_path: Path) -> None:
    async def story(run: Run) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run(f"echo {number}")) for number in range(200)]
        assert [int(task.result().stdout) for task in tasks] == list(range(200))

    within(tmp_path, story)


@pytest.mark.parametrize("names", [("cgroup.procs", "tasks"), ("cgroup.procs",)])
def test_a_cgroup_is_joined_by_one_thread_where_that_is_possible(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Version 1 has `tasks`, and a move of a whole process makes every command wait."""
    for name in names:
        (tmp_path / name).touch()
    join_cgroup(str(tmp_path))
    assert [name for name in names if (tmp_path / name).read_text()] == [names[-1]]


def test_the_first_command_of_a_chosen_rung_finds_the_helper_process_there(tmp_path: Path) -> None:
    def started() -> set[int]:
        return {found.pid for found in descendants(os.getpid()) if found.ppid == os.getpid()}

    async def main() -> None:
        before, environment = started(), {"PATH": os.environ["PATH"]}
        sandbox = await choose(policy(tmp_path, home=tmp_path), environment, name="none")
        try:
            ready = started()
            await sandbox.run(Command(argv=("true",), cwd=tmp_path))
            assert len(ready - before) == 1
            assert started() == ready
        finally:
            await sandbox.close()

    asyncio.run(main())
