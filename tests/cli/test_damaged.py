"""Commands on a journal that was changed, cut or restored behind our back: nothing is written on it."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import apsw
import pytest

from tests.cli.conftest import Machine

COMMAND = {"name": "shell", "arguments": {"command": "echo once >> effects"}}
FREE = ("--mode", "yolo", "--sandbox", "none", "--max-cost-usd", "1", "--allow-unpriced")


def change(folder: Path, statement: str) -> None:
    connection = apsw.Connection(str(folder / "journal.sqlite"))
    connection.execute(statement)
    connection.close()


@pytest.fixture
def session(machine: Machine) -> str:
    """A session that had one effect."""
    model = machine.serve({"calls": [COMMAND]}, {"text": "Done."}, {"text": "Again."}, {"text": "More."})
    assert machine.run("run", "--model", model, *FREE, "do it").returncode == 0
    return machine.only_session()["id"]


def journal_of(machine: Machine, session: str) -> Path:
    return machine.home / "sessions" / session


@pytest.mark.parametrize(
    "command", [("resume", "{}", "go on"), ("undo", "{}"), ("compact", "{}"), ("rewind", "{}", "--to", "3")]
)
def test_a_damaged_journal_is_refused_by_whatever_would_write(
    machine: Machine, session: str, command: tuple[str, ...]
) -> None:
    folder = journal_of(machine, session)
    kinds = [event["kind"] for event in machine.events(session)]
    broken = kinds.index("CallStarted") + 1
    change(folder, f"UPDATE events SET kind = 'Invented' WHERE seq = {broken}")
    before = (folder / "journal.sqlite").read_bytes()
    done = machine.run(*(word.format(session) for word in command))
    assert done.returncode == 1
    assert f"event {broken} does not match its hash" in done.stderr
    assert f"mainspring fork {session} --at {broken - 1}" in done.stderr
    assert (folder / "journal.sqlite").read_bytes() == before
    assert (machine.workspace / "effects").read_text() == "once\n"
    assert machine.run("fork", session, "--at", str(broken - 1)).returncode == 0


def test_a_deleted_last_event_is_noticed_and_a_restored_copy_can_be_accepted(
    machine: Machine, session: str
) -> None:
    folder = journal_of(machine, session)
    older = folder.parent.parent / "backup.sqlite"
    shutil.copy(folder / "journal.sqlite", older)
    events = len(machine.events(session))
    assert machine.run("resume", session, "again", *FREE).returncode == 0
    assert f"anchor at event {len(machine.events(session))}" in machine.run("verify", session).stdout
    shutil.copy(older, folder / "journal.sqlite")
    verified = machine.run("verify", session)
    assert verified.returncode == 1
    assert f"it ends after event {events}" in verified.stdout
    assert f"mainspring fork {session} --at {events}" in verified.stderr
    refused = machine.run("resume", session, "more", *FREE)
    assert refused.returncode == 1
    assert f"mainspring verify --accept {session}" in refused.stderr
    assert machine.run("verify", "--accept", session).returncode == 0
    assert machine.run("resume", session, "more", *FREE).returncode == 0
    assert machine.run("verify", session).returncode == 0


def test_an_anchor_is_private_and_may_be_missing(machine: Machine, session: str) -> None:
    anchor = journal_of(machine, session) / "anchor.json"
    assert stat.S_IMODE(anchor.stat().st_mode) == 0o600
    anchor.unlink()
    assert "no anchor yet" in machine.run("verify", session).stdout
    assert machine.run("resume", session, "again", *FREE).returncode == 0
    assert anchor.exists()


def test_an_anchor_that_cannot_be_read_is_said_and_can_be_made_again(machine: Machine, session: str) -> None:
    anchor = journal_of(machine, session) / "anchor.json"
    anchor.write_text("{")
    refused = machine.run("resume", session, "again", *FREE)
    assert refused.returncode == 1
    assert "anchor" in refused.stderr
    assert machine.run("verify", "--accept", session).returncode == 0
    assert machine.run("resume", session, "again", *FREE).returncode == 0


def test_an_import_has_an_anchor_of_its_own(machine: Machine, session: str) -> None:
    exported = machine.workspace / "session.jsonl"
    assert machine.run("export", session, "-o", str(exported)).returncode == 0
    elsewhere = str(machine.home.parent / "elsewhere")
    assert machine.run("import", str(exported), MAINSPRING_HOME=elsewhere).returncode == 0
    count = len(machine.events(session))
    assert f"anchor at event {count}" in machine.run("verify", session, MAINSPRING_HOME=elsewhere).stdout


def test_a_daily_line_kept_elsewhere_shows_a_journal_that_was_rewritten_with_its_anchor(
    machine: Machine, tmp_path: Path
) -> None:
    kept = tmp_path / "elsewhere/anchors"
    machine.home.mkdir(exist_ok=True)
    (machine.home / "config.toml").write_text(f'[journal]\ndaily_anchor = "{kept}"\n')
    model = machine.serve({"text": "Done."}, {"text": "Again."})
    assert machine.run("run", "--model", model, *FREE, "do it").returncode == 0
    session = machine.only_session()["id"]
    date, name, events, head = next(line.split() for line in kept.read_text().splitlines() if session in line)
    assert (len(date), name, len(head)) == (10, session, 64)
    assert int(events) == len(machine.events(session))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert machine.run("verify", session).returncode == 0
    folder = journal_of(machine, session)
    change(folder, f"DELETE FROM events WHERE seq = {events}")
    (folder / "anchor.json").unlink()
    damaged = machine.run("verify", session)
    assert damaged.returncode == 1
    assert "1 event is lost" in damaged.stdout
    kept.unlink()
    assert machine.run("verify", session).returncode == 0


def test_doctor_says_when_daily_lines_cannot_be_written(machine: Machine, tmp_path: Path) -> None:
    machine.home.mkdir(exist_ok=True)
    (tmp_path / "a-file").write_text("")
    (machine.home / "config.toml").write_text(f'[journal]\ndaily_anchor = "{tmp_path}/a-file/anchors"\n')
    assert "no lines are kept" in machine.run("doctor").stdout
    model = machine.serve({"text": "Done."})
    assert machine.run("run", "--model", model, *FREE, "do it").returncode == 0
