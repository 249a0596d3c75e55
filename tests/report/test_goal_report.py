"""The report of a goal says what the journals of real runs say, and points at the events that show it."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from html.parser import HTMLParser
from typing import Any

from tests.cli.conftest import Machine, until

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = "</td><script>alert(1)</script>"
AGENT = f"""
import pathlib, sys
sys.stdin.read()
count = pathlib.Path("count")
n = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(n))
pathlib.Path("out.csv").write_text("name,value\\n" + "".join(f"row{{i}},v{{i * n}}\\n" for i in range(20)))
pathlib.Path("map.png").write_bytes({PNG!r})
for i in range(3):
    print(f"METRIC time={{5 - n + i / 100}} s")
print("Idea {{}} {HOSTILE}".format(n))
print("Everything is proved." if n > 1 else "Going on.")
print("<promise>DONE</promise>" if n > 1 else "")
"""
CHECK = 'echo looking; test "$(cat count)" -ge 3 || { echo "too few: $(cat count)"; exit 4; }'


def goal(machine: Machine, *arguments: str, agent: str = AGENT) -> subprocess.CompletedProcess[str]:
    (machine.workspace / "agent.py").write_text(agent)
    engine = f"exec:{_python()} agent.py"
    return machine.run("exploop", "Make it fast", "--engine", engine, "--wait-seconds", "0", *arguments)


def _python() -> str:
    return "/usr/bin/python3"


def facts(machine: Machine, *session: str) -> dict[str, Any]:
    ran = machine.run("goal", "report", *session, "--json")
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def recorded(machine: Machine) -> dict[int, dict[str, Any]]:
    """The events by number, each with what it says beside its kind and time."""
    events = machine.events(machine.only_session()["id"])
    return {event["seq"]: {**event["body"], **event} for event in events}


def test_a_verified_goal_cites_the_checks_that_show_it(machine: Machine) -> None:
    ran = goal(machine, "--check", CHECK, "--file", "out.csv")
    assert ran.returncode == 0, ran.stderr
    session = machine.only_session()["id"]
    assert ran.stderr.splitlines()[-1] == f"report: mainspring goal report {session}"
    report, events = facts(machine), recorded(machine)

    assert (report["standing"], report["iterations_total"]) == ("verified", 3)
    cited = [events[seq] for seq in report["standing_seqs"]]
    assert [event["kind"] for event in cited] == ["CheckEnded"] * 2
    assert all(event["passed"] and event["iteration"] == 3 for event in cited)
    (check,) = [each for each in report["checks"] if each["kind"] == "command"]
    assert (check["exit_code"], check["output"]) == (0, "looking")
    assert check["sha256"] == hashlib.sha256(b"looking\n").hexdigest()
    (file,) = [each for each in report["checks"] if each["kind"] == "file"]
    assert file["sha256"] == hashlib.sha256((machine.workspace / "out.csv").read_bytes()).hexdigest()
    (ended,) = [event for event in events.values() if event["kind"] == "GoalEnded"]
    assert report["closes"] == [
        {
            "seq": ended["seq"],
            "time_us": report["closes"][0]["time_us"],
            "ending": "done",
            "reason": ended["reason"],
            "exit_code": 0,
            "is_verified": True,
            "grade": "verified",
        }
    ]
    assert "left" not in report


def test_a_refused_done_is_told_with_what_failed(machine: Machine) -> None:
    goal(machine, "--check", CHECK)
    report, events = facts(machine), recorded(machine)
    (refused,) = report["refusals"]
    assert (refused["iteration"], refused["exit_code"]) == (2, 4)
    assert refused["output"] == "looking\ntoo few: 2"
    assert events[refused["seq"]]["kind"] == "CheckEnded"
    outcomes = {each["number"]: each["outcome"] for each in report["iterations"]}
    assert outcomes == {1: "continued", 2: "refused", 3: "done"}
    for each in report["iterations"]:
        assert events[each["seq"]]["kind"] == "IterationStarted"
        assert events[each["ended_seq"]]["kind"] == "IterationEnded"
        assert events[each["said_seq"]]["kind"] == "AssistantSaid"
        assert {line["path"] for line in each["files"]} <= {"count", "out.csv", "map.png"}
        assert each["exit_code"] == 0


def test_metrics_and_artifacts_are_shown_with_what_was_measured(machine: Machine) -> None:
    goal(machine, "--check", CHECK, "--target", "time<=3")
    report = facts(machine)
    (time,) = [metric for metric in report["metrics"] if metric["name"] == "time"]
    assert (time["unit"], time["better"], time["best_iteration"]) == ("s", "lower", 3)
    assert [(row["iteration"], row["repeats"], row["is_ours"]) for row in time["rows"]] == [
        (1, 3, False),
        (2, 3, False),
        (3, 3, False),
    ]
    assert [row.get("verdict", "") for row in time["rows"]] == ["", "better", "better"]
    assert time["rows"][2]["mean"] == 2.01
    files = {each["path"]: each for each in report["artifacts"]}
    assert files["map.png"]["sha256"] == hashlib.sha256(PNG).hexdigest()
    assert base64.b64decode(files["map.png"]["preview"]["data"]) == PNG
    table = files["out.csv"]["preview"]
    assert (table["head"], table["rows"][1], table["more_rows"]) == (["name", "value"], ["row1", "v3"], 12)
    assert files["out.csv"]["iteration"] == 3


def test_done_without_checks_is_claimed(machine: Machine) -> None:
    assert goal(machine).returncode == 0
    report = facts(machine)
    assert report["standing"] == "claimed"
    assert "nothing but its word" in report["standing_why"]
    text = machine.run("goal", "report").stdout
    assert "? Done, as the agent claims" in text
    assert "They cite no recorded result" in text


def test_checks_that_failed_to_the_end_refute_the_goal(machine: Machine) -> None:
    ran = goal(machine, "--check", "exit 9", "--max-refusals", "2")
    assert ran.returncode != 0
    report, events = facts(machine), recorded(machine)
    assert report["standing"] == "refuted"
    (seq,) = report["standing_seqs"]
    assert (events[seq]["kind"], events[seq]["exit_code"]) == ("CheckEnded", 9)
    assert report["left"] == [{"what": "failing check", "detail": "exit 9: exit code 9", "seq": seq}]
    assert report["refusals_total"] == 2


def test_a_goal_out_of_iterations_says_how_to_go_on(machine: Machine) -> None:
    ran = goal(machine, "--check", "exit 9", "--max-iterations", "1")
    assert ran.returncode == 1
    report = facts(machine)
    session = machine.only_session()["id"]
    assert report["standing"] == "not done"
    assert report["next_commands"][0][0] == f"mainspring goal resume {session} --max-iterations 2"
    assert {"what": "check never run", "detail": "exit 9"} in report["left"]


def test_a_killed_goal_has_a_report_so_far_and_tells_of_the_kill_later(machine: Machine) -> None:
    blocked = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\n" + AGENT
    (machine.workspace / "agent.py").write_text(blocked)
    engine = f"exec:{_python()} agent.py"
    process = machine.start("exploop", "Make it fast", "--engine", engine, "--wait-seconds", "0", "--json")
    until(process, "TurnStarted")
    running = facts(machine)
    assert (running["standing"], running["is_running"]) == ("so far", True)
    assert running["next_commands"][0][0].startswith("mainspring tail ")
    process.kill()
    process.communicate()

    dead = facts(machine)
    assert (dead["standing"], dead.get("is_running", False)) == ("so far", False)
    assert "nobody works on it now" in dead["standing_why"]
    assert [each["number"] for each in dead["iterations"]] == [1]
    session = machine.only_session()["id"]
    assert dead["next_commands"][0][0] == f"mainspring goal resume {session}"

    (machine.workspace / "go").write_text("")
    assert machine.run("goal", "resume", session).returncode == 0
    report = facts(machine, session[:6])
    (crash,) = report["crashes"]
    assert crash["what"] == "interrupted without a word, and resumed"
    assert recorded(machine)[crash["seq"]]["kind"] == "SessionResumed"
    assert report["iterations_total"] == 2


def test_the_page_holds_everything_and_nothing_from_elsewhere(machine: Machine) -> None:
    goal(machine, "--check", CHECK)
    page = machine.workspace / "report.html"
    ran = machine.run("goal", "report", "--html", str(page), "--markdown", "-")
    assert ran.returncode == 0, ran.stderr
    seen = Seen()
    seen.feed(page.read_text())
    assert "script" not in seen.tags
    assert f"Idea 3 {HOSTILE}" in seen.text
    assert f"data:image/png;base64,{base64.b64encode(PNG).decode()}" in seen.addresses
    assert all(address.startswith("data:image/") for address in seen.addresses)
    assert "Done and verified" in seen.text
    assert ran.stdout.startswith("# Make it fast\n\n**✓ Done and verified**\n")


def test_the_work_of_our_own_loop_is_told_with_its_calls_retries_and_cost(machine: Machine) -> None:
    model = machine.serve(
        {
            "calls": [{"name": "shell", "arguments": {"command": "echo hello > made.txt; exit 3"}}],
            "fault": {"kind": "status", "status": 503},
        },
        {
            "calls": [
                {"name": "plan", "arguments": {"items": [{"text": "measure twice", "progress": "open"}]}}
            ]
        },
        {"calls": [{"name": "finish", "arguments": {"summary": "It is made."}}]},
        {"text": "Done."},
    )
    ran = machine.run(
        "goal", "start", "Make a file", "--model", model, "--mode", "auto", "--file", "made.txt"
    )
    assert ran.returncode == 0, ran.stderr
    report, events = facts(machine), recorded(machine)
    assert report["standing"] == "verified"
    (iteration,) = report["iterations"]
    (shell,) = [each for each in iteration["commands"] if each["tool"] == "shell"]
    assert (shell["command"], shell["exit_code"]) == ("echo hello > made.txt; exit 3", 3)
    assert events[shell["seq"]]["kind"] == "CallEnded"
    (outage,) = report["outages"]
    assert (outage["retries"], outage["given_up"]) == (1, 0)
    assert events[outage["first_seq"]]["kind"] == "RequestFailed"
    settled = [event for event in events.values() if event["kind"] == "SpendSettled"]
    spent = [each for each in report["spendings"] if each["source"] == "step"]
    assert sum(each["requests"] for each in spent) == len(settled)
    assert sum(each["output_tokens"] for each in spent) == sum(
        event["usage"]["output_tokens"] for event in settled
    )
    (finish,) = report["finishes"]
    assert (finish["summary"], finish["seq"]) == ("It is made.", _seq(events, "WorkFinished"))
    assert report["left"] == [
        {"what": "plan, open", "detail": "measure twice", "seq": _seq(events, "PlanSet")}
    ]
    assert "It cites no recorded result." in machine.run("goal", "report").stdout


def test_there_is_no_report_without_a_goal(machine: Machine) -> None:
    ran = machine.run("goal", "report")
    assert ran.returncode != 0
    assert "No goal has been started in this folder." in ran.stderr


def _seq(events: dict[int, dict[str, Any]], kind: str) -> int:
    (found,) = [seq for seq, event in events.items() if event["kind"] == kind]
    return found


class Seen(HTMLParser):
    """What a browser finds in a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            assert not name.startswith("on")
            if name in ("src", "href", "srcset", "action", "data", "xlink:href"):
                self.addresses.append(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data
