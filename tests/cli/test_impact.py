"""`mainspring impact`: what a change reaches, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from mainspring.cli.impact import impact_command
from tests.app.operations.test_impact import CALC, repository


def test_impact_prints_api_callers_tests_and_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path)
    (root / "src/shop/calc.py").write_text(CALC.replace("second=0", "second"), encoding="utf-8")
    monkeypatch.chdir(root)
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    shown = CliRunner().invoke(impact_command, [])
    assert shown.exit_code == 0, shown.output
    assert "changed src/shop/calc.py:1 add [major] parameter second has no default any more" in shown.output
    assert "src/shop/desk.py:3 uses add" in shown.output
    assert "tests/test_desk.py" in shown.output
    as_json = json.loads(CliRunner().invoke(impact_command, ["--json"]).output)
    assert as_json["semver"] == "major"
