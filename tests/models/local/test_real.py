"""The whole path with real weights: pull, run, resume, and nothing left behind by a kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.build import DEFAULT_TOOLS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--max-steps", "2", "--model", "local")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("xllamacpp") is None:
        pytest.skip("llama.cpp is not installed: pip install --require-hashes -r requirements/local.lock")
    home = tmp_path_factory.mktemp("home")
    pulled = mainspring(home, "models", "pull", "smollm2")
    if pulled.returncode != 0:
        pytest.skip(f"the weights cannot be installed here: {pulled.stderr.strip().splitlines()[-1]}")
    assert "unpacked and checked" in pulled.stderr
    return home


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "MAINSPRING_HOME": str(home)}


def mainspring(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mainspring", *arguments]
    return subprocess.run(
        command,
        env=environment(home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def events(output: str, kind: str) -> list[dict[str, Any]]:
    recorded = [json.loads(line) for line in output.splitlines()]
    return [event["body"] for event in recorded if event["kind"] == kind]


def test_a_run_needs_no_key_and_no_network_and_its_calls_always_parse(home: Path) -> None:
    (home / "notes.txt").write_text("The secret word is marigold.\n")
    command = ("run", "--json", *FREE, "Read the file notes.txt.")
    ran = mainspring(home, *command)
    assert ran.returncode in (0, 5), ran.stderr
    said = events(ran.stdout, "AssistantSaid")
    assert said
    for part in (part for message in said for part in message["parts"] if part["part"] == "call"):
        assert isinstance(json.loads(part["arguments"]), dict)
        assert part["name"] in {tool.name for tool in DEFAULT_TOOLS}
    settled = events(ran.stdout, "SpendSettled")
    assert settled[0]["speed"]["output_per_s"] > 0
    assert all(not each.get("usd") for each in settled)


def test_a_context_that_cannot_hold_the_prompt_is_refused_with_numbers(home: Path) -> None:
    (home / "config.toml").write_text("local_context_tokens = 512\n")
    try:
        ran = mainspring(home, "run", *FREE, "hello")
    finally:
        (home / "config.toml").unlink()
    assert ran.returncode == 2
    assert "local takes 512 tokens. The instructions and the tools need about" in ran.stderr


def test_a_file_that_llama_cannot_load_is_told_and_no_session_is_made(home: Path) -> None:
    before = mainspring(home, "sessions", "--all", "--json").stdout
    (home / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    ran = mainspring(home, "run", "--model", "local/bad.gguf", "hello")
    assert ran.returncode == 2
    assert "bad.gguf could not be loaded" in ran.stderr
    assert mainspring(home, "sessions", "--all", "--json").stdout == before


def test_a_kill_leaves_no_server_behind(home: Path) -> None:
    command = [sys.executable, "-m", "mainspring", "run", "--json", *FREE, "Write a long poem."]
    run = subprocess.Popen(command, env=environment(home), cwd=home, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    run.stdout.readline()
    (server,) = children(run.pid)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{server}").exists():
        assert time.monotonic() < deadline
        os.sched_yield()


def children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    below = [child for task in tasks for child in (task / "children").read_text().split()]
    return [int(child) for child in below if b"local.serve" in Path(f"/proc/{child}/cmdline").read_bytes()]
