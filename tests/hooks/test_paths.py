"""No way to a call leads past the hooks: resumed, edited, without an agent, of a child, of a goal, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mainspring.app.blocking import run_blocking
from mainspring.app.hook_files import list_hook_files
from mainspring.app.operations.trust import approve
from mainspring.app.step import run_command
from mainspring.approvals import Proposed
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallEnded,
    ChildStarted,
    HookEnded,
    HookStarted,
    NoteAdded,
)
from mainspring.hooks.tool_names import told_calls
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.testing import tool_call
from tests import ROOT
from tests.agents.family import PARENT, Family, asks, script_of
from tests.hooks.conftest import RAN, Hooked, decided, staged

NO_RAN = f"grep -q {RAN} && {{ echo never {RAN} >&2; exit 2; }} || exit 0"


async def nobody(_: ApprovalAsked) -> ApprovalGiven | None:
    return None


@pytest.mark.parametrize(
    ("matcher", "tool", "arguments"),
    [
        ("Bash", "shell", {"command": f"touch {RAN}"}),
        ("Bash", "shell", {"command": f"touch {RAN}", "background": True}),
        ("Write", "write", {"path": RAN, "content": "x"}),
        ("Edit", "edit", {"path": "a.txt", "edits": [{"old": "a", "new": RAN}, {"old": "b", "new": "c"}]}),
        ("Edit", "patch", {"patch": f"--- /dev/null\n+++ b/{RAN}\n@@ -0,0 +1 @@\n+x\n"}),
        ("Write", "patch", {"patch": f"--- /dev/null\n+++ b/{RAN}\n@@ -0,0 +1 @@\n+x\n"}),
        ("Read", "read", {"path": RAN}),
        ("Grep", "grep", {"pattern": RAN}),
        ("Glob", "find", {"glob": RAN}),
        ("WebFetch", "fetch", {"url": f"https://example.org/{RAN}"}),
    ],
)
def test_every_tool_is_known_by_its_name_elsewhere(
    tmp_path: Path, matcher: str, tool: str, arguments: dict[str, object]
) -> None:
    stage = Hooked(tmp_path, tool_call(tool, **arguments), "Done.")
    (stage.workspace / "a.txt").write_text("a b")
    stage.with_hooks(PreToolUse=(matcher, NO_RAN)).trusted()
    stage.run("Work.", mode="auto", approver=nobody)
    assert [each.outcome for each in stage.events(CallEnded)] == ["refused"]
    assert not stage.has_run


TWO = [{"old_string": "a", "new_string": "b"}, {"old_string": "c", "new_string": RAN}]


@pytest.mark.parametrize(
    ("tool", "name", "given", "told"),
    [
        ("web_search", "WebSearch", {"query": RAN}, {"query": RAN}),
        ("search", "Grep", {"pattern": RAN}, {"pattern": RAN, "path": "/w/a"}),
        ("edit", "Edit", {"edits": TWO}, {"old_string": "a\nc", "new_string": f"b\n{RAN}", "edits": TWO}),
        ("edit", "Edit", {"edits": ["x"]}, {"edits": ["x"]}),
        ("edit", "Edit", {"edits": ["x"], "old": "a", "new": "b"}, {"edits": ["x"], "old": "a", "new": "b"}),
        ("edit", "Edit", {"edits": None, "old": "a"}, {"edits": None, "old": "a"}),
    ],
)
def test_what_an_agent_calls_by_other_words_is_told_whole(
    tool: str, name: str, given: dict[str, object], told: dict[str, object]
) -> None:
    proposed = Proposed(tool=tool, effect="other", arguments=given, paths=("/w/a",), workspace="/w")
    (call,) = told_calls(proposed, given)
    assert call.names[0] == name
    assert call.input == told | ({"file_path": "/w/a"} if name == "Edit" else {})


def test_a_small_model_passes_the_same_hooks(tmp_path: Path) -> None:
    stage = Hooked(tmp_path, tool_call("find", text=RAN), tool_call("shell", command=f"touch {RAN}"), "Done.")
    stage.with_hooks(PreToolUse=("Bash|Grep", "exit 2")).trusted()
    stage.run("Work.", mode="auto", profile="small")
    assert [each.outcome for each in stage.events(CallEnded)][:2] == ["refused", "refused"]


def test_a_call_that_waited_for_a_person_passes_the_hooks_again(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse="test ! -e closed || exit 2").trusted()
    assert stage.run("Make the file.", mode="ask", approver=nobody).ending == "blocked"
    (stage.workspace / "closed").touch()

    async def yes(asked: ApprovalAsked) -> ApprovalGiven:
        return ApprovalGiven(call=asked.call, arguments_sha256=asked.arguments_sha256, decision="allow")

    stage.run(mode="ask", approver=yes)
    assert stage.call.outcome == "refused"
    assert not stage.has_run


def test_a_yes_to_what_a_hook_made_of_a_call_is_none_to_the_call_itself(tmp_path: Path) -> None:
    """The hook changes the call once; when the session goes on, it has nothing to say any more."""
    change = decided("ask", updatedInput={"command": "touch harmless"})
    stage = staged(tmp_path).with_hooks(PreToolUse=f"test -e seen || {{ touch seen; {change}; }}").trusted()
    assert stage.run("Work.", mode="ask", approver=nobody).ending == "blocked"
    shown: list[str] = []

    async def only_harmless(asked: ApprovalAsked) -> ApprovalGiven:
        shown.append(asked.arguments)
        decision = "allow" if "harmless" in asked.arguments else "reject"
        return ApprovalGiven(call=asked.call, arguments_sha256=asked.arguments_sha256, decision=decision)

    stage.run(mode="ask", approver=only_harmless)
    assert [RAN in each for each in shown] == [True]
    assert stage.call.outcome == "refused"
    assert not stage.has_run


def test_what_a_person_edited_passes_the_hooks_too(tmp_path: Path) -> None:
    stage = staged(tmp_path, "echo fine").with_hooks(PreToolUse=NO_RAN).trusted()

    async def edit(asked: ApprovalAsked) -> ApprovalGiven:
        edited = msgspec.json.encode({"command": f"touch {RAN}"}).decode()
        sha256 = asked.arguments_sha256
        return ApprovalGiven(
            call=asked.call, arguments_sha256=sha256, decision="allow", edited_arguments=edited
        )

    stage.run("Work.", mode="ask", approver=edit)
    assert stage.call.outcome == "refused"
    assert not stage.has_run


def test_a_command_without_an_agent_passes_the_hooks(tmp_path: Path) -> None:
    stage = staged(tmp_path).with_hooks(PreToolUse=("Bash", NO_RAN)).trusted()
    for line, has_run in ((f"touch {RAN}", False), ("touch other", True)):
        run_blocking(
            run_command(("bash", "-c", line), folder=stage.workspace, mode="auto", config=stage.config)
        )
        assert (stage.workspace / line.split()[1]).exists() == has_run


def test_a_hook_changes_a_command_without_an_agent(tmp_path: Path) -> None:
    hook = decided("allow", updatedInput={"command": "touch instead"})
    stage = staged(tmp_path).with_hooks(PreToolUse=hook).trusted()
    run_blocking(
        run_command(("bash", "-c", f"touch {RAN}"), folder=stage.workspace, mode="auto", config=stage.config)
    )
    assert not stage.has_run
    assert (stage.workspace / "instead").exists()


def test_a_child_has_the_hooks_of_its_parent(tmp_path: Path) -> None:
    command = ScriptedReply(calls=(ScriptedCall("find", {"glob": RAN}),))
    script = script_of(
        (asks("SEARCH it", agent="explore"), ScriptedReply(text="Done.")),
        SEARCH=(command, ScriptedReply(text="Nothing.")),
    )
    stage = Family(tmp_path, script)
    log = stage.workspace / "told.jsonl"
    hooks = {
        "PreToolUse": [{"matcher": "Glob", "hooks": [{"type": "command", "command": NO_RAN}]}],
        "SubagentStart": [{"hooks": [{"type": "command", "command": f"cat >> {log}"}]}],
        "SubagentStop": [{"hooks": [{"type": "command", "command": "true"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": "true # parent"}]}],
    }
    own = stage._config().folder / "hooks.json"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(json.dumps({"hooks": hooks}))
    stage.run(PARENT, mode="auto")
    (started,) = stage.events(ChildStarted)
    child = [item.event for item in stage.of(started.child)]
    assert [each.outcome for each in child if isinstance(each, CallEnded)] == ["refused"]
    assert [each.event for each in child if isinstance(each, HookStarted)] == ["PreToolUse", "SubagentStop"]
    assert {each.event for each in stage.events(HookStarted)} == {"SubagentStart", "Stop"}
    assert json.loads(log.read_text())["agent_id"] == started.child


def test_an_approved_hook_of_the_project_holds_in_the_copy_that_a_child_works_in(tmp_path: Path) -> None:
    write = ScriptedReply(calls=(ScriptedCall("write", {"path": RAN, "content": "x"}),))
    parent = (asks("WRITE it"), ScriptedReply(text="Done."))
    stage = Family(tmp_path, script_of(parent, WRITE=(write, ScriptedReply(text="No."))))
    hook = {"matcher": "Write", "hooks": [{"type": "command", "command": "exit 2"}]}
    file = stage.workspace / ".mainspring" / "hooks.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"hooks": {"PreToolUse": [hook]}}))
    for each in list_hook_files(stage.workspace, stage._config()):
        if each.file.subject:
            approve(stage._config(), each.file.subject)
    stage.run(PARENT, mode="auto")
    (started,) = stage.events(ChildStarted)
    child = [item.event for item in stage.of(started.child)]
    assert [each.outcome for each in child if isinstance(each, CallEnded)] == ["refused"]
    assert not [each for each in child if isinstance(each, NoteAdded) and "hook" in each.text]


WORKER = """
import sys
from pathlib import Path
from mainspring.catalog.sqlite import SqliteSessions
from tests.hooks.conftest import staged
folder = Path(sys.argv[1])
stage = staged(folder, "echo x >> ran.txt")
stage.sessions = SqliteSessions(folder / "store")
stage.session = sys.argv[2] if len(sys.argv) > 2 else ""
stage.run("" if stage.session else "Make the file.", mode="auto")
"""


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "Stop"])
def test_a_process_that_dies_in_a_hook_is_gone_on_with(tmp_path: Path, event: str) -> None:
    """The hook runs again, the call does not."""
    stage = staged(tmp_path)
    os.mkfifo(stage.workspace / "wait")
    waits = "test -e go || { echo > wait; sleep 300; }; echo told >> hooks.log"
    stage.with_hooks(**{event: waits}).trusted()
    arguments = [sys.executable, "-c", WORKER, str(tmp_path)]
    with subprocess.Popen(arguments, cwd=ROOT) as worker:
        try:
            (stage.workspace / "wait").read_text()  # the hook has begun
        finally:
            worker.send_signal(signal.SIGKILL)
    (stage.workspace / "go").touch()
    stage.sessions = SqliteSessions(tmp_path / "store")
    (stage.session,) = run_blocking(stage.sessions.names())
    subprocess.run([*arguments, stage.session], cwd=ROOT, check=True, timeout=60)
    assert stage.call.outcome == "ok"
    assert (stage.workspace / RAN).read_text() == "x\n"
    assert (stage.workspace / "hooks.log").read_text() == "told\n"
    assert (len(stage.events(HookStarted)), len(stage.events(HookEnded))) == (2, 1)


WITHOUT = """
import sys
from pathlib import Path
from tests.stage import testing
stage = testing.Stage(Path(sys.argv[1]), testing.tool_call("shell", command="true"), "Done.")
assert stage.run("Work.", mode="auto").is_done
assert not [name for name in sys.modules if name.startswith(("mainspring.hooks", "mainspring.turns.hooks"))]
"""


def test_without_hooks_nothing_of_them_is_loaded(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT, str(tmp_path)], cwd=ROOT, check=True, timeout=60)
