"""`mainspring run` and `resume` as a user runs them: a real process, real HTTP, real files."""

from __future__ import annotations

import signal
from itertools import pairwise

import pytest

from tests.cli.conftest import Machine, lines, until
from tests.models.every_wire import PNG

SHELL = {"name": "shell", "arguments": {"command": "echo hello > made.txt; cat made.txt"}}
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def test_a_run_does_the_work_and_ends_with_0(machine: Machine) -> None:
    model = machine.serve({"text": "I make a file.", "calls": [SHELL]}, {"text": "The file is made."})
    ran = machine.run("run", "--model", model, *FREE, "make a file")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "The file is made.\n"
    assert (machine.workspace / "made.txt").read_text() == "hello\n"
    row = machine.only_session()
    assert row["state"] == "done"
    assert row["last_line"] == "The file is made."
    assert row["workspace"] == str(machine.workspace)


def test_a_run_asks_the_model_before_it_loads_a_shell_parser_or_a_sandbox(machine: Machine) -> None:
    model = machine.serve({"text": "done"})
    ran = machine.run("run", "--model", model, "go", PYTHONPROFILEIMPORTTIME="1")
    assert ran.returncode == 0
    assert "mainspring.session.session" in ran.stderr
    for late in (
        "tree_sitter",
        "mainspring.approvals.policy",
        "mainspring.sandbox.ladder",
        "mainspring.sandbox.rungs.bwrap",
    ):
        assert late not in ran.stderr


def test_the_model_is_told_exit_code_stdout_and_stderr_of_a_failing_command(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "echo out; echo err >&2; exit 7"}}
    model = machine.serve({"calls": [call]}, {"text": "It failed."})
    machine.run("run", "--model", model, *FREE, "fail")
    told = machine.seen[1].json()["messages"][-1]["content"]
    assert "exit code 7" in told
    assert "out" in told
    assert "err" in told


def test_json_prints_one_event_per_line_from_beginning_to_end(machine: Machine) -> None:
    model = machine.serve({"calls": [SHELL]}, {"text": "done"})
    ran = machine.run("run", "--json", "--model", model, *FREE, "go")
    events = lines(ran.stdout)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    assert kinds[0] == "SessionStarted"
    assert kinds[-1] == "TurnEnded"
    assert kinds.count("CallStarted") == kinds.count("CallEnded") == 1


def test_a_command_that_needs_a_person_blocks_a_run_without_one_and_ends_with_3(machine: Machine) -> None:
    model = machine.serve({"calls": [SHELL]}, {"text": "done"})
    ran = machine.run("run", "--model", model, "--mode", "ask", "go")
    assert ran.returncode == 3
    assert not (machine.workspace / "made.txt").exists()
    assert machine.only_session()["state"] == "blocked"
    resumed = machine.run("resume", machine.only_session()["id"], *FREE)
    assert resumed.returncode == 0, resumed.stderr
    assert (machine.workspace / "made.txt").exists()


def test_a_limit_of_steps_ends_with_5_and_the_session_goes_on_with_a_higher_one(machine: Machine) -> None:
    model = machine.serve({"calls": [SHELL]}, {"calls": [SHELL]}, {"text": "done"})
    ran = machine.run("run", "--model", model, *FREE, "--max-steps", "1", "go")
    assert ran.returncode == 5
    assert machine.run("resume", *FREE).returncode == 0


def test_a_budget_that_is_spent_ends_with_4_and_goes_on_with_a_higher_one(machine: Machine) -> None:
    model = machine.serve(
        {"calls": [SHELL], "usage": {"input_tokens": 4000, "output_tokens": 500}}, {"text": "done"}
    )
    machine.home.mkdir()
    prices = f'[prices."{model}"]\ninput = 1000.0\noutput = 1000.0\n'
    (machine.home / "config.toml").write_text(prices)
    ran = machine.run("run", "--model", model, "--mode", "yolo", "--max-cost-usd", "5", "go")
    assert ran.returncode == 4, ran.stderr
    assert len(machine.seen) == 1
    again = machine.run("resume")
    assert again.returncode == 4, "what a session may spend holds until somebody says otherwise"
    assert "higher --max-cost-usd" in again.stderr
    assert len(machine.seen) == 1
    assert machine.run("resume", "--max-cost-usd", "50").returncode == 0


def test_a_limit_that_was_raised_holds_for_the_next_turns(machine: Machine) -> None:
    model = machine.serve(*[{"text": "done", "usage": {"input_tokens": 3000, "output_tokens": 0}}] * 9)
    ran = machine.run("run", "--model", model, "--max-tokens", "100", "go")
    assert ran.returncode == 4, ran.stderr
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "--max-tokens", "8000").returncode == 0
    assert machine.run("resume", session, "more").returncode == 0
    refused = machine.run("resume", session, "and more")
    assert refused.returncode == 4
    assert "of 8,000 tokens" in refused.stderr


def test_a_session_that_may_work_without_a_price_may_do_so_when_it_is_resumed(machine: Machine) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"})
    assert machine.run("run", "--model", model, *FREE, "go").returncode == 0
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "more").returncode == 0
    refused = machine.run("resume", session, "more", "--max-cost-usd", "2")
    assert refused.returncode == 2, "a new limit needs a price, or a new permission"


def test_a_misspelt_price_is_refused_and_not_taken_for_none(machine: Machine) -> None:
    machine.home.mkdir()
    (machine.home / "config.toml").write_text('[prices."openai/x"]\ninput = 1.0\ncached_input = 0.1\n')
    ran = machine.run("run", "--model", "openai/x", "go")
    assert ran.returncode == 2
    assert "cached_input" in ran.stderr


def test_an_unknown_price_under_a_cost_limit_is_refused_before_anything_is_spent(machine: Machine) -> None:
    model = "openai-compatible@http://model.invalid/v1#m"
    ran = machine.run("run", "--model", model, "--max-cost-usd", "1", "go")
    assert ran.returncode == 2
    assert "price" in ran.stderr
    assert "--allow-unpriced" in ran.stderr
    assert machine.run("sessions", "--json").stdout == ""


def test_a_failing_provider_ends_with_1_and_says_why(machine: Machine) -> None:
    fault = {"kind": "status", "status": 401, "times": 9}
    model = machine.serve({"text": "never"}, faults=[fault])
    ran = machine.run("run", "--model", model, "go")
    assert ran.returncode == 1
    assert machine.only_session()["state"] == "failed"
    assert "OPENAI_API_KEY" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run", ""), "empty"),
        (("run", "go"), "--model"),
        (("run", "go", "--model", "nobody@x"), "nobody"),
        (("run", "go", "--model", "scripted@missing.json"), "missing.json"),
        (("run", "go", "--model", "scripted@x", "-C", "nowhere"), "nowhere"),
        (("run", "go", "--max-steps", "0"), "max-steps"),
        (("resume", "zzzz"), "zzzz"),
        (("show", "../../etc"), "etc"),
        (("import", "missing.jsonl"), "missing.jsonl"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_input_gets_a_sentence_and_2(machine: Machine, arguments: tuple[str, ...], says: str) -> None:
    ran = machine.run(*arguments)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_one_signal_stops_the_turn_closes_its_calls_and_ends_with_130(
    machine: Machine, number: signal.Signals
) -> None:
    slow = {"name": "shell", "arguments": {"command": "sleep 300 & sleep 300"}}
    model = machine.serve({"calls": [slow]}, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    until(run, "CallStarted")
    run.send_signal(number)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 130
    ended = {event["kind"]: event["body"] for event in lines(out)}
    assert ended["CallEnded"]["outcome"] == "cancelled"
    assert ended["TurnEnded"]["ending"] == "interrupted"


def test_a_background_job_is_stopped_by_sigterm_and_not_by_ctrl_c(machine: Machine) -> None:
    slow = {"name": "shell", "arguments": {"command": "sleep 300"}}
    model = machine.serve({"calls": [slow]}, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go", is_background_job=True)
    until(run, "CallStarted")
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    out, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert {event["kind"]: event["body"] for event in lines(out)}["TurnEnded"]["ending"] == "interrupted"
    assert said.count("stopping") == 1


def test_two_signals_quit_at_once_and_the_session_resumes(machine: Machine) -> None:
    slow = {"text": "slow", "delay_s": 1, "chunk_size": 1}
    model = machine.serve(slow)
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    until(run, "SpendReserved")
    run.send_signal(signal.SIGSTOP)  # so that both are there at once
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGTERM)
    run.send_signal(signal.SIGCONT)
    run.communicate(timeout=60)
    assert run.returncode == 130
    model = machine.serve({"text": "done"})
    assert machine.run("resume", "--model", model, *FREE).returncode == 0


def test_a_second_process_is_told_who_runs_the_session(machine: Machine) -> None:
    slow = {"name": "shell", "arguments": {"command": "sleep 300"}}
    model = machine.serve({"calls": [slow]}, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    session = until(run, "CallStarted")[0]["body"]["session"]
    second = machine.run("resume", session, *FREE)
    assert second.returncode == 3
    assert str(run.pid) in second.stderr
    assert machine.only_session()["state"] == "running"
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)


def test_a_killed_run_shows_as_crashed_and_completes_when_it_is_resumed(machine: Machine) -> None:
    append = {"name": "shell", "arguments": {"command": "echo x >> effects; sleep 1"}}
    model = machine.serve({"calls": [append]}, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    until(run, "CallStarted")
    run.kill()
    run.communicate(timeout=60)
    assert machine.only_session()["state"] == "crashed"
    resumed = machine.run("resume", *FREE)
    assert resumed.returncode == 0, resumed.stderr
    told = machine.seen[-1].json()["messages"][-1]["content"]
    assert "unknown" in told
    effects = machine.workspace / "effects"
    assert not effects.exists() or effects.read_text() == "x\n"
    assert "sound" in machine.run("verify", machine.only_session()["id"]).stdout


def test_resuming_something_that_is_done_says_so_and_a_new_text_goes_on(machine: Machine) -> None:
    model = machine.serve({"text": "one"}, {"text": "two"})
    machine.run("run", "--model", model, "go")
    again = machine.run("resume")
    assert again.returncode == 0
    assert "Nothing to continue" in again.stderr
    said = machine.run("resume", machine.only_session()["id"][:5], "and now?")
    assert said.stdout == "two\n"
    roles = [message["role"] for message in machine.seen[-1].json()["messages"]]
    assert roles == ["system", "user", "user", "assistant", "user"]


def test_each_request_starts_with_the_bytes_of_the_one_before(machine: Machine) -> None:
    model = machine.serve({"calls": [SHELL]}, {"calls": [SHELL]}, {"text": "done"}, {"text": "more"})
    machine.run("run", "--model", model, *FREE, "go")
    machine.run("resume", machine.only_session()["id"], "go on", *FREE)
    bodies = [seen.body for seen in machine.seen]
    assert len(bodies) == 4
    for before, after in pairwise(bodies):
        end = before.rindex(b"]")
        assert after.startswith(before[:end])


def test_control_characters_of_a_command_never_reach_the_terminal(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "printf '\\033]0;owned\\007\\033[2J'"}}
    model = machine.serve({"calls": [call]}, {"text": "a\u001b[31mb"})
    ran = machine.run("run", "--model", model, *FREE, "go")
    shown = machine.run("show", machine.only_session()["id"])
    for text in (ran.stdout, ran.stderr, shown.stdout):
        assert "\033" not in text
        assert "\007" not in text


def test_images_pdfs_and_texts_are_shown_to_the_model_with_what_is_said(machine: Machine) -> None:
    png = machine.workspace / "shot.png"
    png.write_bytes(PNG)
    (machine.workspace / "paper.pdf").write_bytes(b"%PDF-1.7 x")
    (machine.workspace / "notes.txt").write_text("milk")
    model = machine.serve({"text": "I see."}, {"text": "Still."})
    files = ("--attach", "shot.png", "--attach", "paper.pdf", "--attach", "notes.txt")
    ran = machine.run("run", "--model", model, *FREE, *files, "What is on it?")
    assert ran.returncode == 0, ran.stderr
    content = machine.seen[0].json()["messages"][2]["content"]
    assert [part["type"] for part in content] == ["image_url", "file", "text", "text"]
    assert "milk" in content[2]["text"]
    assert content[3]["text"] == "What is on it?"
    session = machine.only_session()["id"]
    told = [machine.run("show", session), machine.run("export", session, "--format", "markdown")]
    for each in (ran.stderr, *(told_.stdout for told_ in told)):
        assert "attached notes.txt (text/plain, 4 bytes)" in each
        assert "attached paper.pdf (application/pdf, 10 bytes)" in each
    png.unlink()
    assert machine.run("resume", session, "And now?", *FREE).returncode == 0
    assert machine.seen[1].json()["messages"][2]["content"] == content


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("missing.png", "cannot be read"),
        ("tool.bin", "neither an image (PNG, JPEG, GIF, WebP), a PDF nor text"),
    ],
)
def test_what_cannot_be_shown_is_said_before_anything_begins(
    machine: Machine, name: str, problem: str
) -> None:
    (machine.workspace / "tool.bin").write_bytes(b"\x00\xff\xfe")
    ran = machine.run("run", "--model", machine.serve(), *FREE, "--attach", name, "go")
    assert ran.returncode == 2
    assert problem in ran.stderr
    assert machine.run("sessions", "--json").stdout == ""


def test_a_server_of_ones_own_is_asked_how_much_its_model_takes(machine: Machine) -> None:
    model = machine.serve({"text": "done"}, models=["test"], context_tokens=1280)
    small = model.replace("openai-compatible@", "vllm@")
    refused = machine.run("run", "--model", small, "go")
    assert refused.returncode == 2
    assert "takes 1,280 tokens" in refused.stderr
    assert machine.seen == []
    other = machine.serve({"text": "done"}, models=["test:latest"], context_tokens=1280)
    assert machine.run("run", "--model", other.replace("openai-compatible@", "ollama@"), "go").returncode == 2
    silent = machine.serve({"text": "done"}, models=["test"])
    assert machine.run("run", "--model", silent.replace("openai-compatible@", "vllm@"), "go").returncode == 0


def test_the_window_that_a_server_tells_is_kept_to(machine: Machine) -> None:
    for name in ("one.txt", "two.txt"):
        (machine.workspace / name).write_text("many words in a line\n" * 700)
    reads = [{"calls": [{"name": "read", "arguments": {"path": name}}]} for name in ("one.txt", "two.txt")]
    model = machine.serve(*reads, {"text": "done"}, models=["test"], context_tokens=10_000)
    ran = machine.run(
        "run", "--profile", "standard", "--model", model.replace("openai-compatible@", "vllm@"), "read it"
    )
    assert ran.returncode == 0, ran.stderr
    assert "history compacted (window)" in ran.stderr
