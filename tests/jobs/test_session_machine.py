import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app.operations.jobs import check_machines
from mainspring.app.programs import OpenOptions
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.errors import JobHostError, UsageError
from mainspring.events import (
    ApprovalAsked,
    CallEnded,
    FilesChanged,
    MachineChosen,
    MachineEnded,
    MachineStarted,
    SpendReserved,
    SpendSettled,
)
from mainspring.jobs.machines import RemoteMachine
from mainspring.jobs.shells import HostShell
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.settings import Config
from mainspring.testing import Stage, tool_call
from tests import ROOT
from tests.jobs.machine_stage import config_there
from tests.jobs.stage import free
from tests.ssh_server import ssh_server


def _config(folder: Path, **changes: Any) -> Config:
    return config_there(folder, ssh_server().options, **changes)


def _options(folder: Path, **changes: Any) -> OpenOptions:
    return free(_config(folder, **changes))


def _shell(command: str, **more: Any) -> Any:
    return tool_call("shell", command=command, **more)


def _outputs(stage: Stage) -> list[str]:
    return [each.output for each in stage.events(CallEnded)]


def test_commands_run_in_a_copy_that_is_kept_in_step_and_can_be_undone(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        _shell(
            "pwd; cat in/a.txt; echo changed > in/a.txt; mkdir out; echo made > 'out/ä b'; rm old; ls -A; exit 7"
        ),
        tool_call("write", path="new.txt", content="from here\n"),
        _shell("cat new.txt in/a.txt; test -e 'out/ä b'; ln -s new.txt link"),
        _shell("cat new.txt"),
        "Done.",
    )
    (stage.workspace / "in").mkdir()
    (stage.workspace / "in/a.txt").write_text("sent\n")
    (stage.workspace / "old").write_text("old\n")
    (stage.workspace / ".env").write_text("KEY=hidden-from-agents\n")
    (stage.workspace / ".git").mkdir()
    (stage.workspace / ".git/config").write_text("")
    assert stage.run("go", **_options(tmp_path)).is_done
    first, _, second, third = _outputs(stage)
    assert first.splitlines() == [
        "exit code 7",
        f"{tmp_path}/there/ms-{stage.session}-m1/work",
        "sent",
        "in",
        "out",
    ]
    assert second.startswith("exit code 0\nfrom here\nchanged\n(did not travel: link")
    assert third == "exit code 0\nfrom here"
    assert (stage.workspace / "in/a.txt").read_text() == "changed\n"
    assert not (stage.workspace / "old").exists()
    changes = {change.path for each in stage.events(FilesChanged)[:1] for change in each.changes}
    assert changes == {"in/a.txt", "out", "out/ä b", "old"}
    (chosen,), (started,) = stage.events(MachineChosen), stage.events(MachineStarted)
    (ended,) = stage.events(MachineEnded)
    assert (chosen.machine, started.machine, ended.why) == ("far", "far", "asked")
    assert not (tmp_path / "there" / started.name / "work").exists()


def test_a_use_is_paid_for_by_its_first_command_and_settled_by_the_time_that_it_took(tmp_path: Path) -> None:
    stage = Stage(tmp_path, _shell("true"), _shell("true"), "Done.")
    assert stage.run("go", **_options(tmp_path, usd_per_hour=2.0, max_hours=3.0)).is_done
    reserved = [each.usd for each in stage.events(SpendReserved) if each.source == "call"]
    settled = [each.usd for each in stage.events(SpendSettled) if each.spend.startswith("call:")]
    (started,), (ended,) = stage.events(MachineStarted), stage.events(MachineEnded)
    assert (reserved, started.usd) == ([6.0, 0.0], 6.0)
    assert ended.usd is not None
    assert ended.usd < 1.0
    assert sorted(settled) == sorted([0.0, ended.usd])


@pytest.mark.parametrize(
    ("price", "mode", "blocked_by"),
    [(None, "yolo", "unknown_price"), (100.0, "yolo", "over_cap"), (0.0, "auto", "mode")],
)
def test_what_is_not_contained_or_not_affordable_is_asked_about_and_nothing_reaches_the_machine(
    price: float | None, mode: str, blocked_by: str, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, _shell("true"), "Done.")
    options = _options(tmp_path, usd_per_hour=price)
    options["mode"] = mode
    assert stage.run("go", **options).ending == "blocked"
    assert [asked.blocked_by for asked in stage.events(ApprovalAsked)] == [blocked_by]
    assert not stage.events(MachineStarted)
    assert not (tmp_path / "there").exists()


def test_time_limits_and_the_background_are_told(tmp_path: Path) -> None:
    stage = Stage(
        tmp_path,
        _shell("sleep 300 & sleep 300", timeout_s=0.5),
        _shell("sleep 300", background=True),
        _shell("(setsid sleep 299 &) ; echo made > made"),
        "Done.",
    )
    assert stage.run("go", **_options(tmp_path)).is_done
    late, background, _ = _outputs(stage)
    assert "timed out after 0.5 s" in late
    assert "submit_job" in background
    (started,) = stage.events(MachineStarted)
    assert (stage.workspace / "made").exists()
    assert not _running(started.name)


def _running(name: str) -> list[str]:
    """The processes of a use that are alive."""
    found: list[str] = []
    for each in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"MAINSPRING_MACHINE={name}".encode() in each.read_bytes().split(b"\0"):
                found.append(each.parent.name)
        except OSError:
            continue
    return found


def test_a_connection_that_is_lost_is_told_and_ends_the_command(tmp_path: Path) -> None:
    """The command kills the server's side of its own connection."""
    cut = "echo once >> effects; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 300"
    stage = Stage(tmp_path, _shell(cut), _shell("cat effects"), "Done.")
    assert stage.run("go", **_options(tmp_path)).is_done
    lost, after = _outputs(stage)
    assert "the connection was lost; what ran there was ended. It was not run again" in lost
    assert after == "exit code 0\nonce"
    assert not _running(stage.events(MachineStarted)[0].name)


def test_a_machine_that_cannot_be_reached_leaves_its_use_open_until_somebody_knows(tmp_path: Path) -> None:
    server = ssh_server()
    stage = Stage(tmp_path, _shell("true"), "Unknown.", _shell("echo hello"), "Known.")
    options = _options(tmp_path, usd_per_hour=2.0, max_hours=1.0)
    server.stop()
    try:
        assert stage.run("go", **options).is_done
    finally:
        server.start()
    assert "Nothing was run" in _outputs(stage)[0]
    assert not stage.events(MachineEnded)
    assert stage.run("again", **options).is_done
    assert next((each.why, each.usd) for each in stage.events(MachineEnded)) == ("never_begun", 0.0)
    assert _outputs(stage)[1] == "exit code 0\nhello"


def test_a_session_that_is_killed_leaves_nothing_there_and_goes_on_there_without_being_told(
    tmp_path: Path,
) -> None:
    child = [sys.executable, "-m", "tests.jobs.killed_there", str(tmp_path), str(ssh_server().settings)]
    done = subprocess.run(child, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    stage = Stage(tmp_path, "Done.", _shell("pwd"), "Done.", sessions=SqliteSessions(tmp_path / "store"))
    (stage.session,) = asyncio.run(stage.sessions.names())
    (first,) = stage.events(MachineStarted)
    deadline = time.monotonic() + 60
    while _running(first.name):
        assert time.monotonic() < deadline
    unsaid = free(msgspec.structs.replace(_config(tmp_path), machine=""))
    assert stage.run("", **unsaid).is_done
    assert stage.run("again", **unsaid).is_done
    assert [each.use for each in stage.events(MachineStarted)] == ["m1", "m2"]
    assert [each.use for each in stage.events(MachineEnded)] == ["m1", "m2"]
    assert len(stage.events(MachineChosen)) == 1
    assert "-m2/work" in _outputs(stage)[-1]


def test_a_command_that_is_stopped_is_ended_there_with_all_that_it_began(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    stage = Stage(tmp_path, _shell(f"sleep 300 & setsid sleep 300 & touch {begun}; wait"))

    async def stop() -> None:
        async with stage.open(**_options(tmp_path)) as session:
            async for recorded in session.watch("go"):
                if isinstance(recorded.event, MachineStarted):
                    while not begun.exists():
                        await asyncio.sleep(0.02)
                    session.stop_soon()

    asyncio.run(stop())
    (started,) = stage.events(MachineStarted)
    assert not _running(started.name)
    assert [each.why for each in stage.events(MachineEnded)] == ["asked"]


def test_a_machine_ends_everything_itself_when_nobody_is_heard_of(tmp_path: Path) -> None:
    settings = _config(tmp_path, silence_minutes=0.05).settings.machines["far"]

    async def go_silent() -> str:
        shell = HostShell(_plain, dict(os.environ), settings.host, settings.ssh_options)
        machine = RemoteMachine(shell, settings, "ms-silent-m1")
        await machine.begin(3600)
        await machine.run(1, "sleep 300", 3600, lambda _: None)
        found = await machine.look(1, tmp_path / "listed")
        await machine.end()
        await machine.close()
        return found.over.split()[1]

    assert asyncio.run(go_silent()) == "silence"
    assert not _running("ms-silent-m1")


async def _plain() -> PlainSandbox:
    return PlainSandbox(environment=os.environ)


def test_what_changed_on_both_sides_stays_as_it_is_here_and_all_can_be_undone(tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    stage = Stage(
        tmp_path,
        _shell(f"echo there > both; echo there > one; rm gone; echo here > {place}/both"),
        _shell("cat both"),
        "Done.",
    )
    for name in ("both", "one", "gone"):
        (stage.workspace / name).write_text("before\n")

    async def undo() -> None:
        async with stage.open(**_options(tmp_path)) as session:
            await session.undo("files")

    assert stage.workspace == place
    assert stage.run("go", **_options(tmp_path)).is_done
    assert (place / "one").read_text() == "there\n"
    assert not (place / "gone").exists()
    asyncio.run(undo())
    first, second = _outputs(stage)
    assert "both (changed here while the command ran" in first
    assert second == "exit code 0\nhere"
    assert [(place / name).read_text() for name in ("one", "gone")] == ["before\n", "before\n"]


def test_doctor_asks_machines_and_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    config = _config(tmp_path)
    (check,) = asyncio.run(check_machines(config))
    assert (check.name, check.is_ok, "contained: no" in check.found) == ("far", True, True)
    elsewhere = free(msgspec.structs.replace(config, machine="nowhere"))
    with pytest.raises(UsageError, match="no machine 'nowhere'"):
        Stage(tmp_path, "Done.").run("go", **elsewhere)


def test_a_shell_there_that_prints_when_it_begins_is_told_before_anything_runs(tmp_path: Path) -> None:
    noisy = ("-o", "PermitLocalCommand=yes", "-o", "LocalCommand=echo Welcome", *ssh_server().options)
    config = config_there(tmp_path, noisy)
    stage = Stage(tmp_path, _shell("touch made"), "Done.")
    (check,) = asyncio.run(check_machines(config))
    assert not check.is_ok
    assert stage.run("go", **free(config)).is_done
    for said in (check.found, *_outputs(stage)):
        assert "prints something when it begins: 'Welcome'" in said
    assert "Nothing was run" in _outputs(stage)[0]
    assert not (stage.workspace / "made").exists()


def test_a_listing_that_makes_no_sense_takes_nothing_away_here(tmp_path: Path) -> None:
    """A command can put another `find` before the one of the machine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "find").write_text("#!/bin/sh\nprintf '12 no listing\\0'\n")
    (programs / "find").chmod(0o755)

    async def noisy() -> PlainSandbox:
        return PlainSandbox(environment={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})

    async def look() -> None:
        machine = RemoteMachine(HostShell(noisy, {}, ""), _config(tmp_path).settings.machines["far"], "ms-m1")
        await machine.begin(3600)
        try:
            with pytest.raises(JobHostError, match="no list of files"):
                await machine.look(0, tmp_path / "listed")
        finally:
            await machine.end()
            await machine.close()

    asyncio.run(look())
