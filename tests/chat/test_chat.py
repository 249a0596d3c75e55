"""A chat as a person has it: typed, answered, stopped, left; seen through tmux."""

from __future__ import annotations

import json
from pathlib import Path

from tests.chat.conftest import FREE, Tmux

ANSWER = "# Result\n\nThe **total** is `42`.\n\n- one\n- two\n\n```python\nprint(42)\n```\n"


def test_a_message_is_answered_in_the_scrollback(tmux: Tmux) -> None:
    call = {"name": "shell", "arguments": {"command": "echo out of the box"}}
    model = tmux.machine.serve({"text": "I look.", "calls": [call]}, {"text": ANSWER, "chunk_size": 3})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("what is the total?", "Enter")
    seen = tmux.until("■ done")
    lines = [line.rstrip() for line in seen.splitlines()]
    assert "› what is the total?" in lines
    assert any(line.startswith("✓ shell echo out of the box · out of the box") for line in lines)
    assert "The total is 42." in lines
    assert " • one" in lines
    assert "  print(42)" in lines
    assert seen.count("The total is 42.") == 1
    assert lines.index("I look.") < lines.index("The total is 42.")


def test_bare_mainspring_opens_a_chat_and_quit_leaves_it(tmux: Tmux) -> None:
    model = tmux.machine.serve({"text": "hello"})
    tmux.type(f"export MAINSPRING_MODEL='{model}'", "Enter")
    tmux.open()
    assert "test · " in tmux.screen()
    tmux.type("hi", "Enter")
    tmux.until("■ done")
    tmux.type("/quit", "Enter")
    assert tmux.left() == 0
    session = tmux.machine.only_session()["id"]
    assert f"· mainspring chat --resume {session} goes on" in tmux.scrollback()
    tmux.open("chat", "--continue")
    tmux.until(lambda seen: seen.count(f"session {session}") == 2 and seen.count("› hi") == 2)


def test_leaving_without_a_word_leaves_no_session(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "hello"}), *FREE)
    tmux.type("/mode ask", "Enter")
    tmux.keys("C-d")
    assert tmux.left() == 0
    assert tmux.machine.run("sessions", "--json").stdout == ""


def test_a_session_that_cannot_be_opened_is_opened_with_another_model(tmux: Tmux) -> None:
    model = tmux.machine.serve({"text": "Here."})
    tmux.start("chat", "--model", "nobody/nothing", *FREE)
    tmux.until("no session is open")
    tmux.type("said too early", "Enter")
    tmux.until(lambda seen: seen.count("! ") == 2)
    tmux.keys("Enter")
    tmux.until(lambda seen: seen.count("! ") == 3)
    tmux.type(f"/model {model}", "Enter")
    seen = tmux.until("■ done")
    assert seen.count("! ") == 3, "it was tried once for each time that somebody asked for it"
    assert b"said too early" in tmux.machine.seen[-1].body


def test_escape_stops_the_turn_and_its_processes(tmux: Tmux) -> None:
    sleeping = "touch begun; sleep 98765 & sleep 98765"
    model = tmux.machine.serve({"calls": [{"name": "shell", "arguments": {"command": sleeping}}]})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("sleep", "Enter")
    tmux.until(lambda _: (tmux.machine.workspace / "begun").exists())
    tmux.keys("Escape")
    seen = tmux.until("■ interrupted")
    assert "✗ shell" in seen
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not [each for each in commands if each == b"sleep\x0098765\x00"]
    tmux.type("/quit", "Enter")
    assert tmux.left() == 0
    events = tmux.machine.events(tmux.machine.only_session()["id"])
    assert [event["body"]["ending"] for event in events if event["kind"] == "TurnEnded"] == ["interrupted"]


def test_ctrl_c_stops_once_and_quits_twice(tmux: Tmux) -> None:
    model = tmux.machine.serve({"calls": [{"name": "shell", "arguments": {"command": "sleep 1000"}}]})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("sleep", "Enter")
    tmux.until("shell sleep 1000")
    tmux.keys("C-c")
    tmux.until("■ interrupted")
    tmux.keys("C-c", "C-c")
    assert tmux.left() == 0


def test_what_a_second_key_would_do_is_said_after_the_first(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Here."}), *FREE)
    tmux.keys("Escape")
    tmux.until(lambda _: "Esc again goes back to an earlier message" in tmux.screen())
    tmux.until(lambda _: "again" not in tmux.screen())
    tmux.type("not this")
    tmux.keys("C-c")
    tmux.until(lambda _: "Ctrl-C again leaves" in tmux.screen() and "not this" not in tmux.screen())
    tmux.until(lambda _: "test · yolo" in tmux.screen() and "again" not in tmux.screen())


def test_a_wrong_command_is_said_and_the_chat_goes_on(tmux: Tmux) -> None:
    model = tmux.machine.serve({"text": "here"})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("/nonsense", "Enter")
    tmux.until("There is no command /nonsense.")
    tmux.type("still there?", "Enter")
    tmux.until("■ done")


def asking(*commands: str) -> dict[str, object]:
    return {"calls": [{"name": "shell", "arguments": {"command": each}} for each in commands]}


def settled(tmux: Tmux) -> None:
    """Keys that follow a question at once are not taken for its answer; the choices come when they are."""
    tmux.until("m message")


def test_slash_stop_stops_the_turn(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(asking("echo begun; sleep 1000")), *FREE)
    tmux.type("/stop", "Enter")
    tmux.until("! No turn is running.")
    tmux.type("work", "Enter")
    tmux.until("· begun")
    tmux.type("/retry high", "Enter")
    tmux.until("! A turn is running.")
    tmux.type("/resume", "Enter")
    tmux.until("Another terminal can: mainspring chat --resume ID")
    tmux.type("/stop", "Enter")
    tmux.until("■ interrupted: Stopped by request.")
    kinds = {event["kind"] for event in tmux.machine.events(tmux.machine.only_session()["id"])}
    assert kinds.isdisjoint({"EffortChosen", "Undone"})


def test_an_approval_is_given_by_one_key(tmux: Tmux) -> None:
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    assert "[1] shell: touch made" in tmux.screen()
    assert "why it is asked:" in tmux.screen()
    tmux.type("y")
    seen = tmux.until("■ done")
    assert "? allowed by user" in seen
    assert (tmux.machine.workspace / "made").exists()


def test_no_takes_a_reason_that_the_model_hears(tmux: Tmux) -> None:
    tmux.open(
        "chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Sorry."})
    )
    tmux.type("make it", "Enter")
    settled(tmux)
    tmux.type("n")
    tmux.type("use another name", "Enter")
    tmux.until("■ done")
    assert not (tmux.machine.workspace / "made").exists()
    assert b"use another name" in tmux.machine.seen[-1].body


def test_an_edited_command_is_what_runs(tmux: Tmux) -> None:
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    tmux.type("e")
    tmux.until("› e touch made")
    tmux.type("-by-me", "Enter")
    seen = tmux.until("■ done")
    assert (tmux.machine.workspace / "made-by-me").exists()
    assert "? allowed, edited, by user" in seen
    assert "✓ shell touch made-by-me" in seen


def test_a_command_is_edited_in_the_editor(tmux: Tmux) -> None:
    editor = tmux.machine.home.parent / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/made/made-in-editor/ "$1"\n')
    editor.chmod(0o755)
    tmux.type(f"export EDITOR='{editor}'", "Enter")
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    tmux.type("e")
    tmux.until("› e touch made")
    tmux.keys("C-x", "C-e")
    tmux.until("› e touch made-in-editor")
    tmux.keys("Enter")
    tmux.until("■ done")
    assert (tmux.machine.workspace / "made-in-editor").exists()


def test_a_lasting_yes_takes_a_time_and_a_pattern(tmux: Tmux) -> None:
    model = tmux.machine.serve(asking("touch made"), asking("touch other"), {"text": "Fine."})
    tmux.open("chat", "--mode", "ask", "--model", model)
    tmux.type("make them", "Enter")
    settled(tmux)
    tmux.type("p")
    tmux.until("in this project. Before it")
    tmux.type("8h touch *", "Enter")
    seen = tmux.until("■ done")
    assert "? allowed in this project touch * until 20" in seen
    grant = json.loads(tmux.machine.run("approvals", "list", "--json").stdout)
    assert (grant["scope"], grant["command"]) == ("project", "touch *")
    assert grant["expires_us"]
    assert (tmux.machine.workspace / "other").exists()


def test_one_answer_covers_several_questions(tmux: Tmux) -> None:
    model = tmux.machine.serve(asking("touch one", "touch two"), {"text": "Both."})
    tmux.open("chat", "--mode", "ask", "--model", model)
    tmux.type("make them", "Enter")
    tmux.until("[2] shell: touch two")
    settled(tmux)
    tmux.type("Y")
    tmux.until("■ done")
    assert {"one", "two"} <= {path.name for path in tmux.machine.workspace.iterdir()}


def test_a_question_keeps_its_number_while_others_are_answered(tmux: Tmux) -> None:
    calls = [{"name": "shell", "arguments": {"command": f"echo made > {name}"}} for name in "abc"]
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve({"calls": calls}, {"text": "Over."}))
    tmux.type("go", "Enter")
    tmux.until("1-9 choose")
    tmux.keys("y")
    tmux.until("▸ [2] shell: echo made > b")
    tmux.keys("3")
    tmux.until("▸ [3] shell: echo made > c")
    tmux.keys("y")
    tmux.until(lambda _: (tmux.machine.workspace / "c").exists())
    assert not (tmux.machine.workspace / "b").exists()
    tmux.keys("n", "Enter")
    assert "? refused by user" in tmux.until("Over.")


def test_a_question_answered_elsewhere_disappears_and_says_so(tmux: Tmux) -> None:
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    ran = tmux.machine.run("approve", tmux.machine.only_session()["id"])
    assert ran.returncode == 0, ran.stderr
    seen = tmux.until("■ done")
    assert "? allowed by user (from cli)" in seen
    assert "m message" not in tmux.screen()


def _choosing(tmux: Tmux) -> bool:
    return "m message" in tmux.screen() and "answer ›" not in tmux.screen()


def test_an_answer_that_was_begun_can_be_left_for_the_choices(tmux: Tmux) -> None:
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    for leave in ("Escape", "C-u"):
        tmux.type("e")
        tmux.until("answer › e touch made")
        tmux.keys(leave)
        tmux.until(lambda _: _choosing(tmux))
    tmux.type("y")
    tmux.until("■ done")
    assert (tmux.machine.workspace / "made").exists()


def test_what_was_being_written_about_a_question_stays_when_that_is_answered_elsewhere(tmux: Tmux) -> None:
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(asking("touch made"), {"text": "Fine."}))
    tmux.type("make it", "Enter")
    settled(tmux)
    tmux.type("n")
    tmux.type("because of that")
    tmux.until("answer › n because of that")
    assert tmux.machine.run("approve", tmux.machine.only_session()["id"]).returncode == 0
    tmux.until("■ done")
    tmux.until(lambda _: "\n› because of that" in tmux.screen())
    tmux.keys("C-u")
    tmux.until(lambda _: "because" not in tmux.screen() and "answer ›" not in tmux.screen())


def test_what_the_agent_asks_is_answered_with_a_line(tmux: Tmux) -> None:
    question = {"calls": [{"name": "ask", "arguments": {"question": "Which colour?"}}]}
    tmux.open("chat", "--mode", "ask", "--model", tmux.machine.serve(question, {"text": "Green it is."}))
    tmux.type("paint it", "Enter")
    tmux.until("answer ›")
    tmux.type("green", "Enter")
    tmux.until("■ done")
    assert b"green" in tmux.machine.seen[-1].body
