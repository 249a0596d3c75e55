"""Bugs that a model could make, in five small repositories: each is applied by a command of a session, and what
notices it is compared with what the table says. A bug that nothing notices is named there as missed, with why.
"""

from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app.operations.impact import look_at_impact
from mainspring.checks.settings import ChecksSettings
from mainspring.context.work import WorkSettings
from mainspring.events import ChangesChecked, SuiteEnded
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call
from tests import ROOT
from tests.npm import NODE
from tests.stage import staged

FOLDER = Path(__file__).parent / "seeded_bugs"
REPOSITORIES = ("python", "javascript", "typescript", "shell", "c")
IN_CI = 2
REMOVED = "removed public function"
SEED = 19
# What looks like a secret stands in no file of ours.
FILLED = {"{KEY}": "QWERTYUIOPASDFGH", "{TOKEN}": "a1B2" * 9, "{PEM}": "RSA PRIVATE" + " KEY"}


class Edit(msgspec.Struct, frozen=True):
    path: str
    old: str
    new: str


class Bug(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`caught` is what notices it, by the name of the check; `missed` why nothing does."""

    name: str
    kind: str
    edits: tuple[Edit, ...] = ()
    deleted: tuple[str, ...] = ()
    caught: tuple[str, ...] = ()
    missed: str = ""


class Repository(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: dict[str, str]
    bugs: tuple[Bug, ...]


@cache
def repository(name: str) -> Repository:
    return msgspec.convert(tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8")), Repository)


ALL = [(name, bug) for name in REPOSITORIES for bug in repository(name).bugs]
SAMPLE = [
    (name, bug)
    for name in REPOSITORIES
    for bug in random.Random(f"{SEED}{name}").sample(repository(name).bugs, IN_CI)
]


def change(name: str, bug: Bug) -> str:
    """The bug as a command of the shell that makes it."""
    texts = dict(repository(name).files)
    for edit in bug.edits:
        assert texts[edit.path].count(edit.old) == 1, f"{edit.path} has not one {edit.old!r}"
        texts[edit.path] = texts[edit.path].replace(edit.old, edit.new)
    changed = {path: text for path, text in texts.items() if text != repository(name).files[path]}
    assert changed.keys() | {*bug.deleted}, "it changes nothing"
    for mark, text in FILLED.items():
        changed = {path: content.replace(mark, text) for path, content in changed.items()}
    lines = [f"cat > {path} <<'END_OF_FILE'\n{text.lstrip()}END_OF_FILE" for path, text in changed.items()]
    return "\n".join([*lines, *(f"rm {path}" for path in bug.deleted)])


def settings(folder: Path) -> Config:
    programs = (
        f"{NODE.parent}:{ROOT / '.venv/bin'}:{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    )
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": programs})
    checks = ChecksSettings(wait_ms=60_000, language_servers="off", suite_limit_s=300.0)
    work = WorkSettings(priming="off", test_timeout_s=300.0)
    return msgspec.structs.replace(
        config, settings=msgspec.structs.replace(config.settings, work=work, checks=checks)
    )


def noticed(stage: Stage) -> set[str]:
    """The checks that found something which still stood when the turn ended, and what tests showed."""
    standing: dict[tuple[str, str], bool] = {}
    for event in stage.events(ChangesChecked):
        for file in event.files:
            for by in file.by:
                standing[file.path, by] = any(each.by == by for each in file.findings)
    found = {by for (_, by), stands in standing.items() if stands}
    suites = stage.events(SuiteEnded)
    found |= {"regressions"} if any(each.regressions for each in suites[-1:]) else set()
    return found | ({"flaky"} if any(each.flaky for each in suites) else set())


def session(name: str, bug: Bug, folder: Path) -> Stage:
    call: Any = tool_call("shell", command=change(name, bug))
    files = {path: text.lstrip("\n") for path, text in repository(name).files.items()}
    stage = staged(folder, files, call, *["Done."] * 6)
    if bug.kind == REMOVED:
        git(stage, "init", "-q")
        git(stage, "add", "-A")
        git(stage, "-c", "user.name=p", "-c", "user.email=p@x", "commit", "-qm", "Begin")
    stage.run("Make it better.", config=settings(folder), mode="auto")
    return stage


def git(stage: Stage, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=stage.workspace, check=True)


def check(name: str, bug: Bug, folder: Path) -> None:
    stage = session(name, bug, folder)
    found = noticed(stage)
    if bug.kind == REMOVED:  # a person asks for that
        reached = asyncio.run(look_at_impact(settings(folder), stage.workspace))
        found |= {"impact"} if any(each.change == "removed" for each in reached.api) else set()
    assert sorted(found) == sorted(bug.caught), f"{name}: {bug.name}"
    assert bool(bug.missed) != bool(bug.caught), "caught, or named as missed"


def name_of(value: object) -> str:
    return re.sub(r"\W+", "-", value.name) if isinstance(value, Bug) else str(value)


@pytest.mark.parametrize(("name", "bug"), SAMPLE, ids=name_of)
def test_a_seeded_bug_is_noticed_as_the_table_says(name: str, bug: Bug, tmp_path: Path) -> None:
    check(name, bug, tmp_path)


@pytest.mark.proof
@pytest.mark.parametrize(("name", "bug"), [each for each in ALL if each not in SAMPLE], ids=name_of)
def test_every_seeded_bug_is_noticed_as_the_table_says(name: str, bug: Bug, tmp_path: Path) -> None:
    check(name, bug, tmp_path)


def test_the_table_has_bugs_of_every_kind_and_says_of_each_what_notices_it() -> None:
    assert len(ALL) >= 40
    assert {bug.kind for _, bug in ALL} >= {
        "wrong edit", "weakened test", "broken import in another file", "flaky test", "secret", "injection",
        "removed public function",
    }  # fmt: skip
    assert [bug.name for _, bug in ALL if bool(bug.caught) == bool(bug.missed)] == []
