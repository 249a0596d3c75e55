"""What `audit export`, `usage` and `traces export` write with `-o`."""

from __future__ import annotations

import stat

import pytest

from tests.cli.conftest import Machine, lines

EXPORTS = (("audit", "export"), ("usage", "--format", "json"), ("traces", "export", "--since", "2020-01-01"))


@pytest.mark.parametrize("words", EXPORTS, ids=lambda words: words[0])
def test_an_export_is_a_file_of_its_owner_or_a_clear_refusal(
    machine: Machine, words: tuple[str, ...]
) -> None:
    ran = machine.run(
        "run", "--mode", "auto", "--allow-unpriced", "--model", machine.serve({"text": "Hi"}), "Go"
    )
    assert ran.returncode == 0, ran.stderr
    file = machine.workspace / "export"
    refused = machine.run(*words, "-o", "nowhere/export")
    assert refused.returncode == 2
    assert "nowhere/export cannot be written: No such file or directory" in refused.stderr
    assert "Traceback" not in refused.stderr
    file.write_text("older, for everybody\n")
    file.chmod(0o644)
    assert machine.run(*words, "-o", "export").returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "older" not in file.read_text()
    assert list(machine.workspace.glob(".export*")) == []
    if words[0] == "audit":  # which logs its own beginning
        asked = [line["entry"].get("arguments", {}) for line in lines(file.read_text())]
        assert [each["output"] for each in asked if "output" in each] == ["nowhere/export", "export"]
