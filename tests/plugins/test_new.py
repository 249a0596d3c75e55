"""`plugins new`: what it writes is built, installed into a fresh environment, tested and used."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.cli.conftest import Machine


def test_a_new_plugin_is_built_installed_tested_and_used(machine: Machine, tmp_path: Path) -> None:
    made = machine.run("plugins", "new", "my-hub", "-C", str(tmp_path))
    assert made.returncode == 0, made.stderr
    project = tmp_path / "mainspring-my-hub"
    assert machine.run("plugins", "new", "my-hub", "-C", str(tmp_path)).returncode == 2
    assert machine.run("plugins", "new", "../x", "-C", str(tmp_path)).returncode == 2

    fresh = tmp_path / "venv"
    venv.create(fresh, symlinks=True, with_pip=False)
    site = next(fresh.glob("lib/python*/site-packages"))
    source = Path(__file__).parent.parent.parent / "src"
    (site / "ours.pth").write_text(f"{sysconfig.get_path('purelib')}\n{source}\n")
    python = str(fresh / "bin" / "python")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # where uv-build is
    environment = {**machine.environment(), "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            arguments,
            cwd=machine.workspace,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    run(
        *(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"),
        *("--prefix", str(fresh), str(project)),
    )
    run(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(project),
        str(project / "tests"),
    )
    listed = run(python, "-m", "mainspring", "plugins", "list")
    assert "my-hub 0.0.1  ready" in listed
    assert "tool my_hub_hello" in listed
    call = {"calls": [{"name": "my_hub_hello", "arguments": {"who": "Ada"}}]}
    model = machine.serve(call, {"text": "done"})
    run(python, "-m", "mainspring", "run", "--model", model, "/my-hub:hello Ada")
    (ended,) = [
        event["body"]
        for event in machine.events(machine.only_session()["id"])
        if event["kind"] == "CallEnded"
    ]
    assert ended["output"] == "Hello, Ada!"
