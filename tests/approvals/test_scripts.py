"""A script of the workspace: shown with the question, and a yes holds for what it says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.approvals import Judgement, ModePolicy, Proposed
from mainspring.approvals.grants import Grant, GrantFile
from mainspring.approvals.permit import Permitted, Wanted, permit
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.scripts import read_script
from mainspring.events import SCOPES, ApprovalAsked, ApprovalGiven, Scope
from mainspring.secrets.vault import Vault


class Person:
    """Says always to everything, and keeps what was granted in a real file."""

    scopes: tuple[Scope, ...] = SCOPES

    def __init__(self, folder: Path, scope: Scope = "forever") -> None:
        self.workspace = folder / "w"
        self.workspace.mkdir()
        self.vault = Vault()
        self.asked: list[ApprovalAsked] = []
        self._file = GrantFile(folder)
        self._scope: Scope = scope
        self.policy = LayeredPolicy(
            ModePolicy("ask"), home="/home/me", grants=lambda _: self._file.all(), scripts=read_script
        )

    async def ask_person(self, question: ApprovalAsked) -> ApprovalGiven | None:
        self.asked.append(question)
        return ApprovalGiven(
            call=question.call,
            arguments_sha256=question.arguments_sha256,
            decision="allow",
            scope=self._scope,
        )

    async def grant(self, *grants: Grant) -> None:
        for each in grants:
            self._file.add(each)

    def proposed(self, command: str) -> Proposed:
        return Proposed(
            tool="shell",
            effect="execute",
            arguments={"command": command},
            command=command,
            workspace=str(self.workspace),
            session="s1",
        )

    def judge(self, command: str) -> Judgement:
        return self.policy.judge(self.proposed(command))

    def allows(self, command: str) -> None:
        wanted = Wanted(call=f"c{len(self.asked)}", action=None, proposed=self.proposed(command))
        assert isinstance(asyncio.run(permit(self, wanted)), Permitted)


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("sh t.sh", "t.sh"),
        ("bash -eu -o pipefail t.sh x", "t.sh"),
        ("./t.sh", "t.sh"),
        ("sub/t.sh a", "sub/t.sh"),
        ("timeout 5 python3 -u sub/x.py", "sub/x.py"),
        ("node x.js", "x.js"),
        ("source t.sh", "t.sh"),
        (". ./t.sh", "t.sh"),
        ("ls && perl x.pl", "x.pl"),
        ("python3 -m pytest", ""),
        ("python3 -c 'x'", ""),
        ("sh -c 'ls t.sh'", ""),
        ("cat t.sh", ""),
        ("sh /etc/profile", ""),
        ("sh ../t.sh", ""),
        ("sh missing.sh", ""),
    ],
)
def test_a_question_shows_the_script_that_a_command_names(tmp_path: Path, command: str, script: str) -> None:
    person = Person(tmp_path)
    (person.workspace / "sub").mkdir()
    for name in ("t.sh", "sub/t.sh", "sub/x.py", "x.js", "x.pl"):
        (person.workspace / name).write_text(f"this is {name}\n")
    found = [(each.path, each.text) for each in person.judge(command).scripts]
    assert found == ([(str(person.workspace / script), f"this is {script}\n")] if script else [])


@pytest.mark.parametrize("scope", ["session", "project", "forever"])
@pytest.mark.parametrize("command", ["sh t.sh", "sh t.sh | sh -s $X"])
def test_a_yes_holds_until_the_script_changes_and_then_shows_the_difference(
    tmp_path: Path, scope: Scope, command: str
) -> None:
    person = Person(tmp_path, scope)
    script = person.workspace / "t.sh"
    script.write_text("echo one\necho two\n")
    person.allows(command)
    person.allows(command)
    assert len(person.asked) == 1
    script.write_text("echo one\necho bad\n")
    person.allows(command)
    assert len(person.asked) == 2
    if command == "sh t.sh":
        assert "-echo two\n+echo bad" in person.asked[1].scripts[0].diff
        assert person.asked[1].reason == "the script changed since it was allowed"
    script.write_text("echo one\necho two\n")
    person.allows(command)
    assert len(person.asked) == 2


def test_a_grant_without_a_hash_is_for_the_command_whatever_the_script_says(tmp_path: Path) -> None:
    person = Person(tmp_path)
    (person.workspace / "t.sh").write_text("echo one\n")
    (tmp_path / "grants.json").write_text(
        '{"format_version": 2, "grants": [{"id": "g", "scope": "forever", "tool": "shell", "command": "sh t.sh $"}]}'
    )
    assert person.judge("sh t.sh").rule == "grant:g"


@pytest.mark.parametrize("kind", ["link out", "pipe", "large"])
def test_a_script_that_cannot_be_read_is_asked_every_time(tmp_path: Path, kind: str) -> None:
    person = Person(tmp_path)
    script = person.workspace / "t.sh"
    if kind == "link out":
        (tmp_path / "outside").write_text("SECRET")
        script.symlink_to(tmp_path / "outside")
    elif kind == "pipe":
        os.mkfifo(script)
    else:
        script.write_bytes(b"#" * (4 * 1024 * 1024 + 1))
    person.allows("sh t.sh")
    person.allows("sh t.sh")
    assert len(person.asked) == 2
    assert "asked every time" in person.asked[0].scripts[0].text
    assert "SECRET" not in str(person.asked)


def test_secrets_in_a_script_are_not_in_the_question(tmp_path: Path) -> None:
    person = Person(tmp_path)
    person.vault = Vault({"KEY": "hunter2-hunter2-hunter2"})
    (person.workspace / "t.sh").write_text("curl -H hunter2-hunter2-hunter2\n")
    person.allows("sh t.sh")
    assert "hunter2" not in str(person.asked)
    assert "hunter2" not in (tmp_path / "grants.json").read_text()
