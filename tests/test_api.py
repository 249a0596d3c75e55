"""The names that `import mainspring` gives, and what a program does with them."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest

import mainspring
from mainspring.approvals import Judgement, Proposed
from mainspring.errors import UsageError
from mainspring.events import Limits, PromptSet
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.testing.memory import MemorySessions
from mainspring.testing.server import HostedModelServer

NAMES = """
ApprovalAsked ApprovalGiven Approver CallContext Cap Config Delivery DrvloopConfig Event ExploopConfig
GoalChecks GoalOptions Judgement Limits MainspringError Model OpenOptions Output Policy Proposed Pursuit Reply Session
Sessions StepResult Tool Usage __version__ errors events is_allowed load_config note open resume_goal run run_async
run_drvloop run_drvloop_async run_exploop run_exploop_async run_step run_step_async say
start_goal stop testing tool
"""
FOR_TESTS = """
MemoryJournal MemorySessions ModelServer Script ScriptedCall ScriptedModel ScriptedReply Stage scripted_model
tool_call
"""


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def model(*replies: ScriptedReply | str, requests: list[Request] | None = None) -> ScriptedModel:
    said = tuple(ScriptedReply(text=each) if isinstance(each, str) else each for each in replies)

    def seen(request: Request) -> None:
        if requests is not None:
            requests.append(request)

    return ScriptedModel(Script(replies=said), on_request=seen)


def calling(tool: str, **arguments: str) -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall(name=tool, arguments=arguments),))


async def greet(name: str) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


def test_the_public_names_are_these_and_each_can_be_used() -> None:
    assert sorted(mainspring.__all__) == sorted(NAMES.split()) == sorted(dir(mainspring))
    for name in mainspring.__all__:
        assert getattr(mainspring, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(mainspring, "no_such_name")  # noqa: B009


def test_public_functions_and_classes_are_documented() -> None:
    named = [getattr(mainspring, name) for name in mainspring.__all__ if name != "__version__"]
    undocumented = [each for each in named if not inspect.getdoc(each)]
    assert undocumented == []


def test_blocking_functions_take_what_the_async_ones_take() -> None:
    for name in ("run", "run_step", "run_exploop", "run_drvloop"):
        waits, twin = getattr(mainspring, name), getattr(mainspring, f"{name}_async")
        assert inspect.signature(waits) == inspect.signature(twin)
        assert waits.__name__ == name
        assert not inspect.iscoroutinefunction(waits)


def test_run_takes_the_options_of_open() -> None:
    options = set(inspect.signature(mainspring.open).parameters) - {"workspace", "beginning"}
    assert set(get_type_hints(mainspring.OpenOptions)) == options


def test_ask_gives_the_answer_with_its_cost() -> None:
    async def asked() -> tuple[mainspring.Reply, mainspring.Reply]:
        async with mainspring.open(model=model("One.", "Two."), sessions=MemorySessions()) as session:
            return await session.ask("first"), await session.ask("second")

    first, second = asyncio.run(asked())
    assert (first.text, first.ending, first.is_done, second.text) == ("One.", "done", True, "Two.")
    assert first.usage.output_tokens == 1
    assert first.session == second.session


def test_a_turn_that_reached_a_limit_says_so() -> None:
    replies = (calling("greet", name="Ada"), calling("greet", name="Bob"), "Done.")
    reply = mainspring.run(
        "go", model=model(*replies), tools=[greet], mode="yolo", limits=Limits(max_steps=1, max_cost_usd=1)
    )
    assert (reply.ending, reply.is_done) == ("limit", False)
    assert "step" in reply.detail


def test_tools_are_given_by_name_or_as_functions() -> None:
    requests: list[Request] = []
    replies = model(calling("greet", name="Ada"), "Done.", requests=requests)
    reply = mainspring.run("greet Ada", model=replies, tools=["read", greet], policy=AllowAll())
    assert reply.text == "Done."
    assert [tool.name for tool in requests[0].tools] == ["read", "greet"]
    assert b"Hello, Ada!" in requests[1].messages[-1]
    with pytest.raises(UsageError, match="no tool 'reed'"):
        mainspring.run("x", model=model(), tools=["reed"])


class AllowAll:
    def judge(self, proposed: Proposed) -> Judgement:
        return Judgement(answer="allow", reason="this program allows all", rule="program")


class DenyAll:
    def judge(self, proposed: Proposed) -> Judgement:
        return Judgement(answer="deny", reason="this program denies all", rule="program")


def test_a_policy_decides_in_the_place_of_the_mode() -> None:
    requests: list[Request] = []
    replies = model(calling("greet", name="Ada"), "Done.", requests=requests)
    mainspring.run("greet Ada", model=replies, tools=[greet], mode="yolo", policy=DenyAll())
    assert b"this program denies all" in requests[1].messages[-1]


def test_instructions_are_added_to_the_system_prompt_or_replace_it() -> None:
    requests: list[Request] = []
    mainspring.run("x", model=model("1", requests=requests), instructions="Speak Latin.")
    mainspring.run("x", model=model("1", requests=requests), system_prompt="You are a poet.")
    mainspring.run(
        "x", model=model("1", requests=requests), system_prompt="You rhyme.", instructions="Twice."
    )
    added, replaced, both = (request.system for request in requests)
    assert added.startswith("You are mainspring")
    assert added.endswith("Speak Latin.")
    assert (replaced, both) == ("You are a poet.", "You rhyme.\n\nTwice.")


def test_requests_of_all_sessions_begin_with_the_same_bytes(tmp_path: Path) -> None:
    """So the cache of a provider, or of llama.cpp, knows the prompt of a session that it never saw."""
    folders = [tmp_path / "first", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
        (folder / "AGENTS.md").write_text(f"Always say {folder.name}.")
    with HostedModelServer(Script(replies=(ScriptedReply(text="Yes."),))) as server:
        for folder in folders:
            mainspring.run(f"Look at {folder.name}", folder, model=f"openai-compatible@{server.url}#test")
        first, other = (seen.json() for seen in server.seen)
    assert first["messages"][0] == other["messages"][0]
    assert (first["messages"][0]["role"], first["tools"]) == ("system", other["tools"])
    about, asked, _ = first["messages"][1:]
    assert "Always say first." in about["content"]
    assert asked["content"] == "Look at first"


def test_what_is_about_the_workspace_survives_undo(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Always say so.")
    requests: list[Request] = []

    async def went_on() -> None:
        replies = model("One.", "Two.", requests=requests)
        async with mainspring.open(workspace, model=replies, sessions=MemorySessions()) as session:
            await session.ask("one")
            await session.undo("conversation")
            await session.ask("two")

    asyncio.run(went_on())
    first, second = ([*map(bytes.decode, request.messages)] for request in requests)
    assert "Always say so." in first[0]
    assert second[0] == first[0]
    assert not any("one" in message for message in second[1:])


def test_an_earlier_session_keeps_its_instructions() -> None:
    requests: list[Request] = []
    first = mainspring.run("x", model=model("1", "2", requests=requests), instructions="Speak Latin.")
    with pytest.raises(UsageError, match="Instructions cannot be changed"):
        mainspring.run("x", session=first.session, instructions="Speak Greek.")
    mainspring.run("y", session=first.session, model=model("1", "2", requests=requests))
    assert requests[1].system == requests[0].system


def test_the_parts_of_the_prompt_are_on_record() -> None:
    async def prompt() -> PromptSet:
        options = mainspring.OpenOptions(model=model(), sessions=MemorySessions(), instructions="Be brief.")
        async with mainspring.open(**options) as session:
            return session.state.prompt

    part = asyncio.run(prompt()).parts[-1]
    assert (part.name, part.source, part.size) == ("instructions", "program", len("Be brief."))


def test_the_blocking_functions_work_inside_a_running_loop() -> None:
    async def inside() -> tuple[str, mainspring.StepResult]:
        reply = mainspring.run("x", model=model("Hello."))
        return reply.text, mainspring.run_step(["echo", "hi"])

    text, step = asyncio.run(inside())
    assert (text, step.stdout, step.exit_code) == ("Hello.", b"hi\n", 0)


def test_an_error_inside_a_running_loop_reaches_the_caller() -> None:
    async def inside() -> None:
        mainspring.run("x", model=model(), tools=["reed"])

    with pytest.raises(UsageError, match="reed"):
        asyncio.run(inside())


def test_a_loop_runs_inside_a_running_event_loop(workspace: Path) -> None:
    (workspace / "agent.sh").write_text("cat > prompt; echo '<promise>DONE</promise>'\n")
    claim = '[[claim]]\nname = "a"\nstatement = "1 = 1"\ncheck = "test 1 = 1"\ngoal = true\n'
    (workspace / "prover.sh").write_text(
        f"mkdir -p projects; cat > projects/claims.toml <<'X'\n{claim}X\necho '<promise>DONE</promise>'\n"
    )
    config = mainspring.ExploopConfig(goal="g", workspace=workspace, engine="exec:sh agent.sh")

    async def inside() -> tuple[int, int]:
        other = mainspring.DrvloopConfig(goal="h", workspace=workspace, engine="exec:sh prover.sh")
        return mainspring.run_exploop(config), await mainspring.run_drvloop_async(other)

    assert asyncio.run(inside()) == (0, 0)


def test_a_step_is_run_and_kept(workspace: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept" / "one"
    argv = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    step = mainspring.run_step(argv, timeout_s=60, memory_mb=512, label="first", keep=kept)
    assert (step.state, step.exit_code, step.is_ok, step.label) == ("error", 3, False, "first")
    assert ((kept / "stdout").read_bytes(), (kept / "stderr").read_bytes()) == (b"out\n", b"err\n")
    record = json.loads((kept / "step.json").read_bytes())
    assert (record["id"], record["label"], record["argv"]) == (step.step, "first", argv)
    assert record["cwd"] == str(workspace)


def test_a_step_that_nobody_approves_is_refused_and_says_why() -> None:
    argv = ["git", "push", "--force"]
    is_allowed, reason = mainspring.is_allowed(argv)
    step = mainspring.run_step(argv)
    assert (is_allowed, step.state, step.exit_code) == (False, "refused", None)
    assert reason
    assert reason in step.reason


def test_importing_the_package_loads_nothing_else() -> None:
    code = (
        "import sys, mainspring; print(*[m for m in sys.modules if m.startswith(('mainspring.', 'asyncio'))])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_what_is_for_tests_can_be_used_by_name() -> None:
    assert sorted(FOR_TESTS.split()) == sorted(mainspring.testing.__all__) == sorted(dir(mainspring.testing))
    for name in mainspring.testing.__all__:
        assert getattr(mainspring.testing, name).__doc__
    with pytest.raises(AttributeError, match="no_such_name"):
        getattr(mainspring.testing, "no_such_name")  # noqa: B009
