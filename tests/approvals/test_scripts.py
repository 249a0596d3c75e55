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
from mainspring.approvals.scripts import read_scripts
from mainspring.disk.shared_files import LocalFiles
from mainspring.events import SCOPES, ApprovalAsked, ApprovalGiven, Scope
from mainspring.secrets.vault import Vault


class Person:
    """Says always to everything, and keeps what was granted in a real file."""

    scopes: tuple[Scope, ...] = SCOPES
    gate = None

    def __init__(self, folder: Path, scope: Scope = "forever") -> None:
        self.workspace = folder / "w"
        self.workspace.mkdir()
        self.vault = Vault()
        self.asked: list[ApprovalAsked] = []
        self._file = GrantFile(LocalFiles(folder))
        self._scope: Scope = scope
        self.policy = LayeredPolicy(
            ModePolicy("ask"), home="/home/me", grants=lambda _: self._file.all(), scripts=read_scripts
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
        ("sh /opt/t.sh", ""),
        ("python3", ""),
        ("cd sub && sh x.sh", "sub/x.sh"),
        ("python3 -m sub.x", "sub/x.py"),
        ("python3 -Im tool", "tool/__main__.py"),
        ("env LANG=C nice sh -c 'exec sh t.sh'", "t.sh"),
    ],
)
def test_a_question_shows_the_script_that_a_command_names(tmp_path: Path, command: str, script: str) -> None:
    person = Person(tmp_path)
    (person.workspace / "sub").mkdir()
    (person.workspace / "tool").mkdir()
    for name in ("t.sh", "sub/t.sh", "sub/x.py", "sub/x.sh", "tool/__main__.py", "x.js", "x.pl"):
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


MAKEFILE = (
    "NAME = x\n\nall: build test\n\nbuild:\n\techo building\n\ntest: build\n\techo testing\n\n\techo more\n"
)
PACKAGE = '{"scripts": {"pretest": "echo before", "test": "jest", "build": "tsc"}}'
JUSTFILE = "test ARG='x':\n    echo testing\n\nother:\n    echo other\n"


@pytest.mark.parametrize(
    ("command", "file", "text", "shown"),
    [
        ("make", "Makefile", MAKEFILE, "all: build test"),
        ("make -j4 test", "Makefile", MAKEFILE, "test: build\n\techo testing\n\n\techo more"),
        ("make -C sub build", "sub/Makefile", MAKEFILE, "build:\n\techo building"),
        ("make -Csub build", "sub/Makefile", MAKEFILE, "build:\n\techo building"),
        ("cd sub && make build", "sub/GNUmakefile", MAKEFILE, "build:\n\techo building"),
        ("make -f other.mk build", "other.mk", MAKEFILE, "build:\n\techo building"),
        ("npm test", "package.json", PACKAGE, "pretest: echo before\ntest: jest"),
        ("npm run build -- --watch", "package.json", PACKAGE, "build: tsc"),
        ("cd sub && npm test", "package.json", PACKAGE, "pretest: echo before\ntest: jest"),
        ("npm --prefix sub test", "sub/package.json", PACKAGE, "pretest: echo before\ntest: jest"),
        ("yarn build", "package.json", PACKAGE, "build: tsc"),
        ("yarn", "package.json", PACKAGE, PACKAGE),
        ("pnpm install", "package.json", PACKAGE, PACKAGE),
        ("just test", "justfile", JUSTFILE, "test ARG='x':\n    echo testing"),
        ("nox", "noxfile.py", "import nox\n", "import nox"),
        ("timeout 5 make build", "Makefile", MAKEFILE, "build:\n\techo building"),
    ],
)
def test_what_a_task_runs_is_shown_and_a_yes_is_bound_to_its_file(
    tmp_path: Path, command: str, file: str, text: str, shown: str
) -> None:
    person = Person(tmp_path)
    (person.workspace / "sub").mkdir()
    path = person.workspace / file
    path.write_text(text)
    person.allows(command)
    person.allows(command)
    (question,) = person.asked
    assert question.scripts[0].text.startswith(shown)
    path.write_text(text.replace("echo", "echo changed").replace("tsc", "tsc2").replace("nox", "nox2"))
    person.allows(command)
    assert len(person.asked) == 2
    assert person.asked[1].reason == "the script changed since it was allowed"


@pytest.mark.parametrize("command", ["npm ls", "npm view x", "npm --version", "make_up x", "cat Makefile"])
def test_a_command_that_runs_no_task_shows_none(tmp_path: Path, command: str) -> None:
    person = Person(tmp_path)
    (person.workspace / "package.json").write_text(PACKAGE)
    (person.workspace / "Makefile").write_text(MAKEFILE)
    assert person.judge(command).scripts == ()


def test_what_a_makefile_includes_counts_as_well(tmp_path: Path) -> None:
    person = Person(tmp_path)
    (person.workspace / "Makefile").write_text("include a.mk\n-include missing.mk\n")
    (person.workspace / "a.mk").write_text("include b.mk\n")
    (person.workspace / "b.mk").write_text("x:\n\techo one\n")
    for name, content in (("b.mk", "x:\n\techo two\n"), ("missing.mk", "y:\n"), ("a.mk", "z:\n")):
        before = len(person.asked)
        person.allows("make x")
        person.allows("make x")
        assert len(person.asked) == before + 1
        (person.workspace / name).write_text(content)
    person.allows("make x")
    assert len(person.asked) == 4


@pytest.mark.parametrize(
    "command",
    [
        "sh missing.sh",
        "./missing.sh",
        "make",
        "npm test",
        "cd $SOMEWHERE && sh t.sh",
        "cd .. && sh t.sh",
        'cd "$(pwd)" && make',
        "make -f $FILE",
        "sh /tmp/made-by-a-command.sh",
        "cd sub && sh missing.sh",
        "make -f included.mk",
    ],
)
def test_a_script_that_is_not_known_beforehand_is_asked_every_time(tmp_path: Path, command: str) -> None:
    person = Person(tmp_path)
    (person.workspace / "t.sh").write_text("echo one\n")
    (person.workspace / "included.mk").write_text("include $(wildcard *.d)\n")
    person.allows(command)
    person.allows(command)
    assert len(person.asked) == 2
    assert "asked every time" in person.asked[0].scripts[0].text


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
