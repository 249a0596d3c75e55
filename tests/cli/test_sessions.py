"""Looking at sessions: show, tail, export, import, verify, and what the first screen says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.cli.commands import ALIASES, COMMANDS, GROUPS
from mainspring.cli.transfer import written
from mainspring.system import host_name, user_name
from tests.cli.conftest import Machine, lines, until

SHELL = {"name": "shell", "arguments": {"command": "echo hello"}}
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def test_show_tells_what_was_said_done_and_paid(machine: Machine) -> None:
    usage = {"input_tokens": 1000, "cached_tokens": 250, "output_tokens": 10}
    model = machine.serve({"text": "Looking.", "calls": [SHELL], "usage": usage}, {"text": "Seen."})
    machine.run("run", "--model", model, *FREE, "look")
    shown = machine.run("show", machine.only_session()["id"]).stdout
    for text in ("» look", "Looking.", "→ shell echo hello", "exit code 0", "25% cached", "■ done"):
        assert text in shown


def test_tail_follows_a_running_session_from_another_process_to_its_end(machine: Machine) -> None:
    call = {"name": "shell", "arguments": {"command": "until [ -e go ]; do sleep 0.05; done"}}
    model = machine.serve({"calls": [call]}, {"text": "done"})
    run = machine.start("run", "--json", "--model", model, *FREE, "go")
    seen = until(run, "CallStarted")
    session = seen[0]["body"]["session"]
    tail = machine.start("tail", "--json", session)
    followed = until(tail, "CallStarted")
    (machine.workspace / "go").touch()
    rest, _ = tail.communicate(timeout=60)
    followed += lines(rest)
    out, _ = run.communicate(timeout=60)
    assert followed == seen + lines(out)
    assert tail.returncode == 0


def test_an_exported_session_imports_elsewhere_with_the_same_chain(machine: Machine, tmp_path: Path) -> None:
    big = {"name": "shell", "arguments": {"command": "head -c 40000 /dev/zero | tr '\\\\0' x"}}
    model = machine.serve({"calls": [big]}, {"text": "done"})
    machine.run("run", "--model", model, *FREE, "go")
    session = machine.only_session()["id"]
    for extra in ((), ("--blobs", str(tmp_path / "blobs"))):
        file = str(tmp_path / f"export{len(extra)}.jsonl")
        assert machine.run("export", session, "-o", file, *extra).returncode == 0
        elsewhere = str(tmp_path / f"elsewhere{len(extra)}")
        imported = machine.run("import", file, *extra, MAINSPRING_HOME=elsewhere)
        assert imported.stdout.strip() == session
        verified = machine.run("verify", session, MAINSPRING_HOME=elsewhere).stdout
        assert verified == machine.run("verify", session).stdout
        assert (
            machine.run("show", session, MAINSPRING_HOME=elsewhere).stdout
            == machine.run("show", session).stdout
        )


def test_verify_names_the_first_broken_event_and_ends_with_1(machine: Machine) -> None:
    model = machine.serve({"text": "a sentence that nobody should change"})
    machine.run("run", "--model", model, "go")
    session = machine.only_session()["id"]
    journal = machine.home / "sessions" / session / "journal.sqlite"
    journal.write_bytes(journal.read_bytes().replace(b"nobody should", b"anyone should"))
    verified = machine.run("verify", session)
    assert verified.returncode == 1
    assert "damaged" in verified.stdout


def test_every_command_in_the_table_has_help_and_help_all_lists_each_once_in_its_group(
    machine: Machine,
) -> None:
    lines = machine.run("--help", "--all").stdout.splitlines()
    assert machine.run("--all", "--help").stdout.splitlines() == lines
    for name, entry in COMMANDS.items():
        assert [line[10:].rstrip() for line in lines if line[10:].split(" ")[0] == name] == [
            f"{name:<11}{entry.summary}"
        ]
        helped = machine.run(name, "--help")
        assert helped.returncode == 0, helped.stderr
        assert "Usage:" in helped.stdout
    assert sum(map(len, GROUPS.values())) == len(COMMANDS), "a command stands in two groups"


def test_help_shows_common_commands_on_one_screen_of_24_by_80(machine: Machine) -> None:
    lines = machine.run("--help").stdout.splitlines()
    assert machine.run().stderr.splitlines() == lines, "without a command, as an error"
    assert len(lines) < 24, "the prompt needs a line too"
    for shown in (lines, machine.run("--help", "--all").stdout.splitlines()):
        assert max(map(len, shown)) <= 80
    listed = {line[10:].split(" ")[0] for line in lines}
    for name, entry in COMMANDS.items():
        assert (name in listed) == entry.is_common, name
    assert [name for name in GROUPS if any(line.startswith(name) for line in lines)] == list(GROUPS)


@pytest.mark.parametrize("old", ALIASES)
def test_an_old_name_of_a_command_works_and_is_not_listed(machine: Machine, old: str) -> None:
    assert not re.search(rf"^.{{10}}{old} ", machine.run("--help", "--all").stdout, re.MULTILINE)
    assert old not in COMMANDS
    now, before = (machine.run(name, "--help") for name in (ALIASES[old], old))
    assert (before.returncode, before.stdout.splitlines()[1:]) == (0, now.stdout.splitlines()[1:])


def test_version_and_help_import_nothing_heavy() -> None:
    heavy = {"asyncio", "httpx2", "rich", "sqlite3", "apsw", "msgspec"}
    for argument in ("--version", "--help"):
        code = (
            "import sys; sys.argv = ['mainspring', sys.argv[1]]\n"
            "from mainspring.cli import main\n"
            "try: main()\nexcept SystemExit: pass\n"
            "print(*sys.modules, file=sys.stderr)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, argument], capture_output=True, text=True, check=True
        )
        assert "mainspring" in ran.stdout
        assert not heavy & set(ran.stderr.split())


def test_importing_the_package_reaches_nothing() -> None:
    code = "import sys, mainspring; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"asyncio", "httpx2", "socket", "msgspec", "apsw"} & set(ran.stdout.split())


@pytest.mark.parametrize("is_link", [False, True])
def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path, *, is_link: bool) -> None:
    """As root, an export to /dev/null would leave a file in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    (tmp_path / "link").symlink_to(pipe)
    with written(tmp_path / "link" if is_link else pipe) as to:
        to.write(b"exported")
    assert os.read(reader, 100) == b"exported"
    os.close(reader)
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_a_link_to_a_file_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with written(tmp_path / "link") as to:
        to.write(b"exported")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"exported"


def test_what_cannot_be_used_is_said_in_a_sentence_with_what_to_do(machine: Machine) -> None:
    file = machine.workspace / "file"
    file.write_text("{}")
    for arguments, said in (
        (("import", str(machine.workspace)), "Give a file that `mainspring export` wrote"),
        (("import", str(machine.workspace / "nothing")), "Check the path"),
        (("demo", "--keep", str(file)), "Give --keep a folder that is new"),
        (("demo", "--keep", "/proc/nowhere"), "Give --keep a folder that is new"),
        (("run", "go", "--model", "scripted@nothing"), "Check the path"),
        (("run", "go", "--model", "scripted@file", "--timeout", "nan"), "nan is not a finite number"),
        (
            ("run", "go", "--model", "scripted@file", "--max-cost-usd-today", "inf"),
            "inf is not a finite number",
        ),
    ):
        ran = machine.run(*arguments)
        assert (ran.returncode, said in ran.stderr, "Traceback" in ran.stderr) == (2, True, False), ran.stderr


def test_a_session_of_which_nothing_is_readable_is_listed_without_a_time_and_names_a_way_out(
    machine: Machine,
) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "go")
    session = machine.only_session()["id"]
    journal = machine.home / "sessions" / session / "journal.sqlite"
    whole = journal.read_bytes()
    for rest in (b"no journal", whole[:4096] + bytes(len(whole) - 4096)):
        journal.write_bytes(rest)
        listed = machine.run("sessions").stdout
        assert "damaged" in listed
        assert "1970" not in listed
        exported = machine.run("export", "--readable", session)
        assert exported.returncode == 1
        assert "Restore it from a backup or an export." in exported.stderr


def test_what_is_not_possible_with_a_session_is_said_with_what_is(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "done"}), "go")
    session = machine.only_session()["id"]
    assert machine.run("export", session, "-o", "session.jsonl").returncode == 0
    for arguments, said in (
        (("import", "session.jsonl"), "to import it again"),
        (("export", session, "-o", "nowhere/x"), "Name a file in a folder that exists"),
        (("fork", session, "--at", "999"), f"`mainspring show {session}` numbers them"),
        (("rewind", session, "--to", "999"), f"`mainspring show {session}` numbers them"),
        (("diff", session, "--step", "999"), "Leave --step out"),
        (("compact", session), "`mainspring context` shows its size"),
        (("land", session), "Only `run --branch` makes one"),
        (("run", "go", "--model", "scripted@x", "--attach", "nowhere"), "Check the path"),
    ):
        ran = machine.run(*arguments)
        assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert "No goals yet" in machine.run("goal", "list").stderr


def test_an_interrupt_while_the_command_still_loads_is_no_traceback():
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mainspring.cli.commands':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "sys.argv = ['mainspring', 'sessions']\n"
        "from mainspring.cli import main\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (130, "")


def test_commands_are_on_record_with_who_gave_them_and_show_names_another_one(machine: Machine) -> None:
    model = machine.serve({"text": "yes"}, {"text": "again"})
    machine.run("run", "--model", model, "go")
    session = machine.only_session()["id"]
    ordinary = machine.run("show", session).stdout
    assert "through" not in ordinary
    machine.run("resume", session, "once more", MAINSPRING_FACE="daemon")
    shown = machine.run("show", session).stdout
    assert shown.startswith(ordinary)
    (line,) = [line.strip() for line in shown.splitlines() if "through" in line]
    assert line == f"by {user_name()} on {host_name()}, through daemon (mainspring):"
    events = [json.loads(line) for line in machine.run("show", session, "--json").stdout.splitlines()]
    said = [event["body"]["origin"] for event in events if event["kind"] == "UserSaid"]
    who = {"user": user_name(), "device": host_name(), "program": "mainspring"}
    assert said == [{**who, "face": "cli"}, {**who, "face": "daemon"}]
    fork = machine.run("fork", session, MAINSPRING_FACE="daemon").stdout.strip()
    first = json.loads(machine.run("show", fork, "--json").stdout.splitlines()[0])
    assert first["body"]["origin"]["face"] == "daemon", "whoever forks it, not who began the first"


def test_a_misspelt_command_is_answered_with_the_nearest_one(machine: Machine) -> None:
    ran = machine.run("sesions")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Did you mean `mainspring sessions`?" in ran.stderr
    assert "--help --all" in machine.run("xyzzy").stderr


def test_help_as_a_command_is_the_option(machine: Machine) -> None:
    for words in ((), ("goal", "start"), ("undo",)):
        assert machine.run("help", *words).stdout == machine.run(*words, "--help").stdout != ""


def test_commands_without_a_session_take_the_newest_of_the_folder(machine: Machine, tmp_path: Path) -> None:
    for command in (("show",), ("verify",), ("export",), ("tail", "--no-follow"), ("rewind", "--to", "1")):
        refused = machine.run(*command)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "There is no session in this folder." in refused.stderr
    model = machine.serve({"calls": [SHELL]}, {"text": "done"})
    machine.run("run", "--model", model, *FREE, "go")
    session = machine.only_session()["id"]
    for command in (("show",), ("verify",), ("export",), ("tail", "--no-follow")):
        named = machine.run(command[0], session, *command[1:])
        assert machine.run(*command).stdout == named.stdout != ""
    assert machine.run("rewind", "--to", "3").returncode == 0
    assert machine.events(session)[-1]["kind"] == "Undone"


def test_an_export_has_the_format_of_its_suffix_or_is_refused(machine: Machine) -> None:
    model = machine.serve({"text": "done"})
    machine.run("run", "--model", model, *FREE, "go")
    for name, form in (("x.md", "markdown"), ("x.html", "html"), ("x.jsonl", "jsonl"), ("x", "jsonl")):
        assert machine.run("export", "-o", name).returncode == 0
        expected = machine.run("export", "--format", form).stdout
        assert (machine.workspace / name).read_text() == expected != ""
    refused = machine.run("export", "-o", "x.pdf")
    assert (refused.returncode, (machine.workspace / "x.pdf").exists()) == (2, False)
    assert machine.run("export", "-o", "x.pdf", "--format", "markdown").returncode == 0


def test_files_and_conversation_together_are_both(machine: Machine) -> None:
    write = {"name": "write", "arguments": {"path": "new.txt", "content": "new"}}
    model = machine.serve({"calls": [write]}, {"text": "done"})
    machine.run("run", "--model", model, *FREE, "go")
    assert machine.run("undo", "--both", "--files").returncode == 2
    assert (machine.workspace / "new.txt").exists()
    undone = machine.run("undo", "--files", "--conversation")
    assert "Conversation and files are as after event" in undone.stderr
    assert not (machine.workspace / "new.txt").exists()


def test_one_of_something_is_not_counted_as_several(machine: Machine) -> None:
    model = machine.serve({"text": "done"})
    machine.run("run", "--model", model, *FREE, "go")
    assert "(1 step, " in machine.run("show").stdout
