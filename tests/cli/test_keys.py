"""Keys that a person stores: read by every command that needs one, shown by none."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Machine, lines
from tests.cli.terminal import Person

KEY = "sk-test-vw8Qb2TzmX41plainKey"
KEYRING = """
import json, pathlib, os
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

FILE = pathlib.Path(os.environ["FAKE_KEYRING"])

class Keyring(KeyringBackend):
    priority = 5

    def _all(self):
        if FILE.with_suffix(".locked").exists():
            raise KeyringLocked("locked")
        return json.loads(FILE.read_text()) if FILE.exists() else {}

    def get_password(self, service, username):
        return self._all().get(f"{service}/{username}")

    def set_password(self, service, username, password):
        FILE.write_text(json.dumps({**self._all(), f"{service}/{username}": password}))

    def delete_password(self, service, username):
        every = self._all()
        if every.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("not there")
        FILE.write_text(json.dumps(every))
"""


def piped(machine: Machine, text: str, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mainspring", *arguments],
        cwd=machine.workspace,
        env=machine.environment(**extra),
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def keyring(tmp_path: Path) -> dict[str, str]:
    """The environment with a keyring of the operating system that works."""
    pytest.importorskip("keyring")
    folder = tmp_path / "backend"
    folder.mkdir()
    (folder / "stand_in_keyring.py").write_text(KEYRING)
    return {
        "PYTHONPATH": str(folder),
        "PYTHON_KEYRING_BACKEND": "stand_in_keyring.Keyring",
        "FAKE_KEYRING": str(tmp_path / "keyring.json"),
    }


def test_without_a_keyring_a_key_lies_in_a_private_file_and_is_used(machine: Machine) -> None:
    model = machine.serve({"text": f"the key is {KEY}"})
    added = piped(machine, KEY + "\n", "keys", "add", "openai", "--stdin")
    assert added.returncode == 0, added.stderr
    assert KEY not in added.stdout + added.stderr
    file = machine.home / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (row,) = lines(machine.run("keys", "list", "--json").stdout)
    assert (row["name"], row["origin"], row["stored"]) == ("openai", "file", "file")
    ran = machine.run("run", "--model", model, "hello")
    assert ran.returncode == 0, ran.stderr
    assert machine.seen[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in ran.stdout + ran.stderr + machine.run("show", "--json").stdout


def test_an_environment_variable_comes_before_a_stored_key(machine: Machine) -> None:
    piped(machine, KEY, "keys", "add", "google", "--stdin")
    (row,) = lines(machine.run("keys", "list", "--json", GOOGLE_API_KEY="other-key-of-mine").stdout)
    assert (row["name"], row["origin"], row["stored"]) == ("gemini", "environment", "file")
    listed = lines(machine.run("models", "--json").stdout)
    assert {each["provider"]: each["key_origin"] for each in listed}["gemini"] == "file"
    diagnosis = json.loads(machine.run("doctor", "--json", ANTHROPIC_API_KEY="sk-ant-env-key").stdout)
    assert diagnosis["key_origins"] == {"gemini": "file", "anthropic": "environment"}


def test_commands_of_an_agent_see_neither_a_stored_key_nor_its_file(machine: Machine) -> None:
    piped(machine, KEY, "keys", "add", "openai", "--stdin")
    looked = machine.run("exec", "--", "sh", "-c", f"env; cat {machine.home}/keys.json")
    assert KEY not in looked.stdout + looked.stderr
    assert "OPENAI_API_KEY" not in looked.stdout


def test_a_key_is_typed_without_an_echo(machine: Machine) -> None:
    person = Person(machine, "keys", "add", "anthropic")
    assert "(not shown" in person.until("): ")
    person.type(KEY)
    assert person.ends() == 0
    assert KEY not in person.seen
    assert KEY in (machine.home / "keys.json").read_text()


@pytest.mark.parametrize("text", ["", "  \n", "two words", "schlüssel-key", "short"])
def test_what_is_no_key_is_not_stored(machine: Machine, text: str) -> None:
    assert piped(machine, text, "keys", "add", "openai", "--stdin").returncode == 2
    assert not (machine.home / "keys.json").exists()


def test_a_program_without_a_terminal_is_told_how_and_unknown_providers_are_refused(machine: Machine) -> None:
    assert "--stdin" in machine.run("keys", "add", "openai").stderr
    assert machine.run("keys", "add", "opnai").returncode == 2
    assert machine.run("keys", "remove", "openai").returncode == 2


def test_a_working_keyring_has_the_key_and_our_files_do_not(
    machine: Machine, keyring: dict[str, str]
) -> None:
    model = machine.serve({"text": "done"}, {"text": "done"})
    assert piped(machine, KEY, "keys", "add", "openai", "--stdin", **keyring).returncode == 0
    assert KEY not in (machine.home / "keys.json").read_text()
    (row,) = lines(machine.run("keys", "list", "--json", **keyring).stdout)
    assert row["origin"] == "keyring"
    machine.run("run", "--model", model, f"my key is {KEY}", **keyring)
    assert machine.seen[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in machine.run("show", "--json").stdout
    assert machine.run("keys", "remove", "openai", **keyring).returncode == 0
    assert json.loads(Path(keyring["FAKE_KEYRING"]).read_text()) == {}
    assert not (machine.home / "keys.json").exists()


def test_a_locked_keyring_is_said_and_does_not_stop_commands_that_need_no_key(
    machine: Machine, keyring: dict[str, str]
) -> None:
    piped(machine, KEY, "keys", "add", "anthropic", "--stdin", **keyring)
    Path(keyring["FAKE_KEYRING"]).with_suffix(".locked").touch()
    refused = machine.run("run", "--model", "anthropic/claude-test", "hello", **keyring)
    assert refused.returncode == 2
    assert "KeyringLocked" in refused.stderr
    (row,) = lines(machine.run("keys", "list", "--json", **keyring).stdout)
    assert (row["origin"], row["stored"]) == ("", "keyring")
    ran = machine.run("run", "--model", machine.serve({"text": "done"}), "hello", **keyring)
    assert ran.returncode == 0, ran.stderr


def test_uninstall_removes_keys_also_from_the_keyring(machine: Machine, keyring: dict[str, str]) -> None:
    piped(machine, KEY, "keys", "add", "openai", "--stdin", **keyring)
    piped(machine, KEY, "keys", "add", "groq", "--stdin")
    gone = machine.run("uninstall", "--yes", **keyring)
    assert gone.returncode == 0, gone.stderr
    assert "OPENAI_API_KEY" in gone.stdout
    assert json.loads(Path(keyring["FAKE_KEYRING"]).read_text()) == {}
    assert not list(machine.home.glob("keys.*"))


def test_keys_are_loaded_only_where_one_is_in_the_keyring(machine: Machine) -> None:
    piped(machine, KEY, "keys", "add", "openai", "--stdin")
    code = "import sys; from mainspring.settings import load_config; load_config().secrets; print('keyring' in sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", code], env=machine.environment(), capture_output=True, text=True, check=True
    )
    assert ran.stdout == "False\n"
