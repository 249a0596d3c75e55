"""What works on systems other than Linux, and that what does not is said plainly.

There is no other system here: `other_system.py` takes away what macOS and Windows do not have.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.catalog.folder import SessionFiles
from mainspring.events import CallEnded
from mainspring.system import LINUX, MACOS, OTHER, WINDOWS, WSL1, find_system
from tests import ROOT

ELSEWHERE = Path(__file__).with_name("other_system.py")
WSL2_RELEASE = "5.15.153.1-microsoft-standard-WSL2"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "MAINSPRING_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path),
    }
    (tmp_path / "work").mkdir()

    def start(system: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            *(["-P", str(ELSEWHERE), system] if system != "linux" else ["-m", "mainspring"]),
        ]
        return subprocess.run(
            [*command, *arguments],
            env=environment,
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            check=False,
        )

    return start


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model that uses every tool that works without commands, and tries one that does not."""
    calls = [
        ("write", {"path": "a.txt", "content": "one\n"}),
        ("edit", {"path": "a.txt", "edits": [{"old": "one", "new": "two"}]}),
        ("read", {"path": "a.txt"}),
        ("find", {"glob": "*.txt"}),
        ("grep", {"pattern": "tw."}),
        ("shell", {"command": "ls"}),
    ]
    replies = [{"calls": [{"name": name, "arguments": given}]} for name, given in calls]
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"replies": [*replies, {"text": "Done."}]}))
    return f"scripted@{script}"


def a_session(run: Run, model: str) -> str:
    ran = run("linux", "run", "change it", "--model", model, "--mode", "plan")
    assert ran.returncode == 0, ran.stderr
    return run("linux", "sessions").stdout.split()[0]


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_sessions_are_read_on_every_system(run: Run, model: str, tmp_path: Path, system: str) -> None:
    session = a_session(run, model)
    for command in (
        ["--help"],
        ["sessions"],
        ["show", session],
        ["cost"],
        ["context", session],
        ["diff", session],
        ["verify", session],
        ["export", session, "-o", str(tmp_path / "exported.jsonl")],
        ["models"],
        ["engines"],
        ["ps"],
        ["execs"],
        ["memory"],
        ["goal", "list"],
        ["goal", "schedules"],
        ["approvals", "list"],
    ):
        ran = run(system, *command)
        assert ran.returncode == 0, (command, ran.stderr)
        assert session in ran.stdout + ran.stderr or command[0] not in ("sessions", "export"), ran.stdout


def test_file_tools_work_on_macos_and_commands_are_not_offered(run: Run, model: str, tmp_path: Path) -> None:
    ran = run("darwin", "run", "change it", "--model", model)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.startswith("note: There is no sandbox for macOS yet")
    assert (tmp_path / "work" / "a.txt").read_text() == "two\n"
    session = run("darwin", "sessions").stdout.split()[0]
    events = [recorded.event for recorded in SessionFiles(tmp_path / "data").file(session).read()]
    outcomes = [event.outcome for event in events if isinstance(event, CallEnded)]
    assert outcomes == ["ok"] * 5 + ["error"]
    undone = run("darwin", "undo", session)
    assert undone.returncode == 0, undone.stderr
    assert not (tmp_path / "work" / "a.txt").exists()


def test_without_proc_the_lock_alone_keeps_a_second_writer_out(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests import other_system
other_system.become("darwin")
from mainspring.errors import JournalOwned
from mainspring.disk.owner import own, owner_of
folder = Path(sys.argv[2])
mine = own(folder, "s")
assert owner_of(folder).is_alive
try:
    own(folder, "s")
except JournalOwned as error:
    print(error.message)
mine.release()
assert owner_of(folder) is None
own(folder, "s")
print("owned again")
"""
    ran = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("Session s is being written by process")
    assert ran.stdout.endswith("owned again\n")


def test_a_session_is_resumed_on_macos(run: Run, model: str) -> None:
    run("darwin", "run", "change it", "--model", model)
    ran = run("darwin", "resume", run("darwin", "sessions").stdout.split()[0], "more", "--model", model)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    "command", [["demo"], ["daemon", "start"], ["daemon", "run", "--once"], ["exec", "--", "true"]]
)
@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_what_needs_commands_is_refused_with_what_to_do_instead(
    run: Run, system: str, command: list[str]
) -> None:
    ran = run(system, *command)
    assert ran.returncode == 1
    name = {"darwin": "macOS", "win32": "Windows"}[system]
    assert f"which do not run on {name} yet" in ran.stderr
    assert "Linux" in ran.stderr


@pytest.mark.parametrize("command", [["run", "x"], ["goal", "start", "x"]])
def test_windows_refuses_to_write_sessions(run: Run, model: str, command: list[str]) -> None:
    ran = run("win32", *command, "--model", model)
    assert ran.returncode == 1
    assert ran.stderr.count("No session can run on Windows yet") == 1, ran.stderr
    assert "WSL 2" in ran.stderr


@pytest.mark.parametrize(("system", "name"), [("darwin", "macOS"), ("win32", "Windows"), ("linux", "Linux")])
def test_doctor_names_the_system_and_what_does_not_work_there(run: Run, system: str, name: str) -> None:
    ran = run(system, "doctor")
    assert f"system: {name}" in ran.stdout, ran.stderr
    assert ("no commands run" in ran.stdout) == (system != "linux")
    found = json.loads(run(system, "doctor", "--json").stdout)
    assert found["ok"] == (system == "linux" and bool(found["rung"]))


@pytest.mark.parametrize(
    ("platform", "release", "system"),
    [
        ("linux", "6.1.0-18-amd64", LINUX),
        ("linux", WSL2_RELEASE, LINUX),
        ("linux", "4.4.0-19041-Microsoft", WSL1),
        ("linux", "", LINUX),
        ("darwin", "", MACOS),
        ("win32", "", WINDOWS),
        ("freebsd14", "", OTHER),
    ],
)
def test_the_system_is_told_by_its_kernel(platform: str, release: str, system: object) -> None:
    assert find_system(platform, release) is system
