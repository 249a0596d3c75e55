"""Every example runs as a user runs it: a process of its own, offline, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
PRINTED = {
    "01_ask.py": "Hello, dear reader.",
    "02_tool.py": "129,000 people live in Ulm.",
    "03_structured_output.py": "City(name='Ulm', people=129000)",
    "04_approver.py": 'deploy {"target":"staging"}: allow\nDeployed.',
    "05_budget.py": "limit: ",
    "06_sub_session.py": "Three files.\nboth together: ",
    "07_watch_events.py": "I have looked around.\n[done after 2 steps]",
    "08_goal.py": "exit code 0, lines: 3",
    "09_resume.py": "The number was 7.",
    "10_replay_as_test.py": "step:2: same",
    "11_step.py": "ok, exit code 0: built",
    "12_starlette.py": "200 It is a fine day.",
}


def test_every_example_is_run_here() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("[0-9]*.py")) == sorted(PRINTED)


@pytest.mark.parametrize("name", sorted(PRINTED))
def test_an_example_runs_and_prints_what_it_says(name: str, tmp_path: Path) -> None:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env={**kept, "MAINSPRING_HOME": str(tmp_path.with_name(f"home-of-{tmp_path.name}"))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert PRINTED[name] in ran.stdout
