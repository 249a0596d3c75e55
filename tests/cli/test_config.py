"""`mainspring config`: where each setting comes from, and changing one without harm to the file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Machine, lines
from tests.cli.terminal import Person

TEXT = """\
# how I work
model = "anthropic/claude-mine"  # the usual one

# money
[caps.turn]
usd = 1.5  # not more
"""


def with_settings(machine: Machine, text: str = TEXT) -> Path:
    machine.home.mkdir(mode=0o700)
    file = machine.home / "config.toml"
    file.write_text(text)
    return file


def setting(machine: Machine, key: str, *options: str, **extra: str) -> dict[str, object]:
    (row,) = lines(machine.run("config", "get", key, "--json", *options, **extra).stdout)
    return row


def test_each_value_has_an_origin(machine: Machine) -> None:
    file = with_settings(machine)
    assert machine.run("config", "set", "--project", "mode", "plan").returncode == 0
    assert setting(machine, "model")["source"] == f"{file}:2"
    assert setting(machine, "caps.turn.usd") == {
        "key": "caps.turn.usd", "value": 1.5, "origin": "user", "source": f"{file}:6",
    }  # fmt: skip
    assert setting(machine, "mode")["origin"] == "project"
    assert setting(machine, "caps.day.usd") == {
        "key": "caps.day.usd", "value": None, "origin": "default", "source": "",
    }  # fmt: skip
    assert setting(machine, "model", MAINSPRING_MODEL="groq/x")["origin"] == "environment"
    assert setting(machine, "model", "--model", "fast", MAINSPRING_MODEL="groq/x")["origin"] == "flag"
    listed = {row["key"] for row in lines(machine.run("config", "list", "--json").stdout)}
    assert {"model", "gateway.url", "work.priming", "daemon.max_running"} <= listed


def test_setting_and_unsetting_keeps_comments_and_order(machine: Machine) -> None:
    file = with_settings(machine)
    assert machine.run("config", "set", "caps.turn.usd", "2").returncode == 0
    assert file.read_text() == TEXT.replace("1.5", "2")
    assert machine.run("config", "set", "mode", "plan").returncode == 0
    assert machine.run("config", "unset", "mode").returncode == 0
    assert machine.run("config", "set", "caps.turn.usd", "1.5").returncode == 0
    assert file.read_text() == TEXT
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_new_key_stands_above_the_comment_of_the_first_table(machine: Machine) -> None:
    file = with_settings(machine)
    machine.run("config", "set", "fallback", '["openai/a", "groq/b"]')
    assert file.read_text().splitlines()[2] == 'fallback = ["openai/a", "groq/b"]'


def test_what_is_wrong_writes_nothing(machine: Machine) -> None:
    file = with_settings(machine)
    for key, value, said in (
        ("caps.turn.usd", "much", "must be a number"),
        ("caps.turn.usd", "-1", "at least 0"),
        ("modle", "x", "did you mean `model`?"),
        ("mode", "reckless", "There is no mode"),
        ("effort", "huge", "one of"),
        ("model.name", "x", "laid out"),
        ("caps.day.calls", "3", "cannot limit calls"),
        ("a = b", "1", "not the name of a setting"),
    ):
        ran = machine.run("config", "set", key, value)
        assert ran.returncode == 2, (key, ran.stderr)
        assert said in ran.stderr
    assert machine.run("config", "set", "--project", "daemon.max_running", "3").returncode == 2
    assert machine.run("config", "unset", "effort").returncode == 2
    assert "Did you mean model?" in machine.run("config", "get", "modle").stderr
    assert file.read_text() == TEXT


def test_settings_of_a_project_hold_in_it_alone(machine: Machine) -> None:
    machine.home.mkdir(mode=0o700)
    (machine.workspace / ".git").mkdir()
    below = machine.workspace / "below"
    below.mkdir()
    other = machine.workspace.parent / "other"
    other.mkdir()
    model = machine.serve({"text": "one"}, {"text": "two"})
    machine.run("config", "set", "--project", "model", model)
    assert machine.run("run", "-C", str(below), "hello").returncode == 0
    assert machine.run("run", "-C", str(other), "hello").returncode == 2
    assert not list(machine.workspace.glob("**/*.toml"))


def test_validate_names_lines(machine: Machine) -> None:
    file = with_settings(machine, 'model = "a"\n\n[caps.turn]\nusdd = 1\nusd = "x"\n')
    ran = machine.run("config", "validate")
    assert ran.returncode == 1
    found = [line.removeprefix(f"{file}:") for line in ran.stderr.splitlines()]
    assert [line.split(":")[0] for line in found] == ["4", "5"]
    file.write_text("model = 'a'\n[caps\n")
    assert f"{file}:2:" in machine.run("config", "validate").stderr
    assert "line 2" in machine.run("run", "hello").stderr


def test_an_address_that_is_no_store_is_not_valid(machine: Machine) -> None:
    with_settings(machine, '[store]\nurl = "db.example:5432"\n')
    ran = machine.run("config", "validate")
    assert (ran.returncode, "begins with postgresql://" in ran.stderr) == (1, True)


def test_secrets_in_settings_are_not_listed(machine: Machine) -> None:
    with_settings(machine, 'model = "openai-compatible@http://me:hidden-word-77@127.0.0.1:9/v1#x"\n')
    shown = machine.run("config", "list", "--all").stdout
    assert "hidden-word-77" not in shown


def editor(tmp_path: Path, *texts: str) -> str:
    """A program that puts the next of these texts in the place of what it is given."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(texts))
    program = tmp_path / "editor.py"
    program.write_text(
        "import json, os, pathlib, sys\n"
        f"plan = pathlib.Path({str(plan)!r})\n"
        "first, *rest = json.loads(plan.read_text())\n"
        "plan.write_text(json.dumps(rest))\n"
        "file = pathlib.Path(sys.argv[1])\n"
        "file.write_text(first)\n"
        "later = file.stat().st_mtime + 10\n"
        "os.utime(file, (later, later))\n"
    )
    return f"python3 {program}"


def test_an_edited_file_replaces_the_old_one_only_when_it_is_valid(machine: Machine, tmp_path: Path) -> None:
    file = with_settings(machine)
    person = Person(machine, "config", "edit", EDITOR=editor(tmp_path, "modle = 'x'\n", "model = 'x/y'\n"))
    person.until("did you mean `model`?")
    person.until("Edit again?")
    assert file.read_text() == TEXT
    person.type("y")
    person.until("changed")
    assert person.ends() == 0
    assert file.read_text() == "model = 'x/y'\n"


def test_an_edit_that_is_given_up_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    file = with_settings(machine)
    person = Person(machine, "config", "edit", VISUAL=editor(tmp_path, "modle = 'x'\n"), EDITOR="false")
    person.until("Edit again?")
    person.type("n")
    assert person.ends() != 0
    assert file.read_text() == TEXT
    assert machine.run("config", "edit").returncode == 2
