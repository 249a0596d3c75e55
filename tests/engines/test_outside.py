"""Outside agents in real sessions: what they say becomes our events, and what they may do is bounded."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from mainspring.engines.settings import EngineSettings
from mainspring.errors import UsageError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    CallEnded,
    Compacted,
    EngineChosen,
    EngineEnded,
    Event,
    FilesChanged,
    Limits,
    SpendReserved,
    SpendSettled,
    Text,
    Thinking,
    TurnEnded,
)
from mainspring.models import Price
from mainspring.session.session import runtime_of
from mainspring.testing.engines import processes
from tests.engines.house import NAMES, Acting, House, settings

SPEAKING = ("codex", "claude", "gemini", "opencode", "acp_agent")


def take(house: House, text: str, **options: Any) -> list[Event]:
    async def taken() -> list[Event]:
        async with house.opened(**options) as session:
            return [event async for event in session.run(text)]

    return asyncio.run(taken())


def of(events: list[Event], kind: type[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def ended(events: list[Event]) -> TurnEnded:
    (found,) = of(events, TurnEnded)
    return found


@pytest.mark.parametrize("name", SPEAKING)
def test_what_an_agent_does_becomes_our_events(name: str, tmp_path: Path) -> None:
    house = House(tmp_path)
    events = take(house, "work", engine=name)
    said = of(events, AssistantSaid)
    assert [[call.name for call in each.calls] != [] for each in said] == [True, True, False]
    assert said[0].text == "I make a file."
    assert said[-1].parts[-1] == Text(text="All is finished.\nDONE")
    assert [each.outcome for each in of(events, CallEnded)] == ["ok", "error"]
    (changed,) = of(events, FilesChanged)
    assert [change.path for change in changed.changes] == ["made.txt"]
    assert changed.calls == (said[0].calls[0].call,)
    (reserved,), (settled,) = of(events, SpendReserved), of(events, SpendSettled)
    assert reserved.source == "engine"
    assert (settled.usage.input_tokens, settled.usage.cached_tokens) == (1000, 400)
    assert settled.usage.output_tokens == 100
    assert ended(events).detail == "DONE"


def test_exit_codes_thinking_and_reported_money_are_kept(tmp_path: Path) -> None:
    codex = take(House(tmp_path), "work", engine="codex")
    assert [each.exit_code for each in of(codex, CallEnded)] == [0, 1]
    assert of(codex, AssistantSaid)[0].parts[0] == Thinking(text="Hm.")
    for name, usd in (("claude", 0.25), ("opencode", 0.125)):
        (tmp_path / name).mkdir()
        assert ended(take(House(tmp_path / name), "work", engine=name)).cost_usd == usd


@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_event_is_counted_and_does_no_harm(name: str, tmp_path: Path) -> None:
    events = take(House(tmp_path), "garbage", engine=name)
    assert ended(events).ending == "done"
    (told,) = of(events, EngineEnded)
    if name != "plain":
        assert told.unread_lines in (2, 3)
        assert "this is no event" in told.unread
        assert of(events, AssistantSaid)[-1].text == "still here"


@pytest.mark.parametrize("name", NAMES)
def test_a_very_long_line_is_bounded(name: str, tmp_path: Path) -> None:
    events = take(House(tmp_path), "long", engine=name)
    assert ended(events).ending == "done"
    assert len(of(events, AssistantSaid)[-1].text) < 2_200_000
    assert of(events, AssistantSaid)[-1].text.rstrip().endswith("short")


@pytest.mark.parametrize("name", NAMES)
def test_an_agent_that_dies_in_the_middle_of_a_line_has_failed(name: str, tmp_path: Path) -> None:
    end = ended(take(House(tmp_path), "half", engine=name))
    assert end.ending == "failed"
    assert "139" in end.detail


@pytest.mark.parametrize("name", SPEAKING)
def test_a_call_without_a_result_is_closed_as_unknown(name: str, tmp_path: Path) -> None:
    events = take(House(tmp_path), "open", engine=name)
    assert [each.outcome for each in of(events, CallEnded)] == ["unknown"] * (name != "opencode")
    assert of(events, AssistantSaid)[-1].text == "never mind"


def test_a_failure_tells_the_exit_code_and_the_errors(tmp_path: Path) -> None:
    events = take(House(tmp_path), "fail", engine="codex")
    assert ended(events).detail == "codex exited with code 3. it broke"
    assert of(events, EngineEnded)[0].exit_code == 3


@pytest.mark.parametrize("sandbox", ["", "landlock", "none"])
def test_what_an_agent_leaves_running_is_ended_and_told(sandbox: str, tmp_path: Path) -> None:
    mode = {"mode": "yolo", "limits": Limits(max_cost_usd=9.0)} if sandbox == "none" else {}
    marker = f"marker-{os.getpid()}-{sandbox}"
    events = take(House(tmp_path), f"stray {marker}", engine="claude", sandbox=sandbox, **mode)
    assert ended(events).ending == "done"
    assert processes(marker) == []
    assert of(events, EngineEnded)[0].left_running


def test_a_session_keeps_its_engine_and_its_conversation(tmp_path: Path) -> None:
    house = House(tmp_path)
    first = take(house, "work", engine="codex")
    assert [event.conversation for event in of(first, EngineChosen)] == ["", "", "thread-1"]
    assert [event.version for event in of(first, EngineChosen)] == ["", "fake 1.2.3", "fake 1.2.3"]
    second = take(house, "size")
    assert of(second, EngineChosen) == []
    assert of(second, AssistantSaid)[-1].text.startswith("4 ")
    assert of(second, SpendSettled)[0].usage.total_tokens == 0, "a thread's total was counted before"


def test_a_history_that_was_made_short_begins_a_new_conversation(tmp_path: Path) -> None:
    house = House(tmp_path)
    take(house, "work", engine="codex")

    async def shortened() -> str:
        async with house.opened() as session:
            known = session.state.engine.conversation
            await runtime_of(session).record(
                Compacted(summary="", keep_from_seq=runtime_of(session).history.last_seq + 1)
            )
            return f"{known} then {session.state.engine.conversation or 'none'}"

    assert asyncio.run(shortened()) == "thread-1 then none"
    settled = of(take(house, "work"), SpendSettled)
    assert settled[0].usage.total_tokens == 1100, "a new thread counts from nothing"


def test_the_builtin_engine_goes_on_where_an_agent_was(tmp_path: Path) -> None:
    house = House(tmp_path)
    take(house, "work", engine="gemini")
    events = take(house, "work", engine="builtin", model=Acting("work"))
    assert [each.engine for each in of(events, EngineChosen)] == ["builtin"]
    assert ended(events).ending == "done"


def test_an_agent_is_stopped_when_it_has_spent_too_much(tmp_path: Path) -> None:
    house = House(tmp_path)
    end = ended(take(house, "work", engine="opencode", limits=Limits(max_cost_usd=0.1)))
    assert end.ending == "budget"
    assert "0.1250 of 0.1000 USD" in end.detail


def test_limits_on_steps_and_calls_stop_an_agent(tmp_path: Path) -> None:
    for limits in (Limits(max_steps=1), Limits(max_calls=1)):
        (folder := tmp_path / str(hash(limits))).mkdir()
        events = take(House(folder), "work", engine="codex", limits=limits)
        assert ended(events).ending == "limit"
        assert len(of(events, CallEnded)) == 1


def test_a_cost_limit_needs_a_price_or_an_agent_that_tells_its_cost(tmp_path: Path) -> None:
    house, capped = House(tmp_path), Limits(max_cost_usd=1.0)
    with pytest.raises(UsageError, match="price of codex is unknown"):
        take(house, "work", engine="codex", limits=capped)
    assert ended(take(house, "work", engine="codex", limits=capped, allow_unpriced=True)).ending == "done"
    house.session = ""
    house.config.settings.prices["mine"] = Price(input=100.0, output=1000.0, cached=0.0)
    events = take(house, "work", engine="codex", model="mine", limits=capped)
    assert ended(events).cost_usd == pytest.approx(0.16)


def test_a_missing_program_is_told_with_its_remedy(tmp_path: Path) -> None:
    house = House(tmp_path, codex=EngineSettings(command=("/nowhere/codex",)))
    with pytest.raises(UsageError, match="/nowhere/codex, which is not installed") as refused:
        take(house, "work", engine="codex")
    assert "npm install -g @openai/codex" in refused.value.remedy
    with pytest.raises(UsageError, match="There is no engine 'nobody'"):
        take(house, "work", engine="nobody")


def test_a_program_that_vanished_ends_the_turn_with_its_remedy(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\nrm -f $0; echo done\n")
    program.chmod(0o755)
    house = House(tmp_path, mine=EngineSettings(command=(str(program),), protocol="exec"))

    async def main() -> list[Event]:
        async with house.opened(engine="mine") as session:
            program.unlink()
            return [event async for event in session.run("go")]

    end = ended(asyncio.run(main()))
    assert end.ending == "failed"
    assert f"{program} of the engine mine is gone" in end.detail


def test_an_agent_writes_only_to_the_workspace_and_its_own_state(tmp_path: Path) -> None:
    script = (
        "for f in $HOME/.codex/state $HOME/other inside; do echo x > $f && echo wrote $f; done;"
        " cat $HOME/.codex/auth.json $HOME/.claude/.credentials.json"
    )
    agent = EngineSettings(command=("sh", "-c", script), protocol="exec", writable=())
    house = House(tmp_path, mine=agent)
    for name in (".codex/auth.json", ".claude/.credentials.json"):
        (house.home / name).parent.mkdir(parents=True)
        (house.home / name).write_text(f"secret of {name}\n")
    take(house, "go", engine="mine", sandbox="landlock")
    assert not (house.home / ".codex" / "state").exists()
    house.config.settings.engines["mine"] = EngineSettings(
        command=("sh", "-c", script), protocol="exec", writable=(str(house.home / ".codex"),)
    )
    for sandbox in ("bwrap", "landlock"):
        house.session = ""
        events = take(house, "go", engine="mine", sandbox=sandbox)
        said = of(events, AssistantSaid)[-1].text
        assert "wrote inside" in said
        assert (house.home / ".codex" / "state").read_text() == "x\n", sandbox
        (house.home / ".codex" / "state").unlink()
        assert not (house.home / "other").exists()
        assert "secret of .codex/auth.json" in said
        assert "secret of .claude" not in said


def test_only_listed_variables_reach_an_agent(tmp_path: Path) -> None:
    agent = EngineSettings(command=("env",), protocol="exec", env=("WANTED",))
    house = House(tmp_path, mine=agent)
    house.config.environment.update(WANTED="yes", OTHER_TOKEN="no", HTTPS_PROXY="http://proxy")  # type: ignore[attr-defined]
    said = of(take(house, "go", engine="mine"), AssistantSaid)[-1].text
    assert "WANTED=" in said
    assert "HTTPS_PROXY=" in said
    assert "OTHER_TOKEN" not in said


def test_a_mode_that_asks_wants_a_yes_for_the_whole_turn(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def nobody(question: ApprovalAsked) -> None:
        return

    blocked = take(house, "work", engine="plain", mode="ask", approver=nobody)
    assert ended(blocked).ending == "blocked"

    async def yes(question: ApprovalAsked) -> ApprovalGiven:
        return ApprovalGiven(call=question.call, arguments_sha256=question.arguments_sha256, decision="allow")

    events = take(house, "work", approver=yes)
    assert ended(events).ending == "done"
    assert of(events, ApprovalAsked)[0].tool == "engine"


def test_an_answer_that_comes_while_a_turn_is_blocked_is_used_once(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def nobody(question: ApprovalAsked) -> None:
        return

    (asked,) = of(take(house, "work", engine="plain", mode="ask", approver=nobody), ApprovalAsked)
    yes = ApprovalGiven(call=asked.call, arguments_sha256=asked.arguments_sha256, decision="allow")

    async def answered() -> list[Event]:
        async with house.opened(approver=nobody) as session:
            await session.answer(yes)
            return [event async for event in session.run()]

    assert ended(asyncio.run(answered())).ending == "done"
    assert ended(take(house, "more work", approver=nobody)).ending == "blocked"


def test_in_plan_mode_an_agent_cannot_write_the_workspace(tmp_path: Path) -> None:
    agent = EngineSettings(command=("sh", "-c", "echo x > file || echo refused"), protocol="exec")
    house = House(tmp_path, mine=agent)
    for sandbox in ("bwrap", "landlock"):
        house.session = ""
        events = take(house, "go", engine="mine", mode="plan", sandbox=sandbox)
        assert of(events, AssistantSaid)[-1].text.strip() == "refused"
        assert not (house.workspace / "file").exists()


def test_what_is_said_meanwhile_is_answered_in_the_next_turn(tmp_path: Path) -> None:
    house = House(tmp_path, slow=EngineSettings(command=("sh", "-c", "cat; echo; cat go"), protocol="exec"))
    os.mkfifo(house.workspace / "go")

    async def main() -> list[Event]:
        async with house.opened(engine="slow") as session:
            events: list[Event] = []
            async for event in session.run("first thing"):
                events.append(event)
                if isinstance(event, SpendReserved):
                    if len(of(events, SpendReserved)) == 1:
                        await session.say("second thing")
                    await asyncio.to_thread((house.workspace / "go").write_text, "on\n")
            return events

    events = asyncio.run(main())
    assert [each.text for each in of(events, AssistantSaid)] == ["first thing\non\n", "second thing\non\n"]
    assert [each.ending for each in of(events, TurnEnded)] == ["done", "done"]


def test_a_turn_that_was_killed_is_told_that_it_was(tmp_path: Path) -> None:
    house = House(tmp_path)

    async def stopped() -> None:
        async with house.opened(engine="codex") as session:
            async for event in session.run("hang please"):
                if isinstance(event, AssistantSaid):
                    session.stop_soon()

    asyncio.run(stopped())
    house.config.settings.engines["codex"] = settings("codex")
    echo = EngineSettings(command=("cat",), protocol="exec")
    house.config.settings.engines["echo"] = echo
    events = take(house, "", engine="echo")
    text = of(events, AssistantSaid)[-1].text
    assert text.startswith("You were interrupted")
    assert text.strip().endswith("hang please")


def test_a_slow_reader_does_not_lose_lines(tmp_path: Path) -> None:
    script = "import sys\nfor n in range(200000): print('line', n)"
    house = House(tmp_path, many=EngineSettings(command=(sys.executable, "-c", script), protocol="exec"))
    said = of(take(house, "go", engine="many"), AssistantSaid)[-1].text
    assert said.startswith("line 0\n")
    assert said.endswith("line 199999\n")
    assert "bytes left out" in said
