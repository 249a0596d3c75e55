"""Random journals: every projection is a valid request, requests only grow at their end, compaction keeps what it
must, and guards folded live are those that a resumed process folds."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.context.compaction import compose, cut, size_after, stub_huge, thin_out
from mainspring.context.guards import load_guards
from mainspring.context.history import load_history
from mainspring.events import (
    ApprovalAsked,
    CallEnded,
    CallStarted,
    Compacted,
    GuardTripped,
    NoteAdded,
    Recorded,
    Remembered,
    TurnStarted,
    Undone,
    UserSaid,
)
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.models.wires.chat import ChatModel
from mainspring.testing.memory import MemoryJournal
from mainspring.turns.compactor import _read
from tests.context.telling import Tale, plan_set

SCRIPTED = ScriptedModel(Script(replies=()))
CHAT = ChatModel("m", "http://127.0.0.1:9/v1", "", "m")
SIZES = st.sampled_from([0, 3, 40, 900, 5000, 60_000])
TOOLS = st.sampled_from(["read", "write", "edit", "shell", "wait", "unknown"])
WORDS = st.sampled_from(["Sort the invoices.", "Never touch the API.", "Only use make.", "Look.", "x" * 9000])


@st.composite
def journals(draw: st.DrawFn) -> list[Recorded]:
    tale = Tale()
    tale.user(draw(WORDS))
    for _ in range(draw(st.integers(1, 14))):
        match draw(st.sampled_from(["step"] * 6 + ["late", "user", "note", "plan", "guard", "open", "undo"])):
            case "step":
                made = [
                    (draw(TOOLS), draw(st.sampled_from([{"path": "a.py"}, {"command": "make"}, {}, "[", "{" * 9])),
                     draw(st.sampled_from(["", "!", "exit code 1\n"])) + "r" * draw(SIZES))
                    for _ in range(draw(st.integers(0, 3)))
                ]  # fmt: skip
                tale.step(*made, text="t" * draw(SIZES))
            case "late":
                tale.steps += 1
                tale.step(("shell", {"command": "make"}, "exit code 0"), text="late")
                ended = tale.events.pop()
                tale.add(UserSaid(text="meanwhile"), ended.event)
            case "user":
                tale.add(UserSaid(text=draw(WORDS)), TurnStarted(turn=2))
            case "note":
                tale.add(NoteAdded(text="n" * draw(SIZES) or "n", source="user"), Remembered(text="kept"))
            case "plan":
                tale.add(plan_set(("one", "done"), ("two", "open")))
            case "guard":
                tale.add(GuardTripped(guard="echo", message="again", is_final=draw(st.booleans())))
            case "open":
                tale.add(
                    ApprovalAsked(
                        call=f"q{len(tale.events)}", tool="shell", arguments="{}", arguments_sha256="x"
                    )
                )
            case _:
                tale.add(Undone(to_seq=draw(st.integers(2, len(tale.events)))))
    return tale.events


def project(recorded: list[Recorded], model: Any) -> list[bytes]:
    async def projected() -> Any:
        history = await load_history(MemoryJournal(recorded), model.encode)
        return await history.messages(lambda blob: None)  # type: ignore[arg-type,return-value]

    return list(asyncio.run(projected()))


def check_scripted(messages: list[bytes]) -> None:
    shown = [msgspec.json.decode(message) for message in messages]
    for message, following in pairwise([*shown, {}]):
        asked = [part["call"] for part in message.get("parts", ()) if part["part"] == "call"]
        assert asked == [result["call"] for result in following.get("results", ())]


def check_chat(messages: list[bytes]) -> None:
    """As the wire wants it: after calls come exactly their results, and no result stands anywhere else."""
    waiting: list[str] = []
    for message in msgspec.json.decode(b"[" + b",".join(messages) + b"]"):
        if message["role"] == "tool":
            assert waiting
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        assert message["content"] or message.get("tool_calls")
        waiting = [asked["id"] for asked in message.get("tool_calls", ())]
        for asked in message.get("tool_calls", ()):
            assert isinstance(msgspec.json.decode(asked["function"]["arguments"]), dict)
    assert waiting == []


def compacted(recorded: list[Recorded], keep: int, target: int, way: str) -> Compacted:
    found = asyncio.run(_read(MemoryJournal(recorded), len(recorded)))
    ways = {"cut": cut(found.outline, keep=keep), "thin": thin_out(found.outline, target=target, keep=keep)}
    chosen = ways.get(way) or stub_huge(found.outline, target=target, keep=keep) or ways["cut"]
    summary = ""
    if chosen.keep_from_seq > found.outline.start:
        summary = compose(found.facts, "It goes well.", keep_from_seq=chosen.keep_from_seq, limit=4000)
    assert size_after(found.outline, chosen) <= found.outline.size
    return Compacted(summary=summary, keep_from_seq=chosen.keep_from_seq, stubbed=chosen.stubbed)


CUTS = st.tuples(st.integers(50, 20_000), st.integers(500, 50_000), st.sampled_from(["cut", "thin", "stub"]))


@given(journals())
@settings(max_examples=150)
def test_every_projection_is_a_valid_request_and_its_bytes_are_the_same_each_time(recorded):
    check_scripted(project(recorded, SCRIPTED))
    check_chat(project(recorded, CHAT))
    assert project(recorded, CHAT) == project(recorded, CHAT)


@given(journals())
@settings(max_examples=100)
def test_each_request_begins_with_the_bytes_of_the_one_before(recorded):
    before: list[bytes] = []
    for end, item in enumerate(recorded, 1):
        if isinstance(item.event, Undone):
            before = []
            continue
        if isinstance(item.event, CallEnded | CallStarted) or getattr(item.event, "calls", ()):
            continue  # no request is made before all results are there
        messages = project(recorded[:end], SCRIPTED)
        if not any(isinstance(later.event, CallEnded) for later in recorded[end : end + 1]):
            assert messages[: len(before)] == before
            before = messages


@given(journals(), CUTS)
@settings(max_examples=200)
def test_compaction_keeps_what_it_must_and_stays_valid(recorded, how):
    event = compacted(recorded, *how)
    after = [*recorded, Recorded(len(recorded) + 1, 0, event)]
    messages = project(after, SCRIPTED)
    check_scripted(messages)
    check_chat(project(after, CHAT))
    found = asyncio.run(_read(MemoryJournal(recorded), len(recorded)))
    text = b"\n".join(messages).decode()
    if event.summary:
        facts = found.facts
        # The goal in full, or both of its ends and its handle.
        assert facts.goal[:100] in event.summary
        for needed in (*facts.rules, *facts.open, *facts.plan):
            assert needed in event.summary
        for path in facts.files:
            assert path in event.summary
    else:
        said = [item.event for item in found.events if isinstance(item.event, UserSaid)]
        assert all(event.text[:100] in text for event in said)


@given(journals(), CUTS)
@settings(max_examples=100)
def test_what_a_compaction_keeps_has_the_bytes_it_had_before(recorded, how):
    event = compacted(recorded, *how)
    whole = set(project(recorded, SCRIPTED))
    after = project([*recorded, Recorded(len(recorded) + 1, 0, event)], SCRIPTED)
    changed = [message for message in after if message not in whole]
    assert len(changed) <= len(event.stubbed) + bool(event.summary)


@given(journals(), CUTS, CUTS)
@settings(max_examples=80)
def test_a_second_compaction_and_its_undoing_are_valid_too(recorded, first, second):
    once = [*recorded, Recorded(len(recorded) + 1, 0, compacted(recorded, *first))]
    event = compacted(once, *second)
    twice = [*once, Recorded(len(once) + 1, 0, event)]
    check_chat(project(twice, CHAT))
    assert project([*twice, Recorded(len(twice) + 1, 0, Undone(to_seq=len(once)))], CHAT) == project(
        once, CHAT
    )


@given(journals())
@settings(max_examples=100)
def test_guards_of_a_resumed_turn_decide_as_those_that_were_there(recorded):
    live = asyncio.run(load_guards(MemoryJournal(recorded[:2])))
    for item in recorded[2:]:
        live.apply(item)
    assert live.check() == asyncio.run(load_guards(MemoryJournal(recorded))).check()


def test_guards_of_a_long_turn_that_is_resumed_know_what_a_person_said_since_they_spoke():
    tale = Tale()
    tale.user()
    tale.add(GuardTripped(guard="stall", message="Nothing has changed.", is_final=True))
    tale.add(UserSaid(text="Look at the other file."))
    for number in range(1500):
        tale.step(("read", {"path": f"{number}"}, f"page {number}"))
    assert asyncio.run(load_guards(MemoryJournal(tale.events))).check() is None
