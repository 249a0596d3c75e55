"""What the README and the page about Python show works as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mainspring.models.scripted import Script, ScriptedReply
from mainspring.testing.server import HostedModelServer

ROOT = Path(__file__).parent.parent
PYTHON = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PYTHON, re.DOTALL)


def test_the_python_example_runs(tmp_path: Path) -> None:
    example = EXAMPLES[0]
    with HostedModelServer(Script(replies=(ScriptedReply(text="A few files."),))) as server:
        code = example.replace("http://127.0.0.1:8080/v1", server.url)
        assert code != example
        ran = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={
                "MAINSPRING_HOME": str(tmp_path.with_name(f"home-of-{tmp_path.name}")),
                "PATH": "/usr/bin:/bin",
            },
            capture_output=True,
            text=True,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    assert "A few files." in ran.stdout
    assert ran.stdout.splitlines()[-1].startswith("TurnEnded")


def test_the_example_of_a_loop_runs(tmp_path: Path) -> None:
    example = EXAMPLES[1]
    agent = "#!/bin/sh\necho 'METRIC loss=0.4' > result.csv\necho '<promise>DONE</promise>'\n"
    (tmp_path / "agent.sh").write_text(agent)
    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"MAINSPRING_HOME": str(tmp_path.with_name(f"home-of-{tmp_path.name}")), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "projects" / "memory.md").exists()


def test_the_example_of_a_stage_runs_without_anything_of_the_user() -> None:
    (example,) = EXAMPLES[2:]
    ran = subprocess.run(
        [sys.executable, "-c", example],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_readme_is_one_screen() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 50


def test_the_demo_kills_resumes_and_loses_nothing(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mainspring", "demo", "--keep", str(tmp_path / "demo")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "SCRIPTED" in ran.stdout
    assert ran.stdout.count("✓ ") >= 5
    assert "✗ " not in ran.stdout.rpartition("■ done")[2]
