"""What is whole in a damaged export is imported, and what is not is marked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine

LONG = "a long line of a long text " * 2000


@pytest.fixture
def export(machine: Machine, tmp_path: Path) -> list[bytes]:
    """The lines of a session that is not here any more: its header, a blob, and its events."""
    call = {"name": "shell", "arguments": {"command": "seq 1 20000"}}
    model = machine.serve({"text": LONG, "calls": [call]}, {"text": "one"}, {"text": "two"})
    assert machine.run("run", "hello", "--model", model).returncode == 0
    session = machine.only_session()["id"]
    machine.run("export", session, "-o", str(tmp_path / "whole.jsonl"))
    machine.run("sessions", "delete", session, "--yes")
    return (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)


def events_of(lines: list[bytes]) -> list[int]:
    """Where the events stand."""
    return [place for place, line in enumerate(lines) if b'"line":"event"' in line[:40]]


def changed_text(lines: list[bytes]) -> None:
    (place,) = (each for each in events_of(lines) if b'"kind":"UserSaid"' in lines[each])
    lines[place] = lines[place].replace(b"hello", b"hullo")


def garbled(lines: list[bytes]) -> None:
    lines[events_of(lines)[4]] = b"\xff\x00{not json\n"


def lost_lines(lines: list[bytes]) -> None:
    del lines[events_of(lines)[3] : events_of(lines)[5]]


def cut_short(lines: list[bytes]) -> None:
    del lines[-2:]
    lines[-1] = lines[-1][:20]


def no_header(lines: list[bytes]) -> None:
    lines[0] = b"\x00\x00\n"


def no_blobs(lines: list[bytes]) -> None:
    lines[:] = [line for line in lines if b'"line":"blob"' not in line[:40]]


def spoilt_start(lines: list[bytes]) -> None:
    place = events_of(lines)[0]
    lines[place] = lines[place].replace(b'"version":"', b'"version":7,"x":"')


DAMAGE: dict[str, tuple[Callable[[list[bytes]], None], int, int]] = {
    "a changed event": (changed_text, 1, 0),
    "a garbled line": (garbled, 1, 0),
    "lines are lost": (lost_lines, 2, 0),
    "the end is lost": (cut_short, 0, 3),
    "the header is lost": (no_header, 0, 0),
    "the blobs are lost": (no_blobs, 2, 0),
    "the first event": (spoilt_start, 1, 0),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_whole_is_imported_and_the_rest_is_marked(
    machine: Machine, export: list[bytes], tmp_path: Path, kind: str
) -> None:
    damage, unreadable, missing = DAMAGE[kind]
    count = len(events_of(export))
    damage(export)
    file = tmp_path / "damaged.jsonl"
    file.write_bytes(b"".join(export))
    refused = machine.run("import", str(file))
    assert refused.returncode in (1, 2)
    assert machine.run("sessions", "--json").stdout == ""
    told = machine.run("import", "--salvage", str(file))
    assert told.returncode == 0, told.stderr
    assert told.stderr.count("could not be read") == unreadable
    assert ("events at the end are missing" in told.stderr) == bool(missing)
    session = told.stdout.strip()
    assert machine.run("verify", session).stdout.startswith("sound: ")
    found: list[dict[str, Any]] = machine.events(session)
    noted, ended = bool(unreadable or missing), bool(missing)
    assert len(found) == count - missing + noted + ended
    assert (found[-1]["kind"] == "TurnEnded") == (ended or not noted)
    marked = [each for each in found if each["kind"] == "Unreadable"]
    assert len(marked) == unreadable - (kind == "the first event")
    assert found[0]["body"]["workspace"] == str(machine.workspace)
    assert "hullo" not in json.dumps(found[:-1][2:]) or kind == "a changed event"
    model = f"openai-compatible@{machine.servers[-1].url}#test"
    assert machine.run("resume", session, "go on", "--model", model).returncode == 0


def test_what_holds_no_event_is_refused(machine: Machine, tmp_path: Path) -> None:
    file = tmp_path / "noise.jsonl"
    file.write_bytes(b"\x00\xff noise\n" * 50)
    told = machine.run("import", "--salvage", str(file))
    assert (told.returncode, "No event of this file can be read" in told.stderr) == (2, True)
    assert machine.run("sessions", "--json").stdout == ""
