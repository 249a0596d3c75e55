"""A file of a newer version is refused with a sentence and stays as it is; a cache of another is made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.models.capabilities import Capabilities
from mainspring.workspace.contents import Contents
from mainspring.workspace.tree import TreeEntry
from tests.upgrades.installation import Installation
from tests.upgrades.make_fixture import shell

FREE = ("--mode", "yolo")
FIRST, NEWER = b"\xa1v\x01", b"\xa1v\x63"  # the record of a version, in MessagePack


def newer_json(path: Path) -> None:
    content: Any = json.loads(path.read_bytes())
    content = content if isinstance(content, dict) else {"entries": content}
    path.write_text(json.dumps({**content, "format_version": 99}))


def newer_text(path: Path) -> None:
    path.write_text(f"format_version = 99\nnew_key = 1\n{path.read_text()}")


def newer_memory(path: Path) -> None:
    path.write_text(f"# format_version: 99\n{path.read_text()}")


def newer_journal(path: Path) -> None:
    """SQLite keeps the version that a program gives its file in four bytes from the 60th on."""
    data = bytearray(path.read_bytes())
    data[60:64] = (99).to_bytes(4, "big")
    path.write_bytes(data)


REFUSED = [
    ("grants.json", newer_json, "", ("approvals", "list")),
    ("grants.json", newer_json, "", ("approvals", "revoke", "5")),
    ("grants.json", newer_json, "blocked", ("approve", "SESSION", "--scope", "project")),
    ("schedules.json", newer_json, "", ("goal", "schedules")),
    ("schedules.json", newer_json, "goal", ("goal", "schedule", "@daily", "More", "--no-cost-cap", "--yes")),
    ("daemon/record.json", newer_json, "", ("daemon", "status")),
    ("daemon/record.json", newer_json, "", ("daemon", "run", "--once")),
    ("memory/undone-*.md", newer_memory, "undone", ("memory", "show")),
    ("memory/undone-*.md", newer_memory, "undone", ("memory", "add", "more")),
    ("sessions/SESSION/secrets.json", newer_json, "secret", ("resume", "SESSION", "more", *FREE)),
    ("sessions/SESSION/processes/p1/meta.json", newer_json, "crashed", ("stop", "SESSION", "p1")),
    ("sessions/SESSION/processes/p1/held.json", newer_json, "crashed", ("stop", "SESSION", "p1")),
    ("../../config/mainspring/config.toml", newer_text, "", ("run", "--model", "scripted@none", "go")),
    ("../../config/mainspring/approvals.toml", newer_text, "", ("approvals", "rules")),
]


@pytest.mark.parametrize(("name", "make_newer", "folder", "command"), REFUSED)
def test_a_newer_file_is_refused_and_left_as_it_is(
    old: Installation, name: str, make_newer: Any, folder: str, command: tuple[str, ...]
) -> None:
    session = old.session(folder) if folder else ""
    (path,) = (found.resolve() for found in old.home.glob(name.replace("SESSION", session)))
    make_newer(path)
    before = path.read_bytes()
    arguments = [session if each == "SESSION" else each for each in command]
    process = old.start(*arguments, folder=folder)
    _, told = process.communicate(timeout=300)
    assert process.returncode not in (0, 3), told
    assert f"{path} has format version 99, and this program reads up to " in told
    assert "Upgrade mainspring" in told
    assert path.read_bytes() == before


def test_a_newer_journal_is_refused_and_the_others_are_listed(old: Installation) -> None:
    session = old.session("undone")
    path = old.home / "sessions" / session / "journal.sqlite"
    newer_journal(path)
    before = path.read_bytes()
    for command in (("show", session), ("resume", session, "more"), ("undo", session)):
        told = old.run(*command, folder="undone", code=1).stderr
        assert "has format version 99, and this program reads up to 1" in told
        assert "Upgrade mainspring" in told
    assert {row["state"] for row in old.rows("sessions") if row["id"] == session} == {"damaged"}
    assert path.read_bytes() == before


def test_an_index_of_another_version_is_made_again(old: Installation) -> None:
    rows = old.rows("sessions")
    index = old.home / "index.sqlite"
    version = index.read_bytes()[60:64]
    newer_journal(index)
    assert index.read_bytes()[60:64] != version
    assert old.rows("sessions") == rows
    assert index.read_bytes()[60:64] == version


def test_refusals_of_models_in_another_version_are_found_again(old: Installation, tmp_path: Path) -> None:
    path = tmp_path / "healed.json"
    Capabilities(path).keep("m", {"tools"})
    assert Capabilities(path).known("m") == {"tools"}
    newer_json(path)
    assert Capabilities(path).known("m") == set()
    Capabilities(old.home / "healed.json").keep("m", {"tools"})
    assert Capabilities(old.home / "healed.json").known("m") == {"tools"}


def test_file_contents_of_another_version_are_kept_again(tmp_path: Path) -> None:
    entry = TreeEntry(mode=0o100644, size=3, mtime_ns=1, ctime_ns=1, inode=1, content="ab" * 32)
    first = Contents(tmp_path / "contents")
    assert first.load() is None
    assert first.keep("ab" * 32, b"abc") == ""
    first.see("a.txt", entry)
    first.close()
    again = Contents(tmp_path / "contents")
    assert list(again.load() or {}) == ["a.txt"]
    again.close()
    log = tmp_path / "contents-0" / "log"
    data = log.read_bytes()
    log.write_bytes(data.replace(FIRST, NEWER, 1))
    newer = Contents(tmp_path / "contents")
    assert newer.load() is None
    assert not newer.has("ab" * 32)
    newer.close()


def test_artifacts_known_to_another_version_are_looked_at_again(old: Installation) -> None:
    session = old.session("goal")
    old.serve(
        cases=[
            {"contains": "Turn 3 of", "replies": [shell("echo 6 > value"), {"text": "Better."}]},
            {"contains": "Turn 4 of", "replies": [shell("echo 5 > value"), {"text": "Better still."}]},
        ]
    )
    old.run("goal", "resume", session, "--max-iterations", "3", *FREE, folder="goal", code=5)
    for path in (old.home / "artifacts").glob("*.artifacts"):
        known = msgspec.msgpack.decode(path.read_bytes())
        for entry in known["entries"].values():
            entry.update(content="00" * 32, is_fresh=False)
        path.write_bytes(msgspec.msgpack.encode({**known, "format_version": 99}))
    before = len(old.events(session, "ArtifactsChanged"))
    old.run("goal", "resume", session, "--max-iterations", "4", *FREE, folder="goal", code=5)
    changed = old.events(session, "ArtifactsChanged")[before:]
    assert [change["path"] for event in changed for change in event["body"]["changes"]] == ["value"]
