"""The last answer again, and the skills of a folder."""

from __future__ import annotations

import json

from tests.cli.conftest import Machine, lines


def test_retry_asks_the_last_question_again_perhaps_of_another_model(machine: Machine) -> None:
    machine.run("run", "--model", machine.serve({"text": "one"}), "what is it?")
    session = machine.only_session()["id"]
    other = machine.serve({"text": "two"})
    ran = machine.run("retry", session, "--model", other)
    assert (ran.returncode, ran.stdout) == (0, "two\n"), ran.stderr
    asked = json.dumps(json.loads(machine.seen[-1].body)["messages"])
    assert asked.count("what is it?") == 1
    assert '"one"' not in asked


def test_retry_without_a_turn_is_refused(machine: Machine) -> None:
    assert machine.run("retry").returncode == 2


def test_skills_are_listed_with_those_that_cannot_be_used(machine: Machine) -> None:
    for name, text in (
        ("good", "---\nname: good\ndescription: does good\n---\nText\n"),
        ("bad", "no front matter\n"),
    ):
        folder = machine.workspace / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(text)
    ran = machine.run("skills", "--json")
    rows = lines(ran.stdout)
    assert [row["description"] for row in rows if "name" in row] == ["does good"]
    assert any("problem" in row for row in rows)
