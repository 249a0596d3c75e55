"""`mainspring index`: updating, finding, uses and the map, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Machine
from tests.index.test_index import repository


def test_the_index_of_a_repository_is_made_and_asked(machine: Machine, tmp_path: Path) -> None:
    machine.workspace = repository(tmp_path / "repo")
    missing = machine.run("index", "status")
    assert missing.returncode == 2
    assert "mainspring index" in missing.stderr
    made = machine.run("index")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("read 3 files, removed 0")
    found = machine.run("index", "find", "Car").stdout
    assert "shop/model.py:3: class Car  # Drives on wheels." in found
    assert machine.run("index", "uses", "drive").stdout == "shop/model.py: 6\nshop/user.py: 3\n"
    assert "shop/model.py: Car" in machine.run("index", "map").stdout
    again = json.loads(machine.run("index", "--json").stdout)
    assert (again["change"]["read"], again["status"]["symbols"]) == (0, 2)
    nothing = machine.run("index", "find", "zebra")
    assert (nothing.returncode, nothing.stdout) == (1, "Nothing has these words.\n")


def test_what_time_does_not_allow_is_left_and_told(machine: Machine, tmp_path: Path) -> None:
    machine.workspace = repository(tmp_path / "repo")
    cut = machine.run("index", "--max-seconds", "0.000001")
    assert "3 files not looked at yet: mainspring index goes on with them." in cut.stdout
    assert "not looked at" not in machine.run("index", "--max-seconds", "600").stdout
    assert machine.run("index", "--max-seconds", "0").returncode == 2


def test_the_home_folder_is_not_indexed(machine: Machine) -> None:
    refused = machine.run("index", HOME=str(machine.workspace))
    assert refused.returncode == 2
    assert "holds the home folder" in refused.stderr
    assert not (machine.home / "code-index").exists()
