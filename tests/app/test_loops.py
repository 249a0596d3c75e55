"""The classic loops as a program calls them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    "wrong",
    [
        {"max_iterations": 0},
        {"max_iterations": "3"},
        {"wait_seconds": -1},
        {"max_wait_seconds": float("nan")},
        {"max_cost_usd": -0.5},
        {"sandbox": "tight"},
        {"mode": "wild"},
        {"progress": "loud"},
        {"user_prompt": "twice"},
        {"repo_dir": 3},
        {"checks": "pytest -q"},
        {"targets": ("loss<1",)},
        {"effort": "huge"},
    ],
)
def test_a_wrong_value_is_named_and_also_a_value_error(wrong: dict[str, Any], workspace: Path) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=name) as raised:
        ExploopConfig(goal="g", workspace=workspace, engine="exec:true", **wrong)
    assert isinstance(raised.value, ValueError)


def test_the_field_names_of_the_ancestors_work(workspace: Path, tmp_path: Path) -> None:
    done = agent(workspace, "echo '<promise>DONE</promise>'")
    old = {"repo_dir": workspace, "engine": done, "max_iterations": 2, "progress": "silent"}
    waits = {"wait_seconds": 0.0, "max_wait_seconds": 0, "sandbox": "workspace-write"}
    assert run_exploop(ExploopConfig(user_prompt="find a result", **old, **waits)) == 0
    assert "find a result" in (workspace / "prompt").read_text()
    file = tmp_path / "task.md"
    file.write_text("read from a file")
    assert run_drvloop(DrvloopConfig(prompt_file=file, **old)) == 1  # it proved no claim
    assert "read from a file" in (workspace / "prompt").read_text()
    with pytest.raises(ValueError, match="prompt_file"):
        run_drvloop(DrvloopConfig(prompt_file=tmp_path / "missing.md", **old))


def test_progress_is_told_on_the_screen_to_a_function_or_to_a_logger(
    workspace: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    done = agent(workspace, "echo hello; echo '<promise>DONE</promise>'")
    told: list[str] = []

    def told_by(goal: str, **options: Any) -> str:
        assert run_exploop(ExploopConfig(goal=goal, workspace=workspace, engine=done, **options)) == 0
        return capsys.readouterr().err

    assert "◎ iteration 1/10\n" in told_by("one")
    assert told_by("two", progress=told.append) == ""
    assert "◎ iteration 1/10" in told
    assert any("hello" in line for line in told)
    with caplog.at_level("INFO", "loops"):
        assert told_by("three", progress=logging.getLogger("loops")) == ""
    assert "◎ iteration 1/10" in caplog.messages
    assert told_by("four", progress="silent") == ""


def test_a_progress_function_that_fails_is_raised_and_leaves_the_goal_to_go_on(workspace: Path) -> None:
    def fails(line: str) -> None:
        raise RuntimeError(line)

    done = agent(workspace, "echo '<promise>DONE</promise>'")
    config = ExploopConfig(goal="g", workspace=workspace, engine=done, progress=fails)
    with pytest.raises(RuntimeError):
        run_exploop(config)
    assert run_exploop(ExploopConfig(goal="g", workspace=workspace, engine=done)) == 0


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
