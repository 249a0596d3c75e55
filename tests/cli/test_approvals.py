"""Approvals as people give them: at a terminal, from another process, by rules and by grants."""

from __future__ import annotations

import json
import signal
import stat
import time

import pytest

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.disk.owner import own
from tests.cli.conftest import Machine, lines, until
from tests.cli.terminal import Person

MAKE = {"name": "shell", "arguments": {"command": "touch made"}}
OTHER = {"name": "shell", "arguments": {"command": "touch other"}}
ASKING = ("--mode", "ask")


def blocked(
    machine: Machine, *calls: object, after: tuple[dict[str, object], ...] = ({"text": "done"},)
) -> str:
    """A session that waits for a person to allow these calls."""
    model = machine.serve({"calls": list(calls)}, *after)
    ran = machine.run("run", "--model", model, *ASKING, "go")
    assert ran.returncode == 3, ran.stderr
    assert "mainspring approve" in ran.stderr
    return machine.only_session()["id"]


def told(machine: Machine) -> list[str]:
    """What the model was told about its calls, refusals included."""
    messages = machine.seen[-1].json()["messages"]
    return [each["content"].removeprefix("[error] ") for each in messages if each["role"] == "tool"]


def given(machine: Machine, session: str) -> list[dict[str, object]]:
    return [event["body"] for event in machine.events(session) if event["kind"] == "ApprovalGiven"]


# At a terminal


def test_a_person_sees_what_would_run_and_why_and_says_yes(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    shown = person.until("[v]iew all: ")
    assert "[1] shell: touch made" in shown
    assert "shell does more than read" in shown
    assert "always would allow shell: touch made $" in shown
    assert not (machine.workspace / "made").exists()
    person.type("y")
    assert person.ends() == 0
    assert (machine.workspace / "made").exists()
    assert machine.run("approvals", "list").stdout == ""


def test_several_questions_stand_together_and_are_answered_together(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE, OTHER]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    shown = person.until("all y: ")
    assert "[1] shell: touch made" in shown
    assert "[2] shell: touch other" in shown
    person.type("y")
    person.until("Say which one")
    person.until("all y: ")
    person.type("all y")
    assert person.ends() == 0
    assert (machine.workspace / "made").exists()
    assert (machine.workspace / "other").exists()


def test_each_of_several_questions_gets_its_own_answer(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE, OTHER]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    shown = person.until("all y: ")
    first = "1" if "[1] shell: touch made" in shown else "2"
    person.type(f"{first} n leave it")
    assert "[1] shell: touch other" in person.until("[v]iew all: ")
    person.type("y")
    assert person.ends() == 0
    assert not (machine.workspace / "made").exists()
    assert (machine.workspace / "other").exists()
    assert "A person refused this call. They said: leave it" in told(machine)


def test_an_edited_command_runs_instead(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    person.type("e touch better")
    assert person.ends() == 0
    assert (machine.workspace / "better").exists()
    assert not (machine.workspace / "made").exists()
    assert told(machine)[0].startswith("[a person changed the arguments")


def test_stop_ends_the_turn(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    person.type("s")
    assert person.ends() == 130
    assert machine.only_session()["state"] == "interrupted"


def test_leaving_the_terminal_leaves_the_question_open(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    person.leave()
    assert person.ends() == 3
    assert machine.run("approve", machine.only_session()["id"]).returncode == 0
    assert (machine.workspace / "made").exists()


def test_always_sticks_for_its_scope_and_is_listed_and_revoked(machine: Machine) -> None:
    model = machine.serve(
        {"calls": [MAKE]}, {"calls": [MAKE]}, {"text": "done"}, {"calls": [MAKE]}, {"text": "again"}
    )
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    person.type("p 8h")
    assert person.ends() == 0
    session = machine.only_session()["id"]
    assert len(given(machine, session)) == 1, "the second call was covered by the grant"
    (grant,) = lines(machine.run("approvals", "list", "--json").stdout)
    assert (grant["scope"], grant["command"]) == ("project", "touch made $")
    assert grant["workspace"] == str(machine.workspace)
    assert grant["expires_us"] > time.time() * 1e6
    assert stat.S_IMODE((machine.home / "grants.json").stat().st_mode) == 0o600
    listed = machine.run("approvals", "list").stdout
    assert f"{grant['id']}  project {machine.workspace}  shell: touch made $, until 20" in listed
    shown = machine.run("show", session).stdout
    assert "allowed in this project until 20" in shown
    assert " by user" in shown
    # Another session of the project is covered, until the grant is taken back.
    assert machine.run("run", "--model", model, *ASKING, "go").returncode == 0
    assert machine.run("approvals", "revoke", grant["id"]).returncode == 0
    assert machine.run("approvals", "revoke", grant["id"]).returncode == 2
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    assert machine.run("run", "--model", model, *ASKING, "go").returncode == 3


def test_a_pattern_of_ones_own_covers_more(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"calls": [OTHER]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    person.type("a touch *")
    assert person.ends() == 0
    assert (machine.workspace / "other").exists()
    assert "session" in machine.run("approvals", "list").stdout


def test_no_answer_in_time_is_a_no(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text("approval_timeout_s = 0.2\n")
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    assert person.ends() == 0
    assert told(machine) == ["Not run: nobody approved it in time."]
    (answer,) = given(machine, machine.only_session()["id"])
    assert (answer["decision"], answer["by"]) == ("expire", "mainspring")


def test_a_step_is_asked_about_and_allowed_for_the_project(machine: Machine) -> None:
    step = ("step", "--mode", "ask", "--", "touch", "made")
    person = Person(machine, *step)
    shown = person.until("[v]iew all: ")
    assert "[1] step: touch made" in shown
    assert "always would allow step: touch made $" in shown
    assert "in this session" not in shown, "a step belongs to none"
    person.type("e touch other")
    assert person.ends() == 0
    assert (machine.workspace / "other").exists()
    assert not (machine.workspace / "made").exists()
    assert json.loads(machine.run("steps", "--json").stdout.splitlines()[0])["argv"] == ["touch", "other"]
    person = Person(machine, *step)
    person.until("[v]iew all: ")
    person.type("p")
    assert person.ends() == 0
    assert (machine.workspace / "made").exists()
    assert machine.run(*step).returncode == 0, "the grant covers it where nobody can be asked"
    assert machine.run("step", "--mode", "ask", "--", "touch", "other").returncode == 3


# From another process


def test_a_blocked_session_is_answered_from_elsewhere_and_goes_on(machine: Machine) -> None:
    session = blocked(machine, MAKE, OTHER)
    approved = machine.run("approve", session)
    assert approved.returncode == 0, approved.stderr
    assert approved.stdout == "done\n"
    assert (machine.workspace / "made").exists()
    assert (machine.workspace / "other").exists()
    again = machine.run("approve", session)
    assert again.returncode == 2
    assert "does not wait" in again.stderr


def test_one_of_two_calls_is_answered_and_the_other_still_waits(machine: Machine) -> None:
    session = blocked(machine, MAKE, OTHER)
    calls = [event["body"]["call"] for event in machine.events(session) if event["kind"] == "ApprovalAsked"]
    first = machine.run("approve", session, calls[0], "--reject", "not this one")
    assert first.returncode == 3
    double = machine.run("approve", session, calls[0])
    assert double.returncode == 2
    assert "answered already" in double.stderr or "no longer waiting" in double.stderr
    assert machine.run("approve", session, calls[1]).returncode == 0
    assert "A person refused this call. They said: not this one" in told(machine)
    assert len(given(machine, session)) == 2


def test_an_answer_with_edited_arguments_or_a_scope(machine: Machine) -> None:
    session = blocked(machine, MAKE, after=({"calls": [MAKE]}, {"calls": [MAKE]}, {"text": "done"}))
    assert machine.run("approve", session, "--edit", "no json", "--scope", "session").returncode == 2
    assert machine.run("approve", session, "--edit", "{").returncode == 2
    edited = machine.run("approve", session, "--edit", json.dumps({"command": "touch edited"}))
    assert edited.returncode == 3
    assert (machine.workspace / "edited").exists()
    assert machine.run("approve", session, "--for", "1h").returncode == 2
    scoped = machine.run("approve", session, "--scope", "session", "--for", "1h", "--pattern", "touch *")
    assert scoped.returncode == 0, scoped.stderr
    (grant,) = lines(machine.run("approvals", "list", "--json").stdout)
    assert (grant["scope"], grant["session"], grant["command"]) == ("session", session, "touch *")


def test_a_session_that_waits_at_a_terminal_is_answered_from_another_one(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE, OTHER]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("all y: ")
    session = machine.only_session()["id"]
    first, second = [
        event["body"]["call"] for event in machine.events(session) if event["kind"] == "ApprovalAsked"
    ]
    said = machine.run("approve", session, first)
    assert said.returncode == 0, said.stderr
    assert f"{first}: allowed; process {person.process.pid}" in said.stderr
    assert "answered already" in machine.run("approve", session, first).stderr
    assert machine.run("approve", session, second, "--reject", "not that").returncode == 0
    assert person.ends() == 0
    assert (machine.workspace / "made").exists()
    assert not (machine.workspace / "other").exists()
    assert "They said: not that" in told(machine)[1]
    assert [each["decision"] for each in given(machine, session)] == ["allow", "reject"]


def test_a_session_that_runs_and_asks_nothing_takes_no_answer(machine: Machine) -> None:
    slow = {"name": "shell", "arguments": {"command": "sleep 300"}}
    model = machine.serve({"calls": [slow]}, {"text": "done"})
    run = machine.start(
        "run", "--json", "--model", model, "--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced", "go"
    )
    session = until(run, "CallStarted")[0]["body"]["session"]
    refused = machine.run("approve", session)
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert refused.returncode == 2
    assert "does not wait for an answer" in refused.stderr


def test_an_answer_that_a_process_leaves_behind_when_it_ends_is_acted_on_here(machine: Machine) -> None:
    session = blocked(machine, MAKE)
    folder = SqliteSessions(machine.home).directory(session)
    ending = own(folder, session)
    approve = machine.start("approve", session)
    while not list(folder.glob("inbox/*.json")):
        assert approve.poll() is None
    ending.release()
    _, said = approve.communicate(timeout=60)
    assert approve.returncode == 0, said
    assert (machine.workspace / "made").exists()


def test_a_new_message_abandons_what_was_asked_and_a_late_answer_is_refused(machine: Machine) -> None:
    session = blocked(machine, MAKE)
    assert machine.run("resume", session, "never mind").returncode == 0
    assert "something new instead" in told(machine)[0]
    late = machine.run("approve", session)
    assert late.returncode == 2
    assert not (machine.workspace / "made").exists()


# Rules


def test_rules_of_the_user_allow_and_those_of_the_project_only_tighten(machine: Machine) -> None:
    machine.home.mkdir()
    rules = '[[rule]]\nname = "touching"\nanswer = "allow"\ncommand = "touch"\nmatch = ["touch x"]\n'
    (machine.home / "approvals.toml").write_text(rules)
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    assert machine.run("run", "--model", model, *ASKING, "go").returncode == 0
    assert (machine.workspace / "made").exists()
    folder = machine.workspace / ".mainspring"
    folder.mkdir()
    (folder / "approvals.toml").write_text(
        '[[rule]]\nanswer = "deny"\ncommand = "touch"\nreason = "no touching"\n'
        '[[rule]]\nanswer = "allow"\ncommand = "rm"\n'
    )
    shown = machine.run("approvals", "rules").stdout
    assert f"user: {machine.home}/approvals.toml" in shown
    assert "touching: allow command touch" in shown
    assert "1: deny command touch: no touching" in shown
    assert "2: allow command rm (has no effect: a project can only tighten)" in shown
    assert "rm-root: deny" in shown
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    assert machine.run("run", "--model", model, *ASKING, "go").returncode == 0
    assert told(machine) == ["Refused: no touching."]


@pytest.mark.parametrize(
    "rules",
    ["[[rule]", '[[rule]]\nanswer = "perhaps"', '[[rule]]\nanswer="allow"\ncommand="ls"\nmatch=["rm"]'],
)
def test_rules_that_are_wrong_are_an_error_before_anything_starts(machine: Machine, rules: str) -> None:
    machine.home.mkdir()
    (machine.home / "approvals.toml").write_text(rules)
    model = machine.serve({"text": "done"})
    ran = machine.run("run", "--model", model, "go")
    assert ran.returncode == 2
    assert "approvals.toml" in ran.stderr
    assert machine.seen == []
    assert machine.run("sessions", "--json").stdout == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("ls",), "allow: the sandbox contains it [mode:auto]"),
        (("ls", "--uncontained"), "ask:"),
        (("rm -rf /",), "deny:"),
        (("git push --force",), "[builtin:push-force]"),
        (("echo a; git push --force", "--mode", "edits"), "  ask: echo a:"),
        (("touch x", "--mode", "L0"), "deny: plan mode only reads"),
    ],
)
def test_check_says_what_would_be_said_and_why(
    machine: Machine, arguments: tuple[str, ...], says: str
) -> None:
    checked = machine.run("approvals", "check", *arguments)
    assert checked.returncode == 0, checked.stderr
    assert says in checked.stdout


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("pytest -q", "allow: the sandbox contains it [mode:auto]"),
        ("make all", "deny: the template tests does not allow this command [template:tests]"),
        ("pytest -q; rm x", "deny: the template tests does not allow this command [template:tests]"),
        ("pytest -q && make", "deny: the template tests does not allow this command [template:tests]"),
        ("pytest $(make)", "deny: the template tests does not allow this command [template:tests]"),
        ("pytest -q; pytest -x", "allow: the sandbox contains it [mode:auto]"),
        ("pytest -k 'a;b'", "allow: the sandbox contains it [mode:auto]"),
        ("timeout 5 pytest", "deny: the template tests does not allow this command [template:tests]"),
    ],
)
def test_check_judges_a_step_by_its_template(machine: Machine, command: str, says: str) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text('[steps.tests]\ncommands = ["pytest *"]\n')
    checked = machine.run("approvals", "check", command, "--template", "tests")
    assert checked.stdout.splitlines()[:1] == [says], checked.stderr
    unknown = machine.run("approvals", "check", command, "--template", "none")
    assert unknown.returncode == 2
    assert "config.toml has: tests" in unknown.stderr


def test_simulate_judges_the_past_by_other_rules(machine: Machine) -> None:
    session = blocked(machine, MAKE)
    machine.run("approve", session)
    same = machine.run("approvals", "simulate", session).stdout
    assert same.splitlines()[0].startswith("= ask   → ask   shell: touch made")
    freer = machine.run("approvals", "simulate", session, "--mode", "auto").stdout
    assert "≠ ask   → allow shell: touch made" in freer
    assert "1 ask → allow" in freer


def test_a_level_of_autonomy_is_recorded_and_means_a_mode(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    ran = machine.run("run", "--json", "--model", model, "--mode", "L1", "go")
    assert ran.returncode == 3
    (mode,) = [event["body"] for event in lines(ran.stdout) if event["kind"] == "ModeChosen"]
    assert (mode["mode"], mode["level"]) == ("ask", "L1")
    session = machine.only_session()["id"]
    assert machine.run("approve", session).returncode == 0
    assert len([event for event in machine.events(session) if event["kind"] == "ModeChosen"]) == 1
    refused = machine.run("run", "--model", model, "--mode", "L4", "go")
    assert refused.returncode == 2
    assert "cost limit" in refused.stderr


def test_words_for_the_agent_do_not_allow_a_call(machine: Machine) -> None:
    session = blocked(machine, MAKE)
    said = machine.run("approve", session, "--say", "no, do not run that")
    assert (said.returncode, given(machine, session)) == (2, [])
    assert "--reject" in said.stderr
    both = machine.run("approve", session, "--edit", "touch other", "--reject", "no")
    assert (both.returncode, given(machine, session)) == (2, [])
    assert not (machine.workspace / "made").exists()
    assert machine.run("approve", session).returncode == 0
    assert (machine.workspace / "made").exists()


def test_others_on_the_machine_cannot_look_into_the_data_folder(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "go")
    assert stat.S_IMODE(machine.home.stat().st_mode) == 0o700
    assert stat.S_IMODE((machine.home / "sessions").stat().st_mode) == 0o700


def test_the_one_waiting_session_of_the_folder_is_answered_and_of_several_none(machine: Machine) -> None:
    assert "No session of this folder waits" in machine.run("approve").stderr
    first = blocked(machine, MAKE)
    assert machine.run("approve").returncode == 0
    assert (machine.workspace / "made").exists()
    again = machine.serve({"calls": [OTHER]}, {"text": "done"})
    for _ in range(2):
        assert machine.run("run", "--model", again, *ASKING, "go").returncode == 3
        again = machine.serve({"calls": [OTHER]}, {"text": "done"})
    waiting = [row["id"] for row in lines(machine.run("sessions", "--json").stdout) if row["id"] != first]
    refused = machine.run("approve")
    assert refused.returncode == 2
    assert all(session in refused.stderr for session in waiting)
    assert first not in refused.stderr
    assert not (machine.workspace / "other").exists()


def test_check_judges_a_call_of_a_tool_by_its_arguments_and_says_what_rules_leave_out(
    machine: Machine,
) -> None:
    machine.home.mkdir()
    (machine.home / "approvals.toml").write_text(
        '[[rule]]\nanswer = "deny"\ntool = "notes"\narguments = {operation = "delete*"}\n'
        '[[rule]]\nanswer = "allow"\nname = "sorting"\ncommand = "sort *"\n'
    )
    denied = machine.run("approvals", "check", "--tool", "notes", '{"operation": "delete_all"}')
    assert denied.stdout.startswith("deny: a rule says deny [user:1]"), denied.stderr
    read = machine.run("approvals", "check", "--tool", "notes", "--effect", "read", '{"operation": "list"}')
    assert read.stdout.startswith("allow: reading changes nothing"), read.stderr
    assert machine.run("approvals", "check", "--tool", "notes", "list").returncode == 2
    rules = machine.run("approvals", "rules").stdout
    assert (
        "note: Rule sorting allows sort, but one of its options runs another program (--compress-program)"
        in rules
    )
    assert "Rule sorting allows sort" in machine.run("doctor").stdout


def test_an_edit_that_cannot_be_used_leaves_the_question_open(machine: Machine) -> None:
    session = blocked(machine, MAKE)
    for edit in ('{"command": 5}', '{"no_such_field": "x"}'):
        wrong = machine.run("approve", session, "--edit", edit)
        assert wrong.returncode == 2
        assert "cannot be edited so, and still waits" in wrong.stderr
    assert given(machine, session) == []
    assert machine.run("approve", session, "--edit", "touch edited").returncode == 0
    assert (machine.workspace / "edited").exists()


def test_a_wrong_edit_at_the_terminal_leaves_the_question_open(machine: Machine) -> None:
    model = machine.serve({"calls": [MAKE]}, {"text": "done"})
    person = Person(machine, "run", "--model", model, *ASKING, "go")
    person.until("[v]iew all: ")
    for _ in range(2):
        person.type('e {"command": 5}')
        assert "the edit cannot be used" in person.until("[v]iew all: ")
    person.type("e touch better")
    assert person.ends() == 0
    assert (machine.workspace / "better").exists()


def test_a_run_begins_with_what_its_rules_still_ask_about(machine: Machine) -> None:
    machine.home.mkdir(exist_ok=True)
    (machine.home / "approvals.toml").write_text('[[rule]]\nanswer = "allow"\ncommand = "tar *"\n')
    model = machine.serve({"text": "done"}, {"text": "done"})
    ran = machine.run("run", "--model", model, "go")
    assert ran.stderr.count("note: Rule 1 allows tar, but") == 1
    assert "note: Rule" not in machine.run("resume", machine.only_session()["id"], "on").stderr
