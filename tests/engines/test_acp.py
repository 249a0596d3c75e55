"""Agents that speak the Agent Client Protocol: what they ask for passes our policy, files and sandbox."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mainspring.engines.acp import talk
from mainspring.engines.catalog import described
from mainspring.engines.settings import EngineSettings
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    CallStarted,
    Decision,
    EngineEnded,
    Event,
    FilesChanged,
    TurnEnded,
)
from tests.engines.house import House, settings


def take(house: House, text: str, **options: Any) -> list[Event]:
    async def taken() -> list[Event]:
        async with house.opened(engine="acp_agent", **options) as session:
            return [event async for event in session.run(text)]

    return asyncio.run(taken())


def of(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def approver(decision: Decision) -> Any:
    async def decide(question: ApprovalAsked) -> ApprovalGiven:
        allowed = "allow" if question.tool == "engine" else decision
        return ApprovalGiven(call=question.call, arguments_sha256=question.arguments_sha256, decision=allowed)

    return decide


async def nobody_for_calls(question: ApprovalAsked) -> ApprovalGiven | None:
    return await approver("allow")(question) if question.tool == "engine" else None


def test_a_contained_agent_is_permitted_unasked(tmp_path: Path) -> None:
    events = take(House(tmp_path), "permit")
    assert of(events, AssistantSaid)[-1].text == "allowed"
    assert of(events, ApprovalAsked) == []
    assert [each.outcome for each in of(events, CallEnded)] == ["ok"]


@pytest.mark.parametrize(
    ("decision", "outcome", "says"), [("allow", "ok", "allowed"), ("reject", "refused", "refused")]
)
def test_permission_is_a_question_to_a_person(
    decision: Decision, outcome: str, says: str, tmp_path: Path
) -> None:
    events = take(House(tmp_path), "permit", mode="ask", approver=approver(decision))
    asked = of(events, ApprovalAsked)[-1]
    assert (asked.tool, asked.arguments) == ("execute", '{"title":"rm old"}')
    said = of(events, AssistantSaid)
    assert asked.call == said[0].calls[0].call
    assert of(events, ApprovalGiven)[-1].decision == decision
    assert [each.outcome for each in of(events, CallEnded)] == [outcome]
    assert len(of(events, CallStarted)) == (decision == "allow")
    assert said[-1].text == says


def test_without_a_person_the_turn_is_blocked(tmp_path: Path) -> None:
    end = take(House(tmp_path), "permit", mode="ask", approver=nobody_for_calls)[-1]
    assert isinstance(end, TurnEnded)
    assert end.ending == "blocked"
    assert "A person must approve" in end.detail


@pytest.mark.parametrize(("decision", "says"), [("allow", "allowed"), ("reject", "refused")])
def test_an_answer_to_a_blocked_call_is_used_when_the_agent_asks_again(
    decision: Decision, says: str, tmp_path: Path
) -> None:
    house = House(tmp_path)
    asked = of(take(house, "permit", mode="ask", approver=nobody_for_calls), ApprovalAsked)[-1]
    given = ApprovalGiven(call=asked.call, arguments_sha256=asked.arguments_sha256, decision=decision)

    async def answered() -> list[Event]:
        async with house.opened(approver=nobody_for_calls) as session:
            await session.answer(given)
            return [event async for event in session.run()]

    events = asyncio.run(answered())
    assert of(events, TurnEnded)[-1].ending == "done"
    assert of(events, AssistantSaid)[-1].text == says


def test_files_go_through_the_policy(tmp_path: Path) -> None:
    house = House(tmp_path)
    events = take(house, "files")
    said = of(events, AssistantSaid)[-1].text
    assert said.startswith("read 2, and: ")
    assert "outside the workspace" in said
    assert (house.workspace / "a.txt").read_text() == "1\n2\n3\n"
    assert [change.path for each in of(events, FilesChanged) for change in each.changes] == ["a.txt"]


def test_a_file_that_an_agent_reads_passes_hooks(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.config.folder.mkdir(exist_ok=True)
    hook = {"type": "command", "command": "cat > told.json; echo not this one >&2; exit 2"}
    hooks = {"PreToolUse": [{"matcher": "Read", "hooks": [hook]}]}
    (house.config.folder / "hooks.json").write_text(json.dumps({"hooks": hooks}))
    said = of(take(house, "files"), AssistantSaid)[-1].text
    assert said.startswith("not read: ")
    assert "not this one" in said
    told = json.loads((house.workspace / "told.json").read_text())["tool_input"]
    assert told == {"file_path": str(house.workspace / "a.txt"), "offset": 2, "limit": 1}


def test_terminals_run_in_the_sandbox_and_their_exit_code_is_the_calls(tmp_path: Path) -> None:
    events = take(House(tmp_path), "terminal")
    (ended,) = of(events, CallEnded)
    assert (ended.outcome, ended.exit_code, ended.output) == ("error", 4, "out\n")
    assert of(events, AssistantSaid)[-1].text == "exit 4"


def test_in_plan_mode_no_file_is_written(tmp_path: Path) -> None:
    house = House(tmp_path)
    end = take(house, "files", mode="plan")[-1]
    assert isinstance(end, TurnEnded)
    assert end.ending == "failed"
    assert not (house.workspace / "a.txt").exists()


def test_another_version_of_the_protocol_is_a_clear_error(tmp_path: Path) -> None:
    house = House(tmp_path, acp_agent=settings("acp_agent", "--other-version"))
    end = take(house, "work")[-1]
    assert isinstance(end, TurnEnded)
    assert end.ending == "failed"
    assert "speaks version 9 of the protocol, and we speak 1" in end.detail


def test_noise_on_its_output_is_counted(tmp_path: Path) -> None:
    events = take(House(tmp_path, acp_agent=settings("acp_agent", "--noise")), "work")
    (ended,) = of(events, EngineEnded)
    assert (ended.unread_lines, ended.unread) == (1, "this is no message")


def test_an_agent_that_dies_is_a_failure_with_its_exit_code(tmp_path: Path) -> None:
    events = take(House(tmp_path), "fail")
    assert "it broke" in of(events, TurnEnded)[-1].detail
    assert of(events, EngineEnded)[0].exit_code == 3


def test_a_stopped_agent_is_told_that_it_is_cancelled(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def main() -> None:
        async with house.opened(engine="acp_agent") as session:
            async for event in session.run("hang"):
                if isinstance(event, CallStarted):
                    session.stop_soon()

    asyncio.run(main())
    assert (house.workspace / "cancelled").exists()


def test_a_turn_that_the_agent_cancels_by_itself_has_failed(tmp_path: Path) -> None:
    end = take(House(tmp_path), "withdraw")[-1]
    assert isinstance(end, TurnEnded)
    assert (end.ending, "cancelled" in end.detail) == ("failed", True)


def test_an_agent_that_never_answers_is_stopped_with_what_it_said_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "_SILENT_WITHIN_S", 2.0)
    house = House(tmp_path)
    (house.workspace / "mute.sh").write_text("echo please log in first >&2; exec sleep 300\n")

    async def taken() -> list[Event]:
        async with house.opened(engine="acp:sh mute.sh") as session:
            return [event async for event in session.run("work")]

    (ended,) = of(asyncio.run(taken()), TurnEnded)
    assert ended.ending == "failed"
    assert "did not begin a session in time. please log in first" in ended.detail


def test_an_agent_that_is_known_by_name_has_its_keys_and_state_over_acp_too(tmp_path: Path) -> None:
    mine = EngineSettings(env=("MINE",))
    facts, command, own = described("acp:/opt/bin/gemini --acp", {"gemini": mine})
    assert command == ("/opt/bin/gemini", "--acp")
    assert "GEMINI_API_KEY" in facts.variables
    assert facts.state(tmp_path, {}).folders == (tmp_path / ".gemini",)
    assert own == mine
    assert facts.name == "acp"
    other, _, _ = described("acp:mine --acp", {})
    assert other.variables == ()
