"""A session that another process runs, entered in a chat: watched, steered, answered, stopped, taken over."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.chat.conftest import FREE, Tmux
from tests.cli.conftest import until

WAITS = {"calls": [{"name": "shell", "arguments": {"command": "until test -e go; do sleep 0.05; done"}}]}
ASKS = {"calls": [{"name": "shell", "arguments": {"command": "touch made"}}]}


@contextmanager
def run_elsewhere(tmux: Tmux, *replies: dict[str, Any], kind: str) -> Iterator[subprocess.Popen[str]]:
    """`mainspring run` in the same folder, up to an event of this kind."""
    model = tmux.machine.serve(*replies)
    mode = FREE if kind == "CallStarted" else ("--mode", "ask")
    process = tmux.machine.start("run", "--json", "--model", model, *mode, "begin")
    try:
        until(process, kind)
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_message_reaches_the_process_that_runs_the_session(tmux: Tmux) -> None:
    with run_elsewhere(tmux, WAITS, {"text": "Blue it is."}, {"text": "Mine now."}, kind="CallStarted"):
        tmux.open("chat", "--resume", tmux.machine.only_session()["id"])
        tmux.until("run by process")
        tmux.until("shell until test")
        tmux.type("/undo", "Enter")
        tmux.until("runs this session.")
        tmux.type("use blue", "Enter")
        tmux.until("⋯ steering: use blue")
        (tmux.machine.workspace / "go").touch()
        seen = tmux.until("has ended")
        assert "Blue it is." in seen
        assert b"use blue" in tmux.machine.seen[1].body
        tmux.until(lambda _: "run by" not in tmux.screen().splitlines()[-1] and "test ·" in tmux.screen())
        tmux.type("and you?", "Enter")
        seen = tmux.until("Mine now.")
        assert seen.count("Blue it is.") == 1


def test_escape_stops_the_turn_of_the_other_process(tmux: Tmux) -> None:
    with run_elsewhere(tmux, WAITS, kind="CallStarted") as process:
        tmux.open("chat", "--resume", tmux.machine.only_session()["id"])
        tmux.until("shell until test")
        tmux.keys("Escape")
        tmux.until("■ interrupted")
        process.communicate(timeout=60)


def test_a_question_of_another_process_is_answered_here(tmux: Tmux) -> None:
    tmux.machine.workspace.joinpath("x").touch()
    model = tmux.machine.serve(ASKS, {"text": "Fine."})
    tmux.open("chat", "--mode", "ask", "--model", model)
    tmux.type("make it", "Enter")
    tmux.until("m message")
    session = tmux.machine.only_session()["id"]
    other = tmux.beside()
    try:
        other.open("chat", "--resume", session)
        other.until("m message")
        other.type("y")
        other.until("■ done")
        seen = tmux.until("■ done")
    finally:
        other.close()
    assert "? allowed by user" in seen
    assert "m message" not in tmux.screen()
    assert (tmux.machine.workspace / "made").exists()
