"""The data and settings of every version open in this one, say what they said, and go on."""

from __future__ import annotations

import json
import shutil

import pytest

from mainspring.secrets.vault import PLACEHOLDER
from tests.upgrades.installation import MODEL, Installation
from tests.upgrades.make_fixture import KEY, call, shell

FREE = ("--mode", "yolo")
SAID = ({"text": "said before"},) * 6
"""The server counts the replies that a request already holds."""


def kinds(here: Installation, session: str) -> list[str]:
    return [event["kind"] for event in here.events(session)]


def test_every_session_is_listed_shown_and_sound(old: Installation) -> None:
    rows = old.rows("sessions")
    assert sorted((row["workspace"].rpartition("/")[2], row["state"]) for row in rows) == [
        ("blocked", "blocked"),
        ("crashed", "crashed"),
        ("derivation", "done"),
        ("goal", "done"),
        ("grants", "done"),
        ("grants", "done"),
        ("grants", "done"),
        ("healed", "done"),
        ("secret", "done"),
        ("undone", "done"),
    ]
    for row in rows:
        assert row["model"] == MODEL
        assert len(old.events(row["id"])) == row["events"]
        assert f"{row['events']} events" in old.run("verify", row["id"]).stdout
    (old.home / "index.sqlite").unlink()
    assert old.rows("sessions") == rows


def test_what_was_spent_is_counted(old: Installation) -> None:
    (row,) = old.rows("cost")
    assert row["model"] == MODEL
    assert row["usd"] == pytest.approx(sum(each["cost_usd"] for each in old.rows("sessions")))
    assert row["usd"] > 0


def test_settings_rules_grants_schedules_memory_and_steps_are_there(old: Installation) -> None:
    assert [(grant["scope"], grant["command"]) for grant in old.rows("approvals", "list")] == [
        ("session", "touch session $"),
        ("project", "touch project $"),
        ("forever", "touch forever $"),
    ]
    assert "no-pushes" in old.run("approvals", "rules").stdout
    assert "deny" in old.run("approvals", "check", "git push origin main").stdout
    (schedule,) = old.rows("goal", "schedules")
    assert (schedule["goal"], schedule["mode"], schedule["max_cost_usd"]) == ("Tidy up", "yolo", 1.0)
    remembered = old.run("memory", "show", folder="undone").stdout
    assert "1  The tests need a database" in remembered
    assert "2  Releases are made on Mondays" in remembered
    (step,) = old.rows("steps")
    assert step["exit_code"] == 0
    status = json.loads(old.run("daemon", "status", "--json", code=3).stdout)
    assert (status["running"], status["max_running"]) == (False, 3)
    assert [each["goal"] for each in status["next"]] == ["Tidy up"]
    assert "started: version 0.1.0" in old.run("daemon", "logs").stdout


def test_grants_schedules_and_memory_are_added_to_and_taken_from(old: Installation) -> None:
    grants = old.rows("approvals", "list")
    old.run("approvals", "revoke", grants[0]["id"])
    session = old.session("blocked")
    old.serve(*SAID[:1], {"text": "It is there."})
    old.run("approve", session, "--scope", "project", folder="blocked")
    scopes = [grant["scope"] for grant in old.rows("approvals", "list")]
    assert scopes == ["project", "forever", "project"]
    limits = ("--max-cost-usd", "1", "--yes")
    old.run("goal", "schedule", "0 3 1 1 *", "Look again", *FREE, *limits, folder="goal")
    first, second = old.rows("goal", "schedules")
    assert (first["goal"], second["goal"]) == ("Tidy up", "Look again")
    old.run("goal", "unschedule", first["id"])
    assert [each["goal"] for each in old.rows("goal", "schedules")] == ["Look again"]
    old.run("memory", "forget", "1", folder="undone")
    old.run("memory", "add", "Newer", folder="undone")
    remembered = old.run("memory", "show", folder="undone").stdout
    assert "Releases are made on Mondays" in remembered
    assert "Newer" in remembered
    assert "database" not in remembered


def test_a_session_goes_on_and_what_it_did_then_and_now_is_undone(old: Installation) -> None:
    session, path = old.session("undone"), old.work / "undone" / "list.txt"
    assert path.read_text() == "milk\nbread\n"
    old.serve(*SAID[:3], shell("echo tea >> list.txt"), {"text": "Tea it is."})
    old.run("resume", session, "Add tea", *FREE, folder="undone")
    told = json.dumps(old.sent[0])
    assert "Bread is on the list." in told
    assert "Eggs too." not in told
    assert path.read_text() == "milk\nbread\ntea\n"
    old.run("undo", session, folder="undone")
    assert path.read_text() == "milk\nbread\n"
    old.run("undo", session, folder="undone")
    assert path.read_text() == "milk\n"
    assert "events" in old.run("verify", session).stdout


def test_a_secret_that_was_hidden_is_written_back(old: Installation) -> None:
    session = old.session("secret")
    found = PLACEHOLDER.search(json.dumps(old.events(session)))
    assert found
    old.serve(
        *SAID[:2], call("write", path="copy.toml", content=f'key = "{found[0]}"\n'), {"text": "Copied."}
    )
    old.run("resume", session, "Copy the key", *FREE, folder="secret")
    assert (old.work / "secret" / "copy.toml").read_text() == f'key = "{KEY}"\n'
    assert KEY not in json.dumps(old.sent)
    assert KEY not in json.dumps(old.events(session))


def test_an_open_question_is_answered_and_the_turn_goes_on(old: Installation) -> None:
    session = old.session("blocked")
    old.serve(*SAID[:1], {"text": "It is there."})
    old.run("approve", session, folder="blocked")
    assert (old.work / "blocked" / "allowed").exists()
    assert old.rows("sessions")[0]["state"] == "done"


def test_grants_that_were_given_still_lift_questions(old: Installation) -> None:
    for name in ("project", "forever"):
        (old.work / "grants" / name).unlink()
        old.serve(shell(f"touch {name}"), {"text": "Made."})
        old.run("run", "--mode", "ask", f"Make {name} again", folder="grants")
        assert (old.work / "grants" / name).exists()


def test_a_goal_goes_on_is_done_and_reports_what_every_version_did(old: Installation) -> None:
    session = old.session("goal")
    before = json.loads(old.run("goal", "report", session, "--json").stdout)
    assert len(before["iterations"]) == 2
    made = [row["path"] for row in old.rows("artifacts", session)]
    assert {"out-1.csv", "out-2.csv"} <= set(made)
    replies = [shell("echo 4 > value; touch finished"), {"text": "It is fast.\n<promise>DONE</promise>"}]
    old.serve(cases=[{"contains": "Turn 3 of", "replies": replies}])
    old.run("goal", "resume", session, "--max-iterations", "4", *FREE, folder="goal")
    assert "Idea 1 helped." in json.dumps(old.sent[0])
    report = json.loads(old.run("goal", "report", session, "--json").stdout)
    assert len(report["iterations"]) == 3
    told = ("number", "seq", "ended_seq", "outcome", "said", "files", "commands", "measurements")
    for then, now in zip(before["iterations"], report["iterations"], strict=False):
        assert {name: now.get(name) for name in told} == {name: then.get(name) for name in told}
    shown = old.run("goal", "report", session, "--markdown", "-").stdout
    assert "verified" in shown
    assert "iteration 3" in (old.work / "goal" / "projects" / "memory.md").read_text()


def test_the_claims_of_a_derivation_are_still_proved(old: Installation) -> None:
    session = old.session("derivation")
    report = old.run("goal", "report", session, "--markdown", "-").stdout
    assert "2 + 2 = 4" in report
    assert "proved" in report
    checked = old.events(session, "ClaimChecked")
    assert {(each["body"]["claim"], each["body"]["status"]) for each in checked} == {
        ("main", "proved"),
        ("lemma", "proved"),
    }


def test_a_crashed_session_goes_on_and_learns_how_its_process_ended(old: Installation) -> None:
    session = old.session("crashed")
    old.serve(*SAID[:2], {"text": "Served."})
    old.run("resume", session, *FREE, folder="crashed")
    assert kinds(old, session)[-1] == "TurnEnded"
    (ended,) = old.events(session, "ProcessEnded")
    assert ended["body"]["exit_code"] == 0
    assert not list(old.home.rglob("held.json"))


def test_a_session_is_exported_and_imported(old: Installation) -> None:
    session = old.session("undone")
    before = old.events(session)
    exported = str(old.work / "exported.jsonl")
    old.run("export", session, "-o", exported)
    shutil.rmtree(old.home / "sessions" / session)
    old.run("import", exported)
    assert old.events(session) == before


def test_the_daemon_begins_where_the_old_one_ended(old: Installation) -> None:
    old.run("daemon", "run", "--once")
    log = old.run("daemon", "logs").stdout.splitlines()
    assert "started: version 0.1.0" in log[0]
    assert log[-1].endswith("stopped")
