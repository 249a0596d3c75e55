"""What a session's work came to, asked over HTTP: branches, farms, checks, processes that are gone."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import httpx2

from tests.cli.conftest import Machine
from tests.serve.browsers import begin
from tests.serve.conftest import Served


def git(folder: Path, *arguments: str) -> str:
    named = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    return subprocess.run(
        ("git", *named, *arguments), cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def repository(machine: Machine) -> Path:
    folder = machine.workspace
    git(folder, "init", "-q", "-b", "main")
    (folder / "one.py").write_text("x = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "config", "user.name", "me")
    git(folder, "config", "user.email", "me@example.org")
    return folder


def write(path: str, content: str) -> dict[str, object]:
    return {"calls": [{"name": "write", "arguments": {"path": path, "content": content}}]}


def test_a_branch_is_shown_with_what_checks_found_and_lands(served: Served) -> None:
    folder = repository(served.machine)
    model = served.machine.serve(write("two.py", "def f(:\n"), {"text": "done"}, {"text": "done"})
    ran = served.machine.run("run", "--branch", "--model", model, "--mode", "auto", "write two")
    assert ran.returncode == 0, ran.stderr
    (row,) = served.get("/sessions")
    at = f"/sessions/{row['id']}"
    branch = served.get(f"{at}/branch")
    assert (branch["base"], branch["files"]) == ("main", ["two.py"])
    (checked,) = served.get(f"{at}/checks")["files"]
    assert [each["line"] for each in checked["findings"]] == [1]
    assert served.get(f"{at}/farm") is None
    assert served.get("/impact", folder=str(folder), since="main")["changed"] == ["two.py"]
    assert served.post(f"{at}/land", {"how": "squash"})["moved"]["action"] == "squashed"
    assert served.get(f"{at}/branch") is None
    assert git(folder, "show", "main:two.py") == "def f(:\n"
    with served.client() as client:
        assert client.post(f"/api/v1{at}/land", json={}).status_code == 400
    assert served.get(f"{at}/verify")["problem"] == ""


def test_a_session_that_is_started_on_a_branch_commits_there_and_elsewhere_is_refused(served: Served) -> None:
    body = {
        "text": "write two",
        "workspace": str(served.machine.workspace),
        "model": served.machine.serve(write("two.txt", "2\n"), {"text": "done"}),
        "mode": "auto",
        "branch": True,
    }
    with served.client() as client:
        refused = client.post("/api/v1/sessions", json=body)
    assert refused.status_code == 400, refused.text
    assert served.get("/sessions") == []
    folder = repository(served.machine)
    session = served.post("/sessions", body)["session"]
    ended = served.until(session, "TurnEnded")[-1]["seq"]
    served.until(session, "BranchMoved", after=ended)
    branch = served.get(f"/sessions/{session}/branch")
    assert (branch["action"], branch["files"]) == ("committed", ["two.txt"])
    assert git(folder, "show", f"{branch['branch']}:two.txt") == "2\n"


def test_attempts_of_a_farm_are_shown_and_the_best_lands(served: Served) -> None:
    folder = repository(served.machine)
    model = served.machine.serve(*[write("two.py", "y = 2\n"), {"text": "done"}] * 2)
    farm = ("farm", "-n", "1", "--check", "test -e two.py", "--model", model, "--mode", "auto", "write two")
    ran = served.machine.run(*farm)
    assert ran.returncode == 0, ran.stderr
    session = next(row["id"] for row in served.get("/sessions") if not row["parent"])
    found = served.get(f"/sessions/{session}/farm")
    assert (found["best"], found["attempts"][0]["ended"]["passed"]) == (1, ["test -e two.py"])
    assert served.post(f"/sessions/{session}/farm/land", {"drops": True})["action"] == "merged"
    assert served.get(f"/sessions/{session}/farm")["is_landed"]
    assert git(folder, "show", "main:two.py") == "y = 2\n"


def test_output_comes_in_whole_lines_and_of_a_process_that_is_gone_it_is_said_that_it_ended(
    served: Served,
) -> None:
    command = "printf 'whole\\nha'; while [ ! -e go ]; do sleep 0.05; done; printf 'lf\\n'; sleep 600"
    calls = [{"name": "shell", "arguments": {"command": command, "background": True}}]
    session = begin(served, {"calls": calls}, {"calls": [{"name": "wait", "arguments": {"seconds": 900}}]})
    served.until(session, "WaitStarted")

    def output(handle: str = "p1", **query: int) -> httpx2.Response:
        with served.client() as client:
            return client.get(f"/api/v1/sessions/{session}/output", params={"handle": handle, **query})

    while (first := output().json())["text"] != "whole\n":
        assert first["text"] == ""
    (served.machine.workspace / "go").touch()
    while (rest := output(since=first["next_offset"]).json())["text"] != "half\n":
        assert rest["text"] in ("", "ha")
    served.post(f"/sessions/{session}/end-process", {"handle": "p1"})
    served.post(f"/sessions/{session}/stop")
    served.until(session, "TurnEnded")
    (folder,) = served.machine.home.rglob("processes/p1")
    shutil.rmtree(folder)
    gone = output(since=5)
    assert (gone.status_code, gone.json()["is_running"], gone.json()["next_offset"]) == (200, False, 5)
    assert output("p9").status_code == output("../p1").status_code == 400


def test_a_machine_names_its_models_engines_agents_and_what_works_in_the_background(served: Served) -> None:
    served.end()
    assert served.machine.run("config", "set", "model", "openai/gpt-x").returncode == 0
    served.start()
    assert "openai/gpt-x" in served.get("/models")
    assert "codex" in [each["engine"] for each in served.get("/engines")]
    assert "explore" in [each["name"] for each in served.get("/agents")]
    assert served.get("/daemon")["owner"] is None
    model = served.machine.serve({"text": "done"})
    made = served.machine.run(
        "goal", "schedule", "0 7 * * *", "Look", "--yes", "--no-cost-cap", "--model", model
    )
    assert made.returncode == 0, made.stderr
    (row,) = served.get("/schedules")
    served.post("/schedules/forget", {"id": row["schedule"]["id"]})
    assert served.get("/schedules") == []
