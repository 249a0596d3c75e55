"""Checks after a change: what they add to an edit, and what a session pays that has them off."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from bench.measure import median, row, timing
from mainspring.app.checks import session_checks
from mainspring.checks.settings import ChecksSettings
from mainspring.context.work import UNASSISTED
from mainspring.events import ChangesChecked
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call

EDITS = 30
WARM = 5
RUFF = "[format]\nquote-style = 'double'\n"
FORMATTED = '[tool.ruff]\nline-length = 100\n[tool.ruff.format]\nquote-style = "double"\n'


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        served = checked_s(Path(folder), {"ruff.toml": RUFF})
    with tempfile.TemporaryDirectory() as folder:
        started = checked_s(Path(folder), {"pyproject.toml": FORMATTED})
    told("checks of an edit: syntax, and ruff's resident server", served, "target 15 ms")
    told("the same, and a formatter that is started for it", started, "target 300 ms")
    with tempfile.TemporaryDirectory() as folder:
        config = config_in(Path(folder), after_change="off")
        timing("opening a session with checks off", [off_s(config) for _ in range(200)], unit="µs")


def checked_s(folder: Path, files: dict[str, str]) -> list[float]:
    """What checking took after each of some edits, as it is on record."""
    edits = [tool_call("write", path=f"a{number}.py", content=f"x = {number}\n") for number in range(EDITS)]
    stage = Stage(folder, *edits, "Done.")
    for name, text in files.items():
        (stage.workspace / name).write_text(text, encoding="utf-8")
    stage.run("Go", config=config_in(folder, wait_ms=60_000), mode="auto")
    checked = stage.events(ChangesChecked)
    assert all(set(file.by) >= {"ruff", "syntax"} for event in checked for file in event.files)
    return [event.duration_s for event in checked][WARM:]


def config_in(folder: Path, **checks: Any) -> Config:
    path = f"{Path(sys.prefix, 'bin')}:{os.environ.get('PATH', os.defpath)}"
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": path})
    settings = msgspec.structs.replace(config.settings, work=UNASSISTED, checks=ChecksSettings(**checks))
    return msgspec.structs.replace(config, settings=settings)


def told(name: str, taken: list[float], target: str) -> None:
    row(name, f"{median(taken) * 1000:.1f} ms", "", target, median_s=median(taken))


def off_s(config: Config) -> float:
    start = time.perf_counter()
    assert session_checks(config) is None
    return time.perf_counter() - start
