"""A new session in another folder begins with bytes that a server with a prefix cache has seen before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Machine, lines

ADDRESSES = {
    "chat": ("OPENAI_BASE_URL", "/v1", "any-model"),
    "anthropic": ("ANTHROPIC_BASE_URL", "", "anthropic/claude-sonnet-4-5"),
    "gemini": ("GEMINI_BASE_URL", "/v1beta", "gemini/gemini-2.5-pro"),
}
KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k"}


def before_the_task(body: bytes, text: str) -> bytes:
    """What stands in a request before the first message of its session."""
    return body[: body.index(text.encode())]


def used(machine: Machine, session: str) -> dict[str, Any]:
    settled = [event for event in machine.events(session) if event["kind"] == "SpendSettled"]
    return settled[0]["body"]["usage"]


@pytest.mark.parametrize("profile", ["standard", "small"])
@pytest.mark.parametrize("wire", ADDRESSES)
def test_the_first_request_of_a_second_session_hits_system_prompt_and_tools(
    machine: Machine, tmp_path: Path, wire: str, profile: str
) -> None:
    machine.serve({"text": "hello"}, has_cache=True)
    address, path, model = ADDRESSES[wire]
    settings = {address: machine.servers[-1].url.removesuffix("/v1") + path, **KEYS}
    other = tmp_path / "another" / "folder"
    other.mkdir(parents=True)
    (machine.workspace / "notes.txt").write_text("A project with files, as the other one.\n")
    (other / "AGENTS.md").write_text("Write tests first.\n")
    (other / "pyproject.toml").write_text("[project]\nname = 'thing'\n")
    # What cannot be shown whole is worked at with tools, also by a small model on a server of one's own.
    for folder in (machine.workspace, other):
        (folder / "large.txt").write_text("A long line of notes.\n" * 1000)
    for folder, text in ((machine.workspace, "Sort large.txt."), (other, "Make large.txt shorter.")):
        ran = machine.run(
            *("run", text, "--model", model, "--profile", profile, "-C", str(folder)), **settings
        )
        assert ran.returncode == 0, ran.stderr
    first, *_, second = [seen.body for seen in machine.seen if seen.reply == 0]
    newest, oldest = (row["id"] for row in lines(machine.run("sessions", "--json").stdout))
    assert used(machine, oldest).get("cached_tokens", 0) == 0
    usage = used(machine, newest)
    start = before_the_task(first, str(machine.workspace))
    assert b"read" in start
    assert b"You are mainspring" in start
    assert second.startswith(start)
    assert usage["cached_tokens"] >= len(start) // 4 > 0
    (row,) = lines(machine.run("cost", newest, "--json").stdout)
    assert row["cached_tokens"] >= usage["cached_tokens"]
