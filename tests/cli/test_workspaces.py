"""A workspace that holds the home folder: refused without a person, asked at a terminal, allowed by a flag."""

from __future__ import annotations

from tests.cli.conftest import Machine, lines
from tests.cli.terminal import Person

FREE = ("--mode", "yolo", "--max-cost-usd", "1", "--allow-unpriced")


def test_every_command_refuses_the_home_folder_without_a_person(machine: Machine) -> None:
    home, model = str(machine.workspace), machine.serve({"text": "hello"})
    started = machine.run("run", "--model", model, *FREE, "go").stderr
    session = started.split()[1]
    for words in (
        ("run", "--model", model, *FREE, "go"),
        ("resume", session, "again", "--model", model, *FREE),
        ("goal", "start", "--model", model, "go"),
        ("goal", "schedule", "--yes", "--model", model, "@daily", "go"),
        ("exploop", "--model", model, "go"),
        ("drvloop", "--model", model, "go"),
        ("exec", "--", "true"),
        ("step", "--", "true"),
        ("fork", session, "-C", "."),
    ):
        refused = machine.run(*words, HOME=home)
        assert refused.returncode == 2, (words, refused.stderr)
        assert "holds your home folder" in refused.stderr
        assert "--allow-home" in refused.stderr


def test_exec_at_the_root_runs_nothing(machine: Machine) -> None:
    for place in ("/", "/etc"):
        refused = machine.run("exec", "--allow-home", "--mode", "yolo", "-C", place, "--", "touch", "made")
        assert refused.returncode == 2
        assert "is a folder of the system" in refused.stderr


def test_a_project_file_cannot_allow_it(machine: Machine) -> None:
    (machine.workspace / ".mainspring").mkdir()
    (machine.workspace / ".mainspring" / "config.toml").write_text("allow_home = true\n")
    (machine.workspace / "config.toml").write_text("allow_home = true\n")
    refused = machine.run("exec", "--", "true", HOME=str(machine.workspace))
    assert "holds your home folder" in refused.stderr


def test_the_flag_lets_a_container_work_in_its_home(machine: Machine) -> None:
    model = machine.serve({"text": "hello"})
    ran = machine.run(
        "run", "--allow-home", "--json", "--model", model, *FREE, "go", HOME=str(machine.workspace)
    )
    assert ran.returncode == 0, ran.stderr
    assert lines(ran.stdout)[0]["body"]["allows_home"] is True


def test_a_person_at_the_terminal_is_asked(machine: Machine) -> None:
    model = machine.serve({"text": "hello"})
    words = ("run", "--json", "--model", model, *FREE, "go")
    for answer, code in (("n", 2), ("y", 0)):
        person = Person(machine, *words, HOME=str(machine.workspace))
        person.until("Work there all the same?")
        person.type(answer)
        printed, _ = person.process.communicate(timeout=60)
        assert person.process.returncode == code, person.seen
        assert ('"allows_home":true' in printed.replace(" ", "")) is (answer == "y")
