"""A process of another version that still runs is noticed, and how to replace it is said."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mainspring import __version__
from mainspring.disk.owner import own, owner_of
from tests.upgrades.installation import Installation
from tests.upgrades.make_fixture import shell

OTHER = "0.0.9"
SAID = f"runs mainspring {OTHER}; this is {__version__}."
RESTART = "mainspring daemon stop, then mainspring daemon start"


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)


@contextmanager
def daemon(old: Installation, version: str) -> Iterator[None]:
    process = old.start("daemon", "run", version=version)
    with ended(process):
        assert process.stderr is not None
        # Folders that the old version left open to others are told first.
        told = next(line for line in process.stderr if "yours alone" not in line)
        assert f"started: version {version}" in told
        yield


def test_a_daemon_of_another_version_is_noticed(old: Installation) -> None:
    limits = ("--max-cost-usd", "1", "--yes")
    with daemon(old, OTHER):
        shown = old.run("daemon", "status").stdout
        assert f"version {OTHER}" in shown
        assert f"this is version {__version__}. Restart it: {RESTART}" in shown
        assert json.loads(old.run("daemon", "status", "--json").stdout)["version"] == OTHER
        told = old.run(
            "goal", "schedule", "0 3 1 1 *", "Look", "--mode", "yolo", *limits, folder="goal"
        ).stderr
        assert SAID in told
        assert RESTART in told
        refused = old.run("daemon", "start", code=3).stderr
        assert SAID in refused
        assert RESTART in refused
        checks = json.loads(old.start("doctor", "--json").communicate(timeout=300)[0])["checks"]
        (found,) = [check for check in checks if check["name"] == "daemon"]
        assert SAID in found["found"]
        assert found["remedy"] == "mainspring daemon stop && mainspring daemon start"
        old.run("daemon", "stop")


def test_a_daemon_of_this_version_is_nothing_to_speak_of(old: Installation) -> None:
    limits = ("--max-cost-usd", "1", "--yes")
    with daemon(old, __version__):
        assert "Restart" not in old.run("daemon", "status").stdout
        told = old.run("goal", "schedule", "0 3 1 1 *", "Look", "--mode", "yolo", *limits, folder="goal")
        assert told.stderr == ""
        checks = json.loads(old.start("doctor", "--json").communicate(timeout=300)[0])["checks"]
        assert "daemon" not in {check["name"] for check in checks}
        old.run("daemon", "stop")


def test_a_session_that_another_version_runs_is_noticed(old: Installation) -> None:
    old.serve(shell("touch begun; until test -e end; do sleep 0.05; done"), {"text": "Ended."})
    run = old.start("run", "--json", "--mode", "yolo", "Wait", folder="healed", version=OTHER)
    assert run.stdout is not None
    session = next(
        event["session"] for line in run.stdout if "session" in (event := json.loads(line)["body"])
    )
    for line in run.stdout:
        if json.loads(line)["kind"] == "CallStarted":
            break
    refused = old.run("resume", session, "more", folder="healed", code=3).stderr
    assert SAID in refused
    checks = json.loads(old.start("doctor", "--json").communicate(timeout=300)[0])["checks"]
    (found,) = [check for check in checks if check["name"] == "session"]
    assert session in found["found"]
    assert SAID in found["found"]
    assert f"mainspring resume {session}" in found["remedy"]
    (old.work / "healed" / "end").touch()
    run.communicate(timeout=300)
    assert run.returncode == 0


def test_an_answer_for_a_session_that_another_version_runs_says_so(old: Installation) -> None:
    session = old.session("blocked")
    folder = old.home / "sessions" / session
    owned = own(folder, session)
    rewrite(folder, version=OTHER)
    old.serve({"text": "said before"}, {"text": "It is there."})
    approve = old.start("approve", session, folder="blocked")
    assert approve.stderr is not None
    assert SAID in approve.stderr.readline()
    owned.release()
    told = approve.communicate(timeout=300)[1]
    assert approve.returncode == 0, told
    assert (old.work / "blocked" / "allowed").exists()


def test_an_owner_without_a_version_is_of_the_first_one(old: Installation) -> None:
    folder = old.home / "sessions" / old.session("undone")
    owned = own(folder, "undone")
    running = owner_of(folder)
    assert running is not None
    assert (running.version, running.other_version) == (__version__, "")
    rewrite(folder, version=None)
    running = owner_of(folder)
    assert running is not None
    assert (running.version, running.is_alive) == ("0.1.0", True)
    owned.release()


def rewrite(folder: Path, *, version: str | None) -> None:
    """Changes the version in the record of who owns a session; None takes it away."""
    lock = folder / "owner.lock"
    record = {**json.loads(lock.read_bytes()), "version": version}
    lock.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))
