"""Hooks around turns: what is said, how a turn ends, what calls came to, and what is told of a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.blocking import run_blocking
from mainspring.errors import PromptRefused
from mainspring.events import FilesChanged, HookEvent, NoteAdded, TurnEnded, UserSaid
from mainspring.testing import tool_call
from tests.hooks.conftest import RAN, Hooked, answer, staged

KEEP = "cat >> told.jsonl"


def told(stage: Hooked, event: HookEvent) -> list[dict[str, Any]]:
    """What the hooks that keep what they read were told of an event."""
    lines = (stage.workspace / "told.jsonl").read_text().splitlines()
    return [each for each in map(json.loads, lines) if each["hook_event_name"] == event]


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("echo no secrets in prompts >&2; exit 2", "no secrets in prompts"),
        (answer(decision="block", reason="off topic"), "off topic"),
        ("exit 3", "exit code 3"),
        ({"command": "sleep 60", "timeout": 0.2}, "timed out"),
        ("echo '{nonsense'", "no answer"),
        (answer(**{"continue": False, "stopReason": "closed today"}), "closed today"),
    ],
)
def test_a_message_that_a_hook_refuses_is_not_said(tmp_path: Path, hook: Any, why: str) -> None:
    stage = staged(tmp_path).with_hooks(UserPromptSubmit=hook).trusted()
    with pytest.raises(PromptRefused, match=why):
        stage.run("Make the file.", mode="auto")
    assert not stage.requests
    assert not stage.events(UserSaid)


@pytest.mark.parametrize(
    ("hook", "context"),
    [
        ("echo It is Monday.", "It is Monday."),
        (
            answer(
                hookSpecificOutput={
                    "hookEventName": "UserPromptSubmit",
                    "additionalContext": "It is Tuesday.",
                }
            ),
            "It is Tuesday.",
        ),
        ({"command": "exit 1", "fail_open": True}, ""),
    ],
)
def test_a_hook_adds_to_what_is_said(tmp_path: Path, hook: Any, context: str) -> None:
    stage = staged(tmp_path).with_hooks(UserPromptSubmit=hook).trusted()
    assert stage.run("Make the file.", mode="auto").is_done
    assert [note.text for note in stage.events(NoteAdded)] == ([context] if context else [])
    assert context in json.dumps(stage.sent(0))


def test_what_a_hook_is_told_of_a_message(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(UserPromptSubmit=KEEP).trusted()
    stage.run("Make the file.", mode="auto")
    (prompt,) = told(stage, "UserPromptSubmit")
    assert prompt["prompt"] == "Make the file."


def test_a_hook_holds_a_turn_three_times_at_most(tmp_path: Path) -> None:
    stage = Hooked(tmp_path, *(f"Done {number}." for number in range(9)))
    stage.with_hooks(Stop=[KEEP, "echo run the tests first >&2; exit 2"]).trusted()
    stage.run("Make the file.", mode="auto")
    assert len(stage.requests) == 4
    assert "run the tests first" in json.dumps(stage.sent(1))
    assert [each["stop_hook_active"] for each in told(stage, "Stop")] == [False, True, True]
    assert told(stage, "Stop")[0]["last_assistant_message"] == "Done 0."
    (ended,) = stage.events(TurnEnded)
    assert ended.ending == "done"


def test_a_hook_that_is_content_ends_the_turn(tmp_path: Path) -> None:
    stage = Hooked(tmp_path, "Half.", "Whole.", "Never.")
    check = "grep -q Half && { echo go on >&2; exit 2; } || exit 0"
    stage.with_hooks(Stop=check).trusted()
    assert stage.run("Work.", mode="auto").text == "Whole."


@pytest.mark.parametrize("hook", ["exit 1", "echo garbage", "echo '{'", "kill -9 $$"])
def test_hooks_that_hold_nothing_fail_open(tmp_path: Path, hook: str) -> None:
    events = ("Stop", "PostToolUse", "SessionStart", "SessionEnd", "PreCompact", "Notification")
    stage = staged(tmp_path).with_hooks(**dict.fromkeys(events, hook)).trusted()
    assert stage.run("Make the file.", mode="auto").is_done
    assert stage.has_run
    assert not any(each.is_refusing for each in stage.ends)
    if hook != "echo garbage":
        assert {each.verdict for each in stage.ends} == {"failed"}


def test_hooks_hear_of_calls_after_they_ran(tmp_path: Path) -> None:
    calls = (
        tool_call("shell", command=f"echo hello; touch {RAN}"),
        tool_call("shell", command="echo bad; exit 3"),
    )
    stage = Hooked(tmp_path, *calls, "Done.")
    stage.with_hooks(PostToolUse=("Bash", KEEP), PostToolUseFailure=("Bash", KEEP)).trusted()
    stage.run("Work.", mode="auto")
    (after,), (failed,) = told(stage, "PostToolUse"), told(stage, "PostToolUseFailure")
    assert after["tool_input"] == {"command": f"echo hello; touch {RAN}"}
    assert "hello" in after["tool_response"]["stdout"]
    assert "exit code 3" in failed["error"]


def test_what_a_hook_says_to_a_result_is_told_before_the_next_request(tmp_path: Path) -> None:
    hook = answer(decision="block", reason="lint: unused import")
    stage = staged(tmp_path).with_hooks(PostToolUse=[hook, "echo also this >&2; exit 2"]).trusted()
    stage.run("Make the file.", mode="auto")
    sent = json.dumps(stage.sent(1))
    assert "lint: unused import" in sent
    assert "also this" in sent


def test_what_a_formatter_does_to_files_can_be_taken_back(tmp_path: Path) -> None:
    stage = Hooked(tmp_path, tool_call("write", path="a.txt", content="x"), "Done.")
    stage.with_hooks(PostToolUse=("Edit|Write", "echo formatted > a.txt")).trusted()
    stage.run("Write.", mode="auto")
    assert (stage.workspace / "a.txt").read_text() == "formatted\n"
    changes = [change for each in stage.events(FilesChanged) for change in each.changes]
    assert [change.kind for change in changes] == ["created", "modified"]


def test_a_hook_ends_a_turn_after_a_call(tmp_path: Path) -> None:
    hook = answer(**{"continue": False, "stopReason": "seen enough"})
    stage = staged(tmp_path).with_hooks(PostToolUse=hook).trusted()
    stage.run("Make the file.", mode="auto")
    assert len(stage.requests) == 1
    assert "seen enough" in stage.events(TurnEnded)[0].detail


def test_a_session_is_told_from_its_start_to_its_end(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    stage.with_hooks(
        SessionStart=[("startup", "echo Welcome."), ("resume", "echo Back."), KEEP],
        SessionEnd=KEEP,
        Notification=("idle_prompt", KEEP),
    ).trusted()
    stage.run("Make the file.", mode="auto")
    assert [note.text for note in stage.events(NoteAdded)] == ["Welcome."]
    assert "Welcome." in json.dumps(stage.sent(0))
    (start,), (end,), (notice,) = (
        told(stage, event) for event in ("SessionStart", "SessionEnd", "Notification")
    )
    assert (start["source"], end["reason"], notice["notification_type"]) == (
        "startup",
        "other",
        "idle_prompt",
    )

    async def again() -> None:
        async with stage.open(mode="auto"):
            pass

    run_blocking(again())
    assert [each["source"] for each in told(stage, "SessionStart")] == ["startup", "resume"]


def test_hooks_hear_that_history_is_made_short(tmp_path: Path) -> None:
    stage = Hooked(tmp_path, *("word " * 4000,) * 3, "Summary.", "More.")
    stage.with_hooks(PreCompact=("manual", KEEP)).trusted()

    async def work() -> None:
        async with stage.open(mode="auto") as session:
            for _ in range(3):
                await session.ask("Go on.")
            await session.compact()

    run_blocking(work())
    (compacting,) = told(stage, "PreCompact")
    assert compacting["trigger"] == "manual"
