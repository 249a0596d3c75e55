"""The classic loops as a program calls them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mainspring
from mainspring import DrvloopConfig, ExploopConfig, run_drvloop, run_exploop
from mainspring.errors import UsageError

INTERRUPTED = """
import sys
from mainspring import ExploopConfig, run_exploop
sys.exit(run_exploop(ExploopConfig(goal="reach it", engine="exec:sh agent.sh")))
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def agent(workspace: Path, script: str) -> str:
    (workspace / "agent.sh").write_text(f"cat > prompt; {script}\n")
    return "exec:sh agent.sh"


def test_the_defaults_are_those_of_the_loops() -> None:
    exploop, drvloop = ExploopConfig(goal="g"), DrvloopConfig(goal="g")
    assert (exploop.max_iterations, exploop.wait_seconds, exploop.max_wait_seconds) == (10, 1.0, 6000.0)
    assert drvloop.max_iterations == 30


def test_the_exit_code_says_how_it_ended(workspace: Path) -> None:
    done = agent(workspace, "echo '<promise>DONE</promise>'")
    assert run_exploop(ExploopConfig(goal="one", workspace=workspace, engine=done)) == 0
    assert run_drvloop(DrvloopConfig(goal="two", workspace=workspace, engine=done)) == 1, "no claim is proved"
    claim = '[[claim]]\nname = "a"\nstatement = "1 = 1"\ncheck = "test 1 = 1"\ngoal = true\n'
    proves = f"mkdir -p projects; cat > projects/claims.toml <<'X'\n{claim}X\necho '<promise>DONE</promise>'"
    config = DrvloopConfig(goal="shown", workspace=workspace, engine=agent(workspace, proves))
    assert run_drvloop(config) == 0
    fails = agent(workspace, "exit 7")
    assert run_exploop(ExploopConfig(goal="three", workspace=workspace, engine=fails)) == 7
    goes_on = agent(workspace, "date +%N > f")
    config = ExploopConfig(goal="four", workspace=workspace, engine=goes_on, max_iterations=2, wait_seconds=0)
    assert run_exploop(config) == 1
    assert (workspace / "prompt").read_text().count("Turn 2 of 2") == 1


@pytest.mark.parametrize(
    "wrong", [{"max_iterations": 0}, {"wait_seconds": -1}, {"max_wait_seconds": 0}, {"max_cost_usd": -0.5}]
)
def test_a_wrong_number_is_named(wrong: dict[str, float], workspace: Path) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=name):
        run_exploop(ExploopConfig(goal="g", workspace=workspace, engine="exec:true", **wrong))  # pyright: ignore[reportArgumentType]


def test_an_empty_goal_is_an_error(workspace: Path) -> None:
    with pytest.raises(UsageError, match="empty"):
        run_drvloop(DrvloopConfig(goal=" ", workspace=workspace))


def test_ctrl_c_gives_130_and_the_goal_goes_on_later(workspace: Path) -> None:
    os.mkfifo(workspace / "reached")
    agent(workspace, "[ -e go ] && echo '<promise>DONE</promise>' || { echo x > reached; exec sleep 300; }")
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], cwd=workspace) as running:
        try:
            assert (workspace / "reached").read_text() == "x\n"
            running.send_signal(signal.SIGINT)
            assert running.wait(60) == 130
        finally:
            running.kill()
    (workspace / "go").touch()
    assert subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=workspace, check=False).returncode == 0
    assert "Turn 1 of 10" in (workspace / "prompt").read_text()


def test_a_background_job_ignores_ctrl_c_and_ends_on_sigterm(workspace: Path) -> None:
    os.mkfifo(workspace / "reached")
    agent(workspace, "echo $$ > reached; exec sleep 300")
    argv = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(argv, cwd=workspace) as running:
        try:
            assert int((workspace / "reached").read_text())
            running.send_signal(signal.SIGINT)
            running.terminate()
            assert running.wait(60) == -signal.SIGTERM
        finally:
            running.kill()


def test_they_are_loaded_when_they_are_used() -> None:
    code = "import sys, mainspring; assert 'asyncio' not in sys.modules; mainspring.run_exploop"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    assert {"run_exploop", "run_drvloop", "ExploopConfig", "DrvloopConfig"} <= set(mainspring.__all__)
