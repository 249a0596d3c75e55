"""`mainspring run --on NAME` as a user runs it, with a real sshd."""

from __future__ import annotations

import json

from tests.cli.conftest import Machine
from tests.ssh_server import ssh_server

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def test_a_run_works_on_another_machine_and_resume_goes_on_there(machine: Machine) -> None:
    options = json.dumps(ssh_server().options)
    there = machine.home.parent / "there"
    machine.home.mkdir()
    (machine.home / "config.toml").write_text(
        f'[machines.far]\nhost = "machine"\nssh_options = {options}\nfolder = "{there}"\nusd_per_hour = 0.01\n'
    )
    shell = {"name": "shell", "arguments": {"command": "pwd | tee where"}}
    model = machine.serve({"calls": [shell]}, {"text": "Once."}, {"calls": [shell]}, {"text": "Twice."})
    ran = machine.run("run", "--on", "far", "--model", model, *FREE, "say where you are")
    assert ran.returncode == 0, ran.stderr
    assert "commands run on far (contained: no)" in ran.stderr
    first = (machine.workspace / "where").read_text()
    assert first.startswith(str(there))
    assert machine.run("resume", "", "again").returncode == 0
    second = (machine.workspace / "where").read_text()
    assert (first[-9:], second[-9:]) == ("-m1/work\n", "-m2/work\n")
    assert "machine far" in machine.run("doctor").stdout
