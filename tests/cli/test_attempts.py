"""`mainspring run --attempts` as a user runs it, also when its process is killed."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest

from tests.cli.conftest import Machine, lines, until

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
CHECK = ("--attempts", "3", "--check", "grep -q right answer")


def shell(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


def serve(machine: Machine, second: str = "true", last: str = "echo right > answer") -> str:
    """Only the second attempt has it right, if any."""
    say = {"text": "Now it is right."}
    cases = [
        {"contains": '"seed":2', "replies": [shell(second), shell(last), say]},
        {"contains": '"seed":3', "replies": [{"text": "I did nothing."}]},
    ]
    wrong = shell("echo wrong > answer; echo junk > junk")
    return machine.serve(wrong, {"text": "It should be right."}, cases=cases)


def test_a_person_is_told_which_attempt_was_kept_why_and_what_the_others_did(machine: Machine) -> None:
    ran = machine.run("run", "--model", serve(machine), *FREE, *CHECK, "answer it")
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "answer").read_text() == "right\n"
    assert not (machine.workspace / "junk").exists()
    assert "attempt 1 done: 0 of 1 check passed (failed: grep -q right answer)" in ran.stderr
    assert "kept attempt 2 of 2: it passes every check" in ran.stderr
    session = machine.only_session()["id"]
    (ended,) = [event for event in machine.events(session) if event["kind"] == "AttemptsEnded"]
    back = machine.run("rewind", session, "--to", str(ended["body"]["end_seqs"][0]))
    assert back.returncode == 0, back.stderr
    assert (machine.workspace / "answer").read_text() == "wrong\n"


def test_attempts_none_of_which_passes_are_no_success(machine: Machine) -> None:
    model = serve(machine, last="echo also wrong > answer")
    ran = machine.run("run", "--json", "--model", model, *FREE, *CHECK, "answer it")
    assert ran.returncode == 1
    events = lines(ran.stdout)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["kind"] == "AttemptsEnded"
    assert events[-1]["body"]["kept"] == 3  # the one that changed nothing
    assert not (machine.workspace / "answer").exists()


def test_one_attempt_with_a_check_is_judged_too(machine: Machine) -> None:
    model = machine.serve({"text": "done"})
    assert machine.run("run", "--model", model, *FREE, "--check", "true", "go").returncode == 0
    assert machine.run("run", "--model", model, *FREE, "--check", "false", "go").returncode == 1


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("AttemptStarted", 1),
        ("CallStarted", 1),
        ("TurnEnded", 1),
        ("AttemptEnded", 1),
        ("Undone", 1),
        ("AttemptStarted", 2),
        ("CallStarted", 2),
        ("TurnEnded", 2),
        ("AttemptEnded", 2),
    ],
)
def test_a_killed_process_leaves_attempts_that_go_on_and_are_not_made_again(
    machine: Machine, kind: str, number: int
) -> None:
    is_blocked = (kind, number) == ("CallStarted", 2)
    model = serve(machine, second="[ -e resumed ] || tail -f /dev/null" if is_blocked else "true")
    process = machine.start("run", "--json", "--model", model, *FREE, *CHECK, "answer it")
    for _ in range(number):
        until(process, kind)
    process.kill()
    process.communicate()
    (machine.workspace / "resumed").touch()
    session = machine.only_session()["id"]
    ran = machine.run("resume", session, "--model", model, *FREE)
    assert ran.returncode == 0, ran.stderr
    events = machine.events(session)
    started = [event["body"]["attempt"] for event in events if event["kind"] == "AttemptStarted"]
    ended = [event["body"]["attempt"] for event in events if event["kind"] == "AttemptEnded"]
    assert (started, ended) == ([1, 2], [1, 2])
    (kept,) = [event["body"] for event in events if event["kind"] == "AttemptsEnded"]
    assert (kept["kept"], kept["is_passed"]) == (2, True)
    assert (machine.workspace / "answer").read_text() == "right\n"
    assert not (machine.workspace / "junk").exists()


def test_a_killed_attempt_that_changed_the_same_file_is_taken_back_whole(machine: Machine) -> None:
    (machine.workspace / "answer").write_text("none\n")
    blocked = "echo also wrong > answer; [ -e resumed ] || tail -f /dev/null"
    model = serve(machine, second=blocked, last="true")
    process = machine.start("run", "--json", "--model", model, *FREE, *CHECK, "answer it")
    until(process, "AttemptEnded")
    until(process, "CallStarted")
    while (machine.workspace / "answer").read_text() != "also wrong\n":
        time.sleep(0.01)
    process.kill()
    process.communicate()
    session = machine.only_session()["id"]
    ran = machine.run("resume", session, "--model", model, *FREE)
    assert ran.returncode == 1, ran.stderr
    (kept,) = [event["body"] for event in machine.events(session) if event["kind"] == "AttemptsEnded"]
    assert (kept["kept"], len(kept["end_seqs"])) == (3, 3)
    assert (machine.workspace / "answer").read_text() == "none\n"


def test_a_signal_ends_the_check_of_an_attempt_and_the_attempts_go_on_later(machine: Machine) -> None:
    model = serve(machine, second="true")
    check = "touch checked; [ -e resumed ] || tail -f /dev/null"
    process = machine.start(
        "run", "--json", "--model", model, *FREE, "--attempts", "2", "--check", check, "go"
    )
    until(process, "TurnEnded")
    while not (machine.workspace / "checked").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    (machine.workspace / "resumed").touch()
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "--model", model, *FREE).returncode == 0
    (kept,) = [event["body"] for event in machine.events(session) if event["kind"] == "AttemptsEnded"]
    assert (kept["kept"], kept["is_passed"]) == (1, True)


def test_something_else_said_to_killed_attempts_ends_them(machine: Machine) -> None:
    model = serve(machine, second="tail -f /dev/null")
    process = machine.start("run", "--json", "--model", model, *FREE, *CHECK, "answer it")
    until(process, "AttemptEnded")
    until(process, "CallStarted")
    process.kill()
    process.communicate()
    session = machine.only_session()["id"]
    ran = machine.run("resume", session, "leave it", "--model", model, *FREE)
    assert ran.returncode == 0, ran.stderr
    (kept,) = [event["body"] for event in machine.events(session) if event["kind"] == "AttemptsEnded"]
    assert (kept["kept"], kept.get("is_passed")) == (2, None)


def act(action: str, **arguments: Any) -> dict[str, Any]:
    return {"text": json.dumps({"action": action, "arguments": arguments})}


DONE = {"text": json.dumps({"action": "answer", "text": "Done."})}


def small(machine: Machine, *firsts: dict[str, Any]) -> str:
    """A small model, by its name, that has it right in its second attempt; the test is one that a task names."""
    (machine.workspace / "try.sh").write_text("grep -q right answer\n")
    cases = [{"contains": '"seed":2', "replies": [act("write", path="answer", content="right\n"), DONE]}]
    return machine.serve(*firsts, DONE, DONE, DONE, cases=cases).replace("#test", "#coder-1.5b")


TESTED = "Schreib die Antwort. Test: `sh ./try.sh --check`"


def test_a_small_model_is_asked_again_where_the_test_that_its_task_gives_fails(machine: Machine) -> None:
    model = small(machine, act("write", path="answer", content="wrong\n"))
    ran = machine.run("run", "--json", "--model", model, "--mode", "auto", TESTED)
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "answer").read_text() == "right\n"
    events = lines(ran.stdout)
    (started,) = [event["body"] for event in events if event["kind"] == "AttemptsStarted"]
    assert (started["attempts"], started["checks"], started["is_usual"]) == (3, ["sh ./try.sh --check"], True)
    assert events[-1]["body"]["kept"] == 2


def test_an_answer_that_changed_nothing_is_one_however_the_tests_of_the_project_are(machine: Machine) -> None:
    ran = machine.run("run", "--json", "--model", small(machine), "--mode", "auto", TESTED)
    assert ran.returncode == 0, ran.stderr
    kinds = [event["kind"] for event in lines(ran.stdout)]
    assert kinds.count("AttemptStarted") == 1


@pytest.mark.parametrize("options", [("--attempts", "1", "--mode", "auto"), ("--mode", "ask")])
def test_a_small_model_has_one_attempt_when_a_person_says_so_or_must_be_asked(
    machine: Machine, options: tuple[str, ...]
) -> None:
    ran = machine.run("run", "--json", "--model", small(machine), *options, TESTED)
    assert not [event for event in lines(ran.stdout) if event["kind"] == "AttemptsStarted"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_wrong_or_unchanged_file_of_a_small_model_ends_an_attempt_when_there_is_another(
    machine: Machine, *, is_there: bool
) -> None:
    if is_there:
        (machine.workspace / "answer").write_text("wrong\n")
    wrong = act("write", path="answer", content="wrong\n")
    ran = machine.run("run", "--json", "--model", small(machine, wrong), "--mode", "auto", TESTED)
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "answer").read_text() == "right\n"
    events = lines(ran.stdout)
    first, second = [event["body"] for event in events if event["kind"] == "AttemptEnded"]
    assert (first["ending"], first["used"]["steps"]) == ("failed", 1)
    assert second["passed"] == ["sh ./try.sh --check"]


def test_a_wrong_file_ends_the_last_attempt_of_a_small_model_too_and_is_no_success(machine: Machine) -> None:
    wrong = act("write", path="answer", content="wrong\n")
    (machine.workspace / "try.sh").write_text("grep -q right answer\n")
    cases = [{"contains": f'"seed":{seed}', "replies": [wrong]} for seed in (2, 3)]
    model = machine.serve(wrong, cases=cases).replace("#test", "#coder-1.5b")
    ran = machine.run("run", "--json", "--model", model, "--mode", "auto", TESTED)
    assert ran.returncode == 1, ran.stderr
    events = lines(ran.stdout)
    steps = [event["body"]["used"]["steps"] for event in events if event["kind"] == "AttemptEnded"]
    assert steps == [1, 1, 1]
    assert not events[-1]["body"].get("is_passed")


def test_a_file_that_cannot_be_read_ends_an_attempt_of_a_small_model_and_the_next_is_told_why(
    machine: Machine,
) -> None:
    """There is no test command."""
    (machine.workspace / "settings.json").write_text('{"port": 80,}\n')
    right = [act("write", path="settings.json", content='{"port": 80}\n'), DONE]
    cases = [{"contains": '"seed":2', "replies": right}]
    wrong = act("write", path="settings.json", content='{"port": 80\n')
    model = machine.serve(wrong, cases=cases).replace("#test", "#coder-1.5b")
    ran = machine.run("run", "--json", "--model", model, "--mode", "auto", "Repariere `settings.json`.")
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "settings.json").read_text() == '{"port": 80}\n'
    events = lines(ran.stdout)
    first, second = [event["body"] for event in events if event["kind"] == "AttemptEnded"]
    assert (first["ending"], first["used"]["steps"], second["ending"]) == ("failed", 1, "done")
    notes = [event["body"]["text"] for event in events if event["kind"] == "NoteAdded"]
    (told,) = [note for note in notes if note.startswith("Another attempt")]
    assert "settings.json:2: error: " in told


def program(*lines: str) -> dict[str, Any]:
    return {"text": "\n".join(["Here it is:", "```python", *lines, "```"])}


def test_what_is_to_be_made_of_data_is_made_by_a_program_of_a_small_model(machine: Machine) -> None:
    (machine.workspace / "a.csv").write_text("n\n1\n41\n")
    wrong = program("open('sum.txt', 'w').write('7')", "raise SystemExit('no column m')")
    right = program(
        "lines = open('a.csv').read().split()[1:]", "print(sum(map(int, lines)), file=open('sum.txt', 'w'))"
    )
    cases = [{"contains": '"seed":2', "replies": [right, {"text": "I added them up."}]}]
    model = machine.serve(wrong, cases=cases).replace("#test", "#coder-1.5b")
    task = "Schreib die Summe der Spalte `n` von `a.csv` in `sum.txt`."
    ran = machine.run("run", "--json", "--model", model, "--mode", "auto", task)
    assert ran.returncode == 0, ran.stderr
    assert (machine.workspace / "sum.txt").read_text() == "42\n"
    events = lines(ran.stdout)
    first, second = [event["body"] for event in events if event["kind"] == "AttemptEnded"]
    assert (first["ending"], first["used"]["steps"]) == ("failed", 1)
    assert (second["ending"], second["used"]["steps"]) == ("done", 2)
    notes = [event["body"]["text"] for event in events if event["kind"] == "NoteAdded"]
    (told,) = [note for note in notes if note.startswith("Another attempt")]
    assert "no column m" in told
    assert events[-1]["body"]["kept"] == 2
