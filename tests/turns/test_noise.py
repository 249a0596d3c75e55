"""What a lost model says is not called done."""

from pathlib import Path

import msgspec
import pytest

from mainspring.events import GuardTripped
from mainspring.models.scripted import Case, ScriptedCall, ScriptedReply
from tests.models.every_wire import WIRES, Wired

LOOK = ScriptedReply(calls=(ScriptedCall("read", {"path": "a.txt"}),))
NOISE = "and again " * 60
CASES: dict[str, tuple[list[ScriptedReply], str, list[str]]] = {
    "empty, then an answer": ([ScriptedReply()], "done", ["empty"]),
    "empty after calls, then an answer": ([LOOK, ScriptedReply()], "done", ["empty"]),
    "empty for ever": ([ScriptedReply()], "failed", ["empty", "empty", "empty"]),
    "only thinking for ever": ([ScriptedReply(thinking="Hm.")], "failed", ["empty", "empty", "empty"]),
    "only a think block": ([ScriptedReply("<think>Hm.</think>\n")] * 3, "failed", ["empty"] * 3),
    "a think block that never ends": ([ScriptedReply("<think>Hm, so")] * 3, "failed", ["empty"] * 3),
    "the end of a think block": ([ScriptedReply("Hm, so\n</think>\n\n")] * 3, "failed", ["empty"] * 3),
    "nothing in a fence": ([ScriptedReply("```text\n\n```")] * 3, "failed", ["empty"] * 3),
    "nothing that can be seen": ([ScriptedReply("\u200b\ufeff\0")] * 3, "failed", ["empty"] * 3),
    "thinking, then an answer": ([ScriptedReply("<think>Hm.</think>\nSo.")], "done", []),
    "an answer about thinking": ([ScriptedReply("It writes `<think>` first.")], "done", []),
    "noise, then an answer": ([ScriptedReply(NOISE), ScriptedReply("So.")], "done", ["repetition"]),
    "noise twice": ([ScriptedReply(NOISE), ScriptedReply(NOISE * 2)], "failed", ["repetition", "repetition"]),
    "noise that was cut": (
        [ScriptedReply(NOISE, stop="length"), ScriptedReply("So.")],
        "done",
        ["repetition"],
    ),
    "refused": ([ScriptedReply("No.", stop="refused")], "failed", []),
    "cut, then the rest": ([ScriptedReply("Half a", stop="length"), ScriptedReply(" line.")], "done", []),
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("case", CASES)
def test_a_turn_ends_as_done_only_with_an_answer(case: str, wire: str, tmp_path: Path) -> None:
    replies, ending, guards = CASES[case]
    stage = Wired(tmp_path, *replies)
    if guards == ["empty"]:  # an empty reply does not stand in the next request, so its place is the same
        case_after = Case("Your reply was empty", (ScriptedReply("So."),) * 2)
        stage.script = msgspec.structs.replace(stage.script, cases=(case_after,))
    (stage.workspace / "a.txt").write_text("what it says")
    events = stage.run(wire, "go")
    assert events[-1].ending == ending
    assert [event.guard for event in events if isinstance(event, GuardTripped)] == guards
