"""Background commands: they outlive us, and are found again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mainspring.errors import SandboxError
from mainspring.sandbox import Command, ProcessLimits, Sandbox
from mainspring.sandbox.background import Background
from mainspring.sandbox.custody.keeper import Segments
from mainspring.sandbox.held import hold, release
from mainspring.sandbox.policy import policy
from mainspring.sandbox.probe import build, probe
from mainspring.sandbox.protect import MAX_KEPT_BYTES, remember
from mainspring.sandbox.rungs.bwrap import BwrapSandbox
from mainspring.sandbox.survey import Survey

STARTER = """
import asyncio, os, sys
from pathlib import Path
from mainspring.sandbox import Command
from mainspring.sandbox.rungs.process import PlainSandbox

async def main():
    sandbox = PlainSandbox(environment={"PATH": os.environ["PATH"]})
    script = "echo before; read line; echo after $line; exit 6"
    await sandbox.start(Command(argv=("bash", "-c", script), cwd=Path("/"), timeout_s=60), Path(sys.argv[1]))
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def with_each_rung(tmp_path: Path, story: Callable[[Sandbox, Path], Awaitable[None]]) -> None:
    async def main() -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        standing = [rung.name for rung in (await probe(environment)).rungs if rung.is_available]
        for name in standing:
            work = tmp_path / name
            work.mkdir()
            sandbox = build(name, policy(work, home=tmp_path), environment)
            try:
                await story(sandbox, work)
            finally:
                await sandbox.close()

    asyncio.run(main())


def command(script: str, cwd: Path, **options: object) -> Command:
    return Command(argv=("bash", "-c", script), cwd=cwd, **({"timeout_s": 60} | options))  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_output_and_exit_code_are_kept_on_every_rung(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        background = await sandbox.start(command("echo one; echo two >&2; exit 3", work), work / "state")
        status = await background.wait(60)
        assert (status.state, status.exit_code) == ("exited", 3), sandbox.name
        assert background.output().data == b"one\ntwo\n"
        assert background.output(since=4).data == b"two\n"

    with_each_rung(tmp_path, story)


def test_a_stop_ends_the_whole_tree_on_every_rung(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        script = "setsid sleep 300 & (setsid sleep 300 &); read x; sleep 300"
        background = await sandbox.start(command(script, work), work / "state")
        assert background.status().state == "running"
        status = await background.stop("no longer needed")
        assert (status.state, status.stopped, status.left_running) == ("exited", "no longer needed", ())
        assert not is_alive(status.pid)

    with_each_rung(tmp_path, story)


def test_what_it_did_to_protected_paths_is_set_aside_at_its_end_on_every_rung(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        script = (
            "mkdir .vscode; echo x > .vscode/tasks.json; git init -q sub; echo x > sub/.git/hooks/pre-commit"
        )
        state = tmp_path / f"state-{sandbox.name}"
        background = await sandbox.start(command(script, work), state)
        await background.wait(60)
        if sandbox.is_containing:
            assert release(state) == (".vscode", "sub/.git/hooks/pre-commit"), sandbox.name
            assert not (work / ".vscode").exists()
            assert release(state) == (), "once"
        else:
            assert release(state) == ()

    with_each_rung(tmp_path, story)


def test_what_is_too_large_to_keep_is_set_aside_when_it_changed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    large = work / ".vscode" / "tasks.json"
    large.parent.mkdir(parents=True)
    large.write_bytes(b"x" * (MAX_KEPT_BYTES + 1))
    confinement = policy(work, home=tmp_path)
    found = Survey(is_watching=False).look(confinement)
    for change in (b"", b"y"):
        hold(tmp_path / "state", confinement, found, remember(found.protected))
        with large.open("ab") as file:
            file.write(change)
        assert release(tmp_path / "state") == ((".vscode/tasks.json",) if change else ())
    assert not large.exists()


def test_what_somebody_else_changes_meanwhile_is_left_alone(tmp_path: Path) -> None:
    async def main() -> tuple[str, ...]:
        work = tmp_path / "work"
        work.mkdir()
        subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
        sandbox = BwrapSandbox(policy(work, home=tmp_path), environment=dict(os.environ))
        try:
            background = await sandbox.start(command("sleep 300", work), tmp_path / "state")
            subprocess.run(["git", "config", "user.name", "me"], cwd=work, check=True)
            await background.stop()
            return release(tmp_path / "state")
        finally:
            await sandbox.close()

    assert asyncio.run(main()) == ()


def test_a_protected_path_in_a_folder_that_was_moved_away_is_not_mistaken_for_it(tmp_path: Path) -> None:
    async def main() -> tuple[str, ...]:
        work = tmp_path / "work"
        (work / "a/.vscode").mkdir(parents=True)
        sandbox = BwrapSandbox(policy(work, home=tmp_path), environment=dict(os.environ))
        try:
            return (await sandbox.run(command("mv a b; mkdir -p a/.vscode", work))).set_aside
        finally:
            await sandbox.close()

    assert asyncio.run(main()) == ("a/.vscode",)


def test_a_terminal_is_there_when_asked_for(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        script = "test -t 0 && read -p 'name? ' name </dev/tty; echo hello $name"
        background = await sandbox.start(command(script, work), work / "state", is_terminal=True)
        background.send(b"world\n")
        await background.wait(60)
        assert b"hello world" in background.output().data, sandbox.name

    with_each_rung(tmp_path, story)


def test_input_goes_down_a_pipe_and_can_be_ended(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        background = await sandbox.start(command("exec cat", work), work / "state")
        background.send(b"x" * 5000)
        background.close_input()
        await background.wait(60)
        assert background.output().data == b"x" * 5000
        with pytest.raises(SandboxError):
            background.send(b"late")

    with_each_rung(tmp_path, story)


def test_input_waits_for_a_command_that_is_slow_to_take_it(tmp_path: Path) -> None:
    """A pipe holds 64 KiB."""

    async def story(sandbox: Sandbox, work: Path) -> None:
        script = "until test -e go; do sleep 0.02; done; exec cat"
        background = await sandbox.start(command(script, work), work / "state")
        background.send(b"x" * 300_000)
        background.close_input()
        (work / "go").touch()
        await background.wait(60)
        assert background.status().output_bytes == 300_000

    with_each_rung(tmp_path, story)


def test_a_limit_on_the_disk_holds_in_the_background(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        limits = ProcessLimits(disk_reserve_bytes=1 << 60)
        background = await sandbox.start(command("sleep 300", work, limits=limits), work / "state")
        assert (await background.wait(60)).stopped.startswith("disk reserve of")

    with_each_rung(tmp_path, story)


def test_output_for_which_there_is_no_room_does_not_end_a_keeper(tmp_path: Path) -> None:
    segments = Segments(tmp_path / "state", 1 << 20)
    segments.write(b"nowhere to go")
    (tmp_path / "state").mkdir()
    segments.write(b"room again")
    assert (tmp_path / "state/output.0").read_bytes() == b"room again"


def test_a_command_survives_our_death_and_is_adopted_again(tmp_path: Path) -> None:
    starter = subprocess.run([sys.executable, "-c", STARTER, str(tmp_path / "state")], check=False)
    assert starter.returncode == -9

    async def main() -> None:
        background = Background(tmp_path / "state")
        assert background.status().state == "running"
        background.send(b"adoption\n")
        status = await background.wait(60)
        assert (status.state, status.exit_code) == ("exited", 6)
        assert background.output().data == b"before\nafter adoption\n"

    asyncio.run(main())


def test_long_output_is_bounded_on_disk_and_says_what_is_gone(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        script = "echo first; yes | head -c 50M; echo last"
        limited = command(script, work, max_output_bytes=1 << 20)
        background = await sandbox.start(limited, work / "state")
        status = await background.wait(60)
        assert status.output_bytes == 50 * 1024 * 1024 + len("first\nlast\n")
        assert sum(path.stat().st_size for path in (work / "state").glob("output.*")) <= 5 << 18
        assert background.output(0, 6).data == b"first\n"
        late = background.output(since=10 << 20)
        assert late.skipped > 0
        assert background.output(since=status.output_bytes - 5).data == b"last\n"

    with_each_rung(tmp_path, story)


def test_a_time_limit_ends_it_without_us(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        background = await sandbox.start(command("sleep 300", work, timeout_s=0.3), work / "state")
        assert (await background.wait(60)).stopped == "timed out after 0.3 s"

    with_each_rung(tmp_path, story)


def test_a_process_that_inherited_the_number_is_not_taken_for_the_keeper(tmp_path: Path) -> None:
    async def main() -> None:
        other = subprocess.Popen(["sleep", "300"])
        meta = {"keeper": other.pid, "keeper_start": 1, "pid": other.pid, "pid_start": 1, "boot": "x"}
        (tmp_path / "meta.json").write_text(json.dumps({**meta, "started": 0.0, "is_terminal": False}))
        background = Background(tmp_path)
        assert background.status().state == "lost"
        assert (await background.stop()).state == "lost"
        assert other.poll() is None
        other.kill()
        other.wait()

    asyncio.run(main())


def test_a_program_that_cannot_start_is_said_at_once(tmp_path: Path) -> None:
    async def story(sandbox: Sandbox, work: Path) -> None:
        with pytest.raises(SandboxError, match="not found"):
            await sandbox.start(Command(argv=("no-such-program",), cwd=work), work / "state")

    with_each_rung(tmp_path, story)
