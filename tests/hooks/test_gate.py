"""Hooks before calls: what each behaviour of a hook means for the call, as a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.events import ApprovalAsked, ApprovalGiven, NoteAdded, TurnEnded
from mainspring.testing import tool_call
from tests.hooks.conftest import RAN, Hooked, answer, decided, staged

READS = f"""python3 -c '
import json, sys
i = json.load(sys.stdin)
told = i["tool_name"], i["hook_event_name"], i["tool_input"]["command"], i["mainspring_tool"]
is_right = told == ("Bash", "PreToolUse", "touch {RAN}", "shell") and i["cwd"] and i["session_id"]
sys.exit(0 if is_right else 2)'"""
SECRET = "sk-ant-api03-" + "Ab3" * 20


async def nobody(_: ApprovalAsked) -> ApprovalGiven | None:
    """Nobody is there to be asked."""
    return None


# What a PreToolUse hook does, and what becomes of the call: its outcome, the verdict on record, a part of what
# the model is told.
BEHAVIOURS: dict[str, tuple[Any, str, str, str]] = {
    "says nothing": ("true", "ok", "passed", ""),
    "exit code 2": ("echo not this >&2; exit 2", "refused", "denied", "not this"),
    "exit code 2 without a reason": ("exit 2", "refused", "denied", "no reason"),
    "another exit code": ("echo oops >&2; exit 1", "refused", "failed", "exit code 1: oops"),
    "a command that is not there": ("no-such-program-here", "refused", "failed", "exit code 127"),
    "is killed": ("kill -9 $$", "refused", "failed", "exit code 137"),
    "denies in JSON": (decided("deny", "never on Mondays"), "refused", "denied", "never on Mondays"),
    "blocks in the older form": (
        answer(decision="block", reason="old but no"),
        "refused",
        "denied",
        "old but no",
    ),
    "allows": (decided("allow", "fine"), "ok", "passed", ""),
    "approves in the older form": (answer(decision="approve"), "ok", "passed", ""),
    "prints garbage": ("echo hello", "refused", "failed", "no JSON"),
    "prints broken JSON": ("echo '{\"decision\":'", "refused", "failed", "no answer"),
    "prints a wrong value": (decided("perhaps"), "refused", "failed", "no answer"),
    "prints bytes": ("printf '{\\xff\\xfe'", "refused", "failed", "no answer"),
    "answers for another event": (
        answer(hookSpecificOutput={"hookEventName": "Stop"}),
        "refused",
        "failed",
        "answered for Stop",
    ),
    "prints far too much": (
        "head -c 700000 /dev/zero | tr '\\0' x",
        "refused",
        "failed",
        "more than 256 KiB",
    ),
    "is too slow": ({"command": "sleep 60", "timeout": 0.2}, "refused", "failed", "timed out"),
    "fails and says that this is no matter": (
        {"command": "exit 1", "fail_open": True},
        "ok",
        "failed",
        "",
    ),
    "is too slow and says that this is no matter": (
        {"command": "sleep 60", "timeout": 0.2, "fail_open": True},
        "ok",
        "failed",
        "",
    ),
    "denies and says that failing is no matter": (
        {"command": "exit 2", "fail_open": True},
        "refused",
        "denied",
        "",
    ),
    "is no command": ({"type": "prompt", "prompt": "May it?"}, "refused", "failed", "type prompt"),
    "is empty": ({"command": " "}, "refused", "failed", "no command"),
    "leaves a process running": ("sleep 300 & true", "ok", "passed", ""),
    "has a matcher for another tool": (("Write", "exit 2"), "ok", "", ""),
    "has no name in full": (("Bas", "exit 2"), "ok", "", ""),
    "has a matcher that is a pattern": (("Edit|Ba.h", "exit 2"), "refused", "denied", ""),
    "has a star for a matcher": (("*", "exit 2"), "refused", "denied", ""),
    "has an empty matcher": (("", "exit 2"), "refused", "denied", ""),
    "has our own name for a matcher": (("shell", "exit 2"), "refused", "denied", ""),
    "has a matcher that is not valid": (("Bash(", "exit 2"), "refused", "denied", ""),
    "changes the command": (
        decided("allow", updatedInput={"command": f"echo other; touch {RAN}"}),
        "ok",
        "changed",
        "a hook changed the arguments",
    ),
    "changes what cannot be changed": (
        decided("allow", updatedInput={"command": "true", "color": "red"}),
        "refused",
        "changed",
        "color",
    ),
    "changes to what is not valid": (
        decided("allow", updatedInput={"command": 7}),
        "refused",
        "changed",
        "cannot be used",
    ),
    "reads what it is told": (
        READS,
        "ok",
        "passed",
        "",
    ),
    "has the project's folder": ('test "$CLAUDE_PROJECT_DIR" = "$PWD" || exit 2', "ok", "passed", ""),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_what_a_hook_does_decides_about_the_call(tmp_path: Path, name: str) -> None:
    hook, outcome, verdict, told = BEHAVIOURS[name]
    stage = staged(tmp_path).with_hooks(PreToolUse=hook).trusted()
    assert stage.run("Make the file.", mode="auto").text == "Done."
    assert (stage.call.outcome, [each.verdict for each in stage.ends]) == (
        outcome,
        [verdict] if verdict else [],
    )
    assert told in stage.call.output
    assert stage.has_run == (outcome == "ok")
    assert [each.is_refusing for each in stage.ends] == [outcome != "ok" and verdict != "changed"] * bool(
        verdict
    )


def test_a_changed_call_is_judged_again(tmp_path: Path) -> None:
    """Rules say no to what a hook made of it; a hook only tightens."""
    changed = decided("allow", updatedInput={"command": "git push --force"})
    stage = staged(tmp_path).with_hooks(PreToolUse=changed).trusted()
    rules = stage.workspace / ".mainspring" / "approvals.toml"
    rules.write_text('[[rule]]\nanswer = "deny"\ncommand = "git push *"\nreason = "never pushed"\n')
    stage.run("Make the file.", mode="auto")
    assert stage.call.outcome == "refused"
    assert not stage.has_run


def test_allow_of_a_hook_overrides_no_rule_and_no_question(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse=decided("allow")).trusted()
    reply = stage.run("Make the file.", mode="ask", approver=nobody)
    assert reply.ending == "blocked"
    assert len(stage.events(ApprovalAsked)) == 1
    stage = staged(tmp_path / "plan").with_hooks(PreToolUse=decided("allow")).trusted()
    stage.run("Make the file.", mode="plan")
    assert stage.call.outcome == "refused"
    assert not stage.starts, "a hook is not asked about what a rule forbids"


def test_a_hook_that_asks_makes_a_question_of_what_was_free(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse=decided("ask", "is it the right day?")).trusted()
    assert stage.run("Make the file.", mode="auto", approver=nobody).ending == "blocked"
    (asked,) = stage.events(ApprovalAsked)
    assert asked.reason == "is it the right day?"
    assert not stage.has_run


def test_hooks_run_side_by_side_and_one_no_is_enough(tmp_path: Path) -> None:
    """Each waits for the other, so one after the other they would never end well."""

    def meets(mine: str, other: str) -> str:
        return f"touch {mine}; for i in $(seq 3000); do test -e {other} && break; sleep 0.01; done; test -e {other}"

    first, second = meets("one", "two"), meets("two", "one")
    stage = staged(tmp_path).with_hooks(PreToolUse=[first, second, "exit 2"]).trusted()
    stage.run("Make the file.", mode="auto")
    assert [each.verdict for each in stage.ends] == ["passed", "passed", "denied"]
    assert stage.call.outcome == "refused"


def test_the_same_command_twice_runs_once(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(
        PreToolUse=[("Bash", "echo x >> log; true"), ("*", "echo x >> log; true")]
    )
    stage.trusted().run("Make the file.", mode="auto")
    assert (stage.workspace / "log").read_text() == "x\n"


def test_a_hook_of_the_same_text_that_fails_open_replaces_no_strict_one(tmp_path: Path) -> None:
    """The same words are another guard in another file, as in another plugin."""
    stage = staged(tmp_path).with_hooks(PreToolUse="exit 1")
    stage.with_hooks(".claude/settings.json", PreToolUse={"command": "exit 1", "fail_open": True})
    stage.trusted().run("Make the file.", mode="auto")
    assert sorted(each.is_refusing for each in stage.ends) == [False, True]
    assert not stage.has_run


def test_two_hooks_that_want_different_things_are_a_no(tmp_path: Path) -> None:
    hooks = [decided("allow", updatedInput={"command": each}) for each in ("true", "false")]
    stage = staged(tmp_path).with_hooks(PreToolUse=hooks).trusted()
    stage.run("Make the file.", mode="auto")
    assert stage.call.outcome == "refused"
    assert "different" in stage.call.output


def test_a_secret_in_what_a_hook_prints_is_recorded_nowhere(tmp_path: Path) -> None:
    hook = answer(systemMessage=f"key {SECRET}", hookSpecificOutput={"additionalContext": f"use {SECRET}"})
    stage = staged(tmp_path).with_hooks(PreToolUse=[hook, f"echo {SECRET} >&2; exit 2"])
    stage.trusted().run("Make the file.", mode="auto")
    said = b"".join(msgspec.json.encode(each.event) for each in stage.journal())
    kinds = [each for each in stage.journal() if type(each.event).__name__ != "HookStarted"]
    assert SECRET.encode() not in said, [type(each.event).__name__ for each in kinds]
    assert stage.ends[0].message.startswith("key __secret")


def test_context_of_a_hook_reaches_the_model_after_the_result(tmp_path: Path) -> None:
    hook = answer(
        hookSpecificOutput={"hookEventName": "PreToolUse", "additionalContext": "The moon is full."}
    )
    stage = staged(tmp_path).with_hooks(PreToolUse=hook).trusted()
    stage.run("Make the file.", mode="auto")
    assert [note.text for note in stage.events(NoteAdded) if note.source.startswith("hook")] == [
        "The moon is full."
    ]
    assert "The moon is full." in json.dumps(stage.sent())
    assert stage.call.outcome == "ok"


def test_a_hook_that_says_stop_ends_the_turn(tmp_path: Path) -> None:
    stage = (
        staged(tmp_path)
        .with_hooks(PreToolUse=answer(**{"continue": False, "stopReason": "enough"}))
        .trusted()
    )
    stage.run("Make the file.", mode="auto")
    (ended,) = stage.events(TurnEnded)
    assert ended.ending == "interrupted"
    assert "enough" in ended.detail
    assert not stage.has_run


def test_a_permission_request_is_denied_before_anybody_is_asked(tmp_path: Path) -> None:
    deny = answer(
        hookSpecificOutput={
            "hookEventName": "PermissionRequest",
            "decision": {"behavior": "deny", "message": "not at night"},
        }
    )
    stage = staged(tmp_path).with_hooks(PermissionRequest=("Bash", deny)).trusted()
    stage.run("Make the file.", mode="ask", approver=nobody)
    assert stage.call.outcome == "refused"
    assert "not at night" in stage.call.output
    assert not stage.events(ApprovalAsked)
    free = staged(tmp_path / "free").with_hooks(PermissionRequest=("Bash", deny)).trusted()
    free.run("Make the file.", mode="auto")
    assert free.has_run
    assert not free.starts


@pytest.mark.parametrize(("hook", "is_asked"), [("exit 1", False), ("echo what", False), ("true", True)])
def test_a_permission_request_whose_hook_fails_is_denied(tmp_path: Path, hook: str, is_asked: bool) -> None:
    stage = staged(tmp_path).with_hooks(PermissionRequest=hook).trusted()
    stage.run("Make the file.", mode="ask", approver=nobody)
    assert bool(stage.events(ApprovalAsked)) == is_asked


def instead(command: str) -> str:
    """A command that prints what a PermissionRequest wants instead."""
    decision = {"behavior": "allow", "updatedInput": {"command": command}}
    return answer(hookSpecificOutput={"hookEventName": "PermissionRequest", "decision": decision})


def test_what_a_permission_request_wants_instead_is_asked_about_and_run(tmp_path: Path) -> None:
    """Also when the answer comes later, and the hook says the same again."""
    stage = staged(tmp_path).with_hooks(PermissionRequest=instead("touch other")).trusted()
    assert stage.run("Make the file.", mode="ask", approver=nobody).ending == "blocked"

    async def yes(asked: ApprovalAsked) -> ApprovalGiven:
        return ApprovalGiven(call=asked.call, arguments_sha256=asked.arguments_sha256, decision="allow")

    stage.run(mode="ask", approver=yes)
    assert [json.loads(each.arguments) for each in stage.events(ApprovalAsked)] == [
        {"command": "touch other"}
    ]
    assert (stage.workspace / "other").exists()
    assert not stage.has_run


def test_what_a_permission_request_wants_instead_passes_the_other_hooks(tmp_path: Path) -> None:
    guard = "grep -q other && exit 2 || exit 0"
    stage = staged(tmp_path).with_hooks(PermissionRequest=instead("touch other"), PreToolUse=guard).trusted()
    stage.run("Make the file.", mode="ask", approver=nobody)
    assert stage.call.outcome == "refused"
    assert not stage.events(ApprovalAsked)


def test_a_hook_that_nobody_approved_does_not_run_and_is_told(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse=("Bash", "exit 2"))
    stage.run("Make the file.", mode="auto")
    assert stage.has_run
    assert not stage.starts
    assert any("not approved" in str(message) for message in stage.sent(0))


def test_hooks_that_changed_are_approved_again(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse="exit 2").trusted().with_hooks(PreToolUse="exit 2 # now")
    stage.run("Make the file.", mode="auto")
    assert any("changed since" in str(message) for message in stage.sent(0))
    assert not stage.starts


def test_the_script_of_a_hook_belongs_to_what_is_approved(tmp_path: Path) -> None:
    stage = staged(tmp_path, f"echo true > check.sh; touch {RAN}")
    stage.script_file("check.sh", "exit 0\n")
    stage.with_hooks(PreToolUse='sh "$CLAUDE_PROJECT_DIR"/check.sh').trusted()
    stage.script_file("check.sh", "exit 0 # changed\n")
    stage.run("Make the file.", mode="auto")
    assert any("changed since" in str(message) for message in stage.sent(0))


def test_an_agent_cannot_change_the_script_of_a_hook_to_get_past_it(tmp_path: Path) -> None:
    first = tool_call("shell", command="echo exit 0 > check.sh")
    stage = Hooked(tmp_path, first, tool_call("shell", command=f"touch {RAN}"), "Done.")
    stage.script_file("check.sh", f"grep -q {RAN} && exit 2; exit 0\n")
    stage.with_hooks(PreToolUse="bash check.sh").trusted()
    stage.run("Make the file.", mode="auto")
    assert not stage.has_run
    assert "check.sh changed" in stage.ends[-1].reason


def test_hooks_of_claude_codes_settings_work_as_they_are(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(".claude/settings.json", PreToolUse=("Bash", "exit 2"))
    stage.with_hooks(".claude/settings.local.json", PreToolUse=("Bash", "exit 0")).trusted()
    stage.run("Make the file.", mode="auto")
    assert [each.verdict for each in stage.ends] == ["denied", "passed"]
    settings = stage.workspace / ".claude" / "settings.json"
    whole = {**json.loads(settings.read_text()), "model": "opus", "permissions": {"allow": ["Bash"]}}
    settings.write_text(json.dumps(whole))
    again = Hooked(tmp_path, *stage.script.replies)
    again.run("Make the file.", mode="auto")
    assert [each.verdict for each in again.ends] == ["denied", "passed"], (
        "other settings need no new approval"
    )


def test_the_users_own_hooks_need_no_approval_and_a_broken_file_is_an_error(tmp_path: Path) -> None:
    stage = staged(tmp_path)
    own = stage.config.folder / "hooks.json"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(
        json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "exit 2"}]}]}})
    )
    stage.run("Make the file.", mode="auto")
    assert stage.call.outcome == "refused"
    own.write_text("{")
    with pytest.raises(Exception, match=r"hooks\.json cannot be used"):
        staged(tmp_path).run("Make the file.", mode="auto")
