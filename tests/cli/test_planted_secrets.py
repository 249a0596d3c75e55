"""A known key planted wherever text of others reaches a run; then everything that the run produced is searched."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.conftest import Machine, lines

TOKEN = "xyzzy-Plugh-4242-token"
FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")
Ran = CompletedProcess[str]
FORMATS = ("jsonl", "markdown", "html")


def run(machine: Machine, *words: str) -> Ran:
    return machine.run(*words, DEPLOY_TOKEN=TOKEN, MAINSPRING_LOG=str(machine.home / "debug.log"))


def program(machine: Machine, code: str) -> str:
    path = machine.workspace.parent / "engine.sh"
    path.write_text(f"#!/bin/bash\ncat > /dev/null\n{code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"exec:{path}"


def said_by_an_engine(machine: Machine) -> tuple[Ran, str]:
    code = f"echo 'the key is {TOKEN}'; echo 'stderr has {TOKEN}' >&2; exit 7"
    return run(machine, "run", "go", "--engine", program(machine, code), *FREE), "EngineEnded"


def reason_of_a_fallback(machine: Machine) -> tuple[Ran, str]:
    body = {"error": {"message": f"no such key: {TOKEN}"}}
    bad = machine.serve(
        {"text": "x", "faults": [{"kind": "status", "status": 402, "times": 99, "body": body}]}
    )
    good = machine.serve({"text": "ok"})
    return run(machine, "run", "go", "--model", bad, "--fallback", good, *FREE), "ModelChosen"


def remedy_of_a_failed_turn(machine: Machine) -> tuple[Ran, str]:
    body = {"error": {"message": f"no such key: {TOKEN}"}}
    bad = machine.serve(
        {"text": "x", "faults": [{"kind": "status", "status": 401, "times": 99, "body": body}]}
    )
    return run(machine, "run", "go", "--model", bad, *FREE), "TurnEnded"


def message_of_a_guard(machine: Machine) -> tuple[Ran, str]:
    again = {"calls": [{"name": TOKEN, "arguments": {"path": f"{TOKEN}.txt"}}]}
    return run(machine, "run", "go", "--model", machine.serve(*[again] * 12), *FREE), "GuardTripped"


def names_and_keys_of_arguments(machine: Machine) -> tuple[Ran, str]:
    model = machine.serve(
        {"calls": [{"name": "read", "arguments": {TOKEN: {TOKEN: [TOKEN]}}}]},
        {"calls": [{"name": TOKEN, "arguments": {"path": "x"}}]},
        {"calls": [{"name": "read", "arguments": f'{{"path": "{TOKEN}'}]},
        {"text": "done"},
    )
    return run(machine, "run", "go", "--model", model, *FREE), "CallEnded"


def names_of_files(machine: Machine) -> tuple[Ran, str]:
    folder = machine.workspace / TOKEN
    folder.mkdir()
    (folder / f"{TOKEN}.txt").write_text("content\n")
    model = machine.serve(
        {"calls": [{"name": "find", "arguments": {"path": "."}}]},
        {"calls": [{"name": "write", "arguments": {"path": f"{TOKEN}-new.txt", "content": "x\n"}}]},
        {"calls": [{"name": "shell", "arguments": {"command": "ls; mv *-new.txt other.txt; ls"}}]},
        {"text": "done"},
    )
    return run(machine, "run", "go", "--model", model, *FREE), "FilesChanged"


def name_of_an_attachment(machine: Machine) -> tuple[Ran, str]:
    path = machine.workspace.parent / f"{TOKEN}.txt"
    path.write_text(f"say {TOKEN}\n")
    model = machine.serve({"text": "seen"})
    return run(machine, "run", "look", "--model", model, "--attach", str(path), *FREE), "UserSaid"


def address_of_a_model(machine: Machine) -> tuple[Ran, str]:
    model = machine.serve({"text": "hello"}).replace("://", f"://me:{TOKEN}@")
    return run(machine, "run", "go", "--model", model, *FREE), "ModelChosen"


def checks_of_a_goal(machine: Machine) -> tuple[Ran, str]:
    (machine.workspace / "goal.md").write_text(f"Use {TOKEN}.\n")
    code = f"echo made with {TOKEN} > made-{TOKEN}.txt; echo '<promise>DONE</promise>'"
    check = f"echo {TOKEN}; echo {TOKEN} >&2; test -e made-{TOKEN}.txt"
    words = ("goal", "start", "goal.md", "--engine", program(machine, code), "--check", check)
    return run(
        machine, *words, "--check", f"test {TOKEN} = no", "--max-iterations", "2", *FREE[2:]
    ), "CheckEnded"


PLANTS = [
    said_by_an_engine,
    reason_of_a_fallback,
    remedy_of_a_failed_turn,
    message_of_a_guard,
    names_and_keys_of_arguments,
    names_of_files,
    name_of_an_attachment,
    address_of_a_model,
    checks_of_a_goal,
]


def produced(machine: Machine, ran: Ran, out: Path) -> dict[str, bytes]:
    """All that a run left behind or printed, and what later commands say of it, by where it stands."""
    (session,) = [row["id"] for row in lines(run(machine, "sessions", "--json").stdout)]
    commands = [
        ("sessions",),
        ("sessions", "--json"),
        ("show", session, "--all"),
        ("show", session, "--json"),
    ]
    commands += [("export", session, "--format", form, "-o", str(out / form)) for form in FORMATS]
    commands += [("cost",), ("goal", "list"), ("context", session), ("artifacts", session)]
    if '"GoalSet"' in run(machine, "show", session, "--json").stdout:
        pages = ("--html", str(out / "report.html"), "--markdown", str(out / "report.md"))
        commands += [("goal", "report", session, "--json"), ("goal", "report", session, *pages)]
    found = {"the run itself": (ran.stdout + ran.stderr).encode()}
    for words in commands:
        told = run(machine, *words)
        found[" ".join(words[:1])] = found.get(words[0], b"") + (told.stdout + told.stderr).encode()
    for root in (machine.home, out):
        for path in root.rglob("*"):
            found[f"name of {path.name}"] = str(path.relative_to(root)).encode()
            if path.is_file() and path.name != "secrets.json":
                found[str(path.relative_to(root))] = path.read_bytes()
    for number, server in enumerate(machine.servers):
        found[f"requests to server {number}"] = b"".join(seen.body for seen in server.seen)
    return found


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_key_is_nowhere_afterwards(
    machine: Machine, tmp_path: Path, plant: Callable[[Machine], tuple[Ran, str]]
) -> None:
    ran, kind = plant(machine)
    (session,) = [row["id"] for row in lines(run(machine, "sessions", "--json").stdout)]
    bodies = [
        line for line in run(machine, "show", session, "--json").stdout.splitlines() if f'"{kind}"' in line
    ]
    assert any("__secret_" in body for body in bodies), (bodies, ran.stderr)
    out = tmp_path / "out"
    out.mkdir()
    leaks = {where: data for where, data in produced(machine, ran, out).items() if TOKEN.encode() in data}
    assert not leaks
