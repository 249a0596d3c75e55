"""The debug log and the archive for a bug report: they say what happened, and no secret."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from mainspring.events import STORED, UserSaid
from mainspring.events.outline import outline
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedReply
from mainspring.testing.server import HostedModelServer

KEY = "sk-proj-0123456789abcdefghijklmnop"
TOKEN = "glpat-abcdefghij0123456789"
PASSWORD = "correct-horse-battery-9"
PROMPT = "Rename the unicorn module"
REPLY = "The unicorns are renamed"


class Setting:
    """A home and a workspace, and the environment of a command in them."""

    def __init__(self, root: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.work.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "MAINSPRING_HOME": str(self.home),
            "OPENAI_API_KEY": KEY,
            "SERVICE_PASSWORD": PASSWORD,
        }

    def command(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mainspring", *words],
            cwd=self.work,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def run(self, *before: str, replies: Sequence[ScriptedReply] = (), **variables: str) -> str:
        """Takes a turn on a served model, whose call and whose user name secrets; gives the session."""
        call = ScriptedCall(name="write", arguments={"path": "unicorn.txt", "content": f"{TOKEN} {PASSWORD}"})
        usual = (
            ScriptedReply(
                text=f"I write {TOKEN}", calls=(call,), fault=Fault(kind="status", status=429, retry_after=0)
            ),
            ScriptedReply(text=REPLY),
        )
        with HostedModelServer(Script(replies=tuple(replies) or usual)) as server:
            model = ("--model", f"openai-compatible@{server.url}#scripted", "--mode", "edits")
            said = f"{PROMPT} with {PASSWORD}"
            ran = self.command(*before, "run", said, *model, **variables)
        assert ran.returncode == 0, ran.stderr
        return next(line for line in ran.stderr.splitlines() if line.startswith("session ")).split()[1]


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def assert_without_secrets(text: str) -> None:
    assert not [secret for secret in (KEY, TOKEN, PASSWORD) if secret in text]


def test_debug_writes_what_happened_and_no_secret(setting: Setting) -> None:
    setting.run("--debug")
    file = setting.home / "debug.log"
    log = file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "request method=POST host=127.0.0.1" in log
    assert "response status=429" in log
    assert "response status=200" in log
    assert "event RequestFailed" in log
    assert "event CallEnded" in log
    assert "outcome=ok" in log
    assert_without_secrets(log)
    assert PROMPT not in log
    assert REPLY not in log


def test_a_variable_names_the_file_of_the_log(setting: Setting, tmp_path: Path) -> None:
    setting.run(MAINSPRING_LOG=str(tmp_path / "mine.log"))
    assert "event TurnEnded" in (tmp_path / "mine.log").read_text()
    assert not (setting.home / "debug.log").exists()


@pytest.mark.parametrize("word", ["1", "true", "ON"])
def test_a_variable_that_only_says_yes_means_the_usual_file(setting: Setting, word: str) -> None:
    path = setting.home / "debug.log"
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o644)
    ran = setting.command("sessions", MAINSPRING_LOG=word)
    assert ran.returncode == 0, ran.stderr
    assert "start version=" in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(Path.cwd().glob(word))


def test_a_variable_that_says_no_asks_for_no_log(setting: Setting) -> None:
    assert setting.command("sessions", MAINSPRING_LOG="0").returncode == 0
    assert not (setting.home / "debug.log").exists()


def test_without_being_asked_nothing_is_logged(setting: Setting) -> None:
    setting.run()
    assert not (setting.home / "debug.log").exists()


def test_errors_are_logged_with_their_traceback(setting: Setting) -> None:
    ran = setting.command("--debug", "show", f"nosuch-{TOKEN}")
    assert ran.returncode == 2
    log = (setting.home / "debug.log").read_text()
    assert "error UnknownSession" in log
    assert "Traceback (most recent call last)" in log
    assert_without_secrets(log)


def test_a_log_that_cannot_be_written_is_an_error(setting: Setting) -> None:
    ran = setting.command("sessions", MAINSPRING_LOG="/proc/no/such.log")
    assert ran.returncode == 2
    assert "cannot be written" in ran.stderr


def unpacked(archive: Path) -> dict[str, str]:
    with zipfile.ZipFile(archive) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_a_bundle_says_what_happened_without_contents_or_secrets(setting: Setting, tmp_path: Path) -> None:
    session = setting.run("--debug")
    (setting.home / "config.toml").write_text(
        f'[engines.mine]\ncommand = ["x", "{TOKEN}"]\nprotocol = "exec"\n'
    )
    ran = setting.command("doctor", "--bundle", session[:6], "-o", str(tmp_path / "report.zip"))
    assert ran.returncode == 0, ran.stderr
    files = unpacked(tmp_path / "report.zip")
    assert set(files) == {
        "README.txt",
        "doctor.json",
        "versions.json",
        "settings.json",
        "events.jsonl",
        "log.txt",
    }
    for text in (*files.values(), ran.stdout):
        assert_without_secrets(text)
        assert PROMPT not in text
        assert REPLY not in text
        assert "unicorn.txt" not in text
    for name in ("doctor.json", "versions.json", "settings.json"):
        assert str(tmp_path) not in files[name]
    events = [json.loads(line) for line in files["events.jsonl"].splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert "CallEnded" in {event["kind"] for event in events}
    assert "event CallEnded" in files["log.txt"]
    assert "Not in it:\n  prompts, replies" in files["README.txt"]
    assert stat.S_IMODE((tmp_path / "report.zip").stat().st_mode) == 0o600


def test_a_bundle_with_contents_still_has_no_secrets(setting: Setting, tmp_path: Path) -> None:
    session = setting.run()
    words = ("doctor", "--bundle", session, "--with-contents", "-o", str(tmp_path / "report.zip"))
    assert setting.command(*words).returncode == 0
    files = unpacked(tmp_path / "report.zip")
    assert PROMPT in files["events.jsonl"]
    assert REPLY in files["events.jsonl"]
    assert "there is no log" in files["README.txt"]
    assert_without_secrets("".join(files.values()))


def test_a_bundle_is_not_written_over_another_file(setting: Setting, tmp_path: Path) -> None:
    session = setting.run()
    (tmp_path / "mine.zip").write_text("mine")
    ran = setting.command("doctor", "--bundle", session, "-o", str(tmp_path / "mine.zip"))
    assert ran.returncode == 2
    assert (tmp_path / "mine.zip").read_text() == "mine"


def test_options_of_a_bundle_need_one(setting: Setting) -> None:
    assert setting.command("doctor", "--with-contents").returncode == 2


def test_an_outline_keeps_sizes_and_leaves_texts_out() -> None:
    assert outline(UserSaid(text="hello")) == {"text": "<5 characters>"}


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_every_kind_of_event_has_an_outline_that_can_be_written(kind: type[msgspec.Struct]) -> None:
    required = {field.name: "x" * 9 for field in msgspec.structs.fields(kind) if field.required}
    assert msgspec.json.encode(outline(kind(**required)))
