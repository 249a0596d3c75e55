"""Each guard: when it speaks, what it says, when it ends a turn, and when it must keep quiet."""

from __future__ import annotations

import pytest

from mainspring.context.guards import IDLE_STEPS, Guards
from mainspring.context.intent import announces, rules
from mainspring.context.values import canonical
from mainspring.events import FilesChanged, GuardTripped, NoteAdded, Remembered, UserSaid
from tests.context.telling import Tale, plan_set

A = ("read", {"path": "a"}, "aaa")
B = ("read", {"path": "b"}, "bbb")
C = ("shell", {"command": "make"}, "exit code 2\nno rule")


class Watched(Tale):
    """A tale in which the guards are asked after each step, as the loop asks them."""

    def __init__(self) -> None:
        self.guards = Guards()
        super().__init__(self.guards)
        self.trips: list[GuardTripped] = []
        self.user()

    def step(self, *calls, **said) -> None:
        super().step(*calls, **said)
        if tripped := self.guards.check():
            self.trips.append(tripped)
            self.add(tripped)

    @property
    def said(self) -> list[str]:
        return [f"{trip.guard}{' final' if trip.is_final else ''}" for trip in self.trips]


@pytest.mark.parametrize(
    ("cycle", "names"),
    [([A], "the same call of read"), ([A, C], "read → shell"), ([A, B, C], "read → read → shell")],
    ids=["period 1", "period 2", "period 3"],
)
def test_a_doom_loop_is_named_at_the_third_time_and_ends_after_two_more(cycle, names):
    told = Watched()
    for deed in cycle * 3:
        assert told.said == []
        told.step(deed)
    assert told.said == ["loop"]
    assert names in told.trips[0].message
    for deed in cycle * 2:
        assert told.said == ["loop"]
        told.step(deed)
    assert told.said == ["loop", "loop final"]
    assert told.guards.check() is told.guards.final


def test_calls_of_one_message_count_in_the_order_asked():
    told = Watched()
    for _ in range(3):
        told.step(A, C)
    assert told.said == ["loop"]


def test_arguments_are_compared_as_json_values():
    told = Watched()
    for arguments in (
        '{"path": "a", "limit": 1}',
        '{"limit":1.0,\n"path":"a"}',
        '{"limit":1,"path":"\\u0061"}',
    ):
        told.step(("read", arguments, "aaa"))
    assert told.said == ["loop"]
    assert canonical('{"b":1e400,"a":[1.50]}') != canonical('{"b":1,"a":[1.5]}')
    assert canonical('{"a":true}') != canonical('{"a":1}')
    assert canonical("not json") == "not json"


def test_results_that_change_never_count():
    told = Watched()
    for number in range(20):
        told.step(("shell", {"command": "squeue"}, f"exit code 0\nrunning {number} s"))
    assert told.said == []


def test_other_arguments_never_count():
    told = Watched()
    for number in range(20):
        told.step(("read", {"path": str(number)}, f"{number}"))
    assert told.said == []


def test_a_model_that_changes_its_ways_is_left_alone():
    told = Watched()
    for deed in [A, A, A, B, A, B, C, A, A]:
        told.step(deed)
    assert told.said == ["loop"]


def test_a_new_loop_after_a_change_is_told_again_before_it_ends():
    told = Watched()
    for deed in [A, A, A, A, B, B, B]:
        told.step(deed)
    assert told.said == ["loop", "loop"]
    told.step(B)
    told.step(B)
    assert told.said == ["loop", "loop", "loop final"]


def test_what_a_person_says_starts_the_count_anew():
    told = Watched()
    told.step(A)
    told.step(A)
    told.add(UserSaid(text="go on"))
    told.step(A)
    assert told.said == []


def test_explicit_waits_are_never_a_loop_and_never_idle():
    told = Watched()
    for _ in range(IDLE_STEPS * 2):
        told.step(("wait", {"seconds": 60}, "still running"))
    assert told.said == []


def test_the_same_text_three_times_is_named_and_ends_after_two_more():
    told = Watched()
    for number in range(5):
        told.step(("shell", {"command": f"true {number}"}, "exit code 0"), text="Now I check the build again")
    assert told.said == ["echo", "echo final"]
    assert "Now I check the build again" in told.trips[0].message


def test_the_same_text_with_new_results_is_work():
    told = Watched()
    for number in range(9):
        told.step(("read", {"path": f"{number}"}, f"page {number}"), text="Reading on.")
    assert told.said == []


def test_the_same_text_while_files_change_is_work():
    told = Watched()
    for number in range(9):
        told.add(FilesChanged())
        told.step(("shell", {"command": f"touch {number}"}, "exit code 0"), text="Now the next one.")
    assert told.said == []


def test_two_malformed_calls_of_one_tool_ask_for_another_way_and_two_more_end():
    told = Watched()
    for number in range(4):
        told.step(("write", f"{{broken {number}", "!The arguments are not valid JSON"))
    assert told.said == ["malformed", "malformed final"]
    assert "write" in told.trips[0].message


def test_several_malformed_calls_of_one_message_are_told_before_anything_ends():
    told = Watched()
    told.step(*[("write", f"{{broken {number}", "!not valid JSON") for number in range(6)])
    told.step(text="I cannot write it.")
    told.step(text="There is nothing more to do.")
    assert told.said == ["malformed"]


def test_calls_that_were_cut_off_are_not_malformed():
    told = Watched()
    for number in range(4):
        told.step(("write", f"{{broken {number}", "!Not run: cut off"), stop="length")
    assert told.said == []


def test_a_good_call_between_two_malformed_ones_starts_the_count_anew():
    told = Watched()
    for number in range(4):
        told.step(("write", f"{{broken {number}", "!not valid JSON"))
        told.step(("write", {"path": f"{number}"}, "Wrote it"))
    assert told.said == []


def test_a_call_that_ran_and_failed_is_not_malformed():
    told = Watched()
    for number in range(4):
        told.step(("shell", {"command": f"false {number}"}, f"exit code 1\n{number}"))
    assert told.said == []


def test_empty_replies_are_asked_about_twice_and_the_third_ends():
    told = Watched()
    for _ in range(3):
        told.step()
    assert told.said == ["empty", "empty", "empty final"]


def test_an_empty_reply_after_work_starts_the_count_anew():
    told = Watched()
    for number in range(4):
        told.step()
        told.step(("read", {"path": f"{number}"}, f"{number}"))
    assert "empty final" not in told.said


def test_a_reply_that_was_cut_off_or_refused_is_not_an_empty_one():
    told = Watched()
    told.step(stop="length")
    told.step(stop="refused")
    assert told.said == []


@pytest.mark.parametrize("token", ["<|im_end|>", "</s>", "<end_of_turn>", "<|endoftext|><|endoftext|>"])
def test_control_tokens_are_an_empty_reply(token):
    told = Watched()
    told.step(text=token)
    assert told.said == ["empty"]


NOISE = [
    "!" * 60,
    "GGGG" * 20,
    "I am here. " * 10,
    "and then the same line again\n" * 30,
    "ab" * 5000 + "a",
]


@pytest.mark.parametrize("text", NOISE)
@pytest.mark.parametrize("stop", ["end", "length"])
def test_an_answer_that_only_repeats_itself_is_asked_for_once_more(text, stop):
    told = Watched()
    told.step(text=text, stop=stop)
    told.step(text=text * 2, stop=stop)
    assert told.said == ["repetition", "repetition final"]
    told.user()
    told.step(text=text, stop=stop)
    assert told.said[2:] == ["repetition"], "what a person says starts anew"


@pytest.mark.parametrize(
    "text",
    [
        "Done.",
        "!!!",
        "The tests pass, and nothing else has changed.\n" + "-" * 80,
        "\n".join(f"- file_{number}.py is unchanged" for number in range(200)),
        "[" + "0, " * 300 + "0]",
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 9 + "These are all.",
    ],
)
def test_an_answer_with_some_repetition_is_an_answer(text):
    told = Watched()
    told.step(text=text)
    told.step(("shell", {"command": "x"}, "y"), text="ha" * 300)
    assert told.said == []


def test_stopping_with_an_unfinished_plan_is_answered_twice_and_then_accepted():
    told = Watched()
    told.add(plan_set(("read the code", "done"), ("fix it", "doing"), ("test it", "open")))
    for number in range(4):
        told.step(text=f"That is all {number}.")
    assert told.said == ["plan", "plan"]
    assert "fix it; test it" in told.trips[0].message


@pytest.mark.parametrize("items", [[("fix it", "done")], []])
def test_a_finished_plan_is_not_mentioned(items):
    told = Watched()
    told.add(plan_set(*items))
    told.step(text="That is all.")
    assert told.said == []


def test_a_question_to_the_user_is_a_reason_to_stop():
    told = Watched()
    told.add(plan_set(("fix it", "open")))
    told.step(text="Shall I use the old format?")
    assert told.said == []


@pytest.mark.parametrize(
    "text",
    [
        "I will now run the tests.",
        "The cause is clear.\n\nLet me fix it:",
        "Now I'll edit shop.py.",
        "Good. Next, I am going to read the log.",
        "1. I’ll open the file",
    ],
)
def test_an_announcement_without_a_call_is_asked_about_once(text):
    assert announces(text)
    told = Watched()
    told.step(text=text)
    told.step(text=text)
    assert told.said == ["promise"]


@pytest.mark.parametrize(
    "text",
    [
        "I fixed it and the tests pass.",
        "Done. Let me know if you need anything else.",
        "I will run the tests now, is that fine?",
        "I'll leave the rest to you.",
        "I will not touch the database.",
        "First I will look. The file is fine.",
        "",
    ],
)
def test_a_report_is_not_an_announcement(text):
    assert not announces(text)


def test_nothing_new_in_many_steps_pauses_with_a_summary():
    told = Watched()
    for number in range(IDLE_STEPS + 1):
        told.step(("shell", {"command": f"grep x{number} ."}, "exit code 1"), text=f"Looking {number}")
    assert told.said == ["stall final"]
    assert f"{IDLE_STEPS} steps" in told.trips[0].message
    assert "shell" in told.trips[0].message
    assert "Looking" in told.trips[0].message


@pytest.mark.parametrize(
    "deed",
    [
        lambda n: ("read", {"path": f"{n}"}, f"new {n}"),
        lambda n: ("write", {"path": "a", "content": f"{n}"}, "Wrote a (1 bytes)."),
    ],
    ids=["new results", "files"],
)
def test_something_new_is_progress(deed):
    told = Watched()
    for number in range(IDLE_STEPS * 3):
        told.step(deed(number))
    assert told.said == []


def test_a_test_that_begins_to_pass_is_progress():
    told = Watched()
    idle = IDLE_STEPS - 2
    for number in range(idle):
        told.step(("shell", {"command": f"pytest # {number}"}, "exit code 1"))
    told.step(("shell", {"command": "pytest # 0"}, "exit code 0"))
    for number in range(idle):
        told.step(("shell", {"command": f"pytest ## {number}"}, "exit code 1"))
    assert told.said == []


@pytest.mark.parametrize("event", [NoteAdded(text="x", source="agent"), plan_set(("a", "open"))])
def test_notes_and_plans_are_progress(event):
    told = Watched()
    for number in range(IDLE_STEPS + 2):
        if number == IDLE_STEPS // 2:
            told.add(event)
        told.step(("shell", {"command": f"grep x{number} ."}, "exit code 1"))
    assert told.said == []


def test_what_is_written_down_again_and_again_is_no_progress():
    told = Watched()
    for number in range(IDLE_STEPS * 2):
        told.add(Remembered(text=f"fact {number % 4}", call=f"c{number}"))
        told.add(plan_set((f"item {number % 5}", "open")))
        told.step(("note", {"text": f"fact {number % 4}"}, "Noted."))
        if told.guards.final:
            break
    assert told.said == ["stall final"]


def test_rules_are_the_sentences_that_bind():
    text = (
        "Please fix it. Never touch the API!\n- only use the standard library\n* It is red.\nYou must test it"
    )
    assert rules(text) == ["Never touch the API!", "only use the standard library", "You must test it"]
