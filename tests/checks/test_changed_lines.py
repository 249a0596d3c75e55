"""Secrets and imports that nothing declares are told where a change brings them, and not where they stood."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, new_findings
from mainspring.checks.changed_lines import Secrets, line_checks
from mainspring.checks.settings import ChecksSettings
from mainspring.checks.undeclared import Imports, LostDeclarations
from mainspring.events import ChangesChecked, Limits
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.secrets.vault import Vault
from tests.checks.test_after_change import configured, notes, shell
from tests.stage import staged

KEY = "AKIA" + "QWERTYUIOPASDFGH"
PROJECT = """\
[project]
name = "own"
dependencies = ["requests>=2", "PyYAML", "scikit-learn"]
optional-dependencies = { more = ["numpy"] }
[dependency-groups]
dev = ["pytest", { include-group = "x" }]
"""
PACKAGE = '{"name": "own", "dependencies": {"react": "1", "@scope/x": "1"}, "devDependencies": {"@types/vscode": "1"}}'
POETRY = '[tool.poetry.dependencies]\nrequests = "2"\n'

CASES = [
    ({"pyproject.toml": PROJECT}, "a.py", "import os, pandas as pd\n", [1]),
    (
        {"pyproject.toml": PROJECT},
        "a.py",
        "import requests, yaml, sklearn, own.x\nfrom numpy.linalg import x\n",
        [],
    ),
    ({"pyproject.toml": PROJECT}, "a.py", "x = 1\nfrom flask import Flask\n", [2]),
    (
        {"pyproject.toml": PROJECT, "src/lib/x.py": "", "b.py": ""},
        "a.py",
        "import lib, b\nfrom . import c\n",
        [],
    ),
    ({"pyproject.toml": PROJECT, "t/helper.py": ""}, "t/a.py", "import helper\n", []),
    ({"requirements.txt": "# x\nflask==1\n-r other.txt\n"}, "a.py", "import flask\nimport django\n", [2]),
    ({}, "a.py", "import django\n", []),  # nothing is declared at all
    ({"pyproject.toml": POETRY}, "a.py", "import django\n", []),
    ({"pyproject.toml": PROJECT, "setup.py": ""}, "a.py", "import django\n", []),
    ({"pyproject.toml": "dependencies = [["}, "a.py", "import django\n", []),
    ({"package.json": PACKAGE}, "a.ts", "import x from 'react/jsx';\nimport y from 'left-pad';\n", [2]),
    (
        {"package.json": PACKAGE},
        "a.ts",
        "import '@scope/x/y';\nimport v from 'vscode';\nimport './own';\n",
        [],
    ),
    (
        {"package.json": PACKAGE},
        "a.js",
        "const fs = require('fs'), n = import('node:os');\nrequire('lodash')\n",
        [2],
    ),
    ({"package.json": PACKAGE}, "p/a.js", "import a from '@/x';\nimport b from '@other/x';\n", [2]),
    ({"package.json": PACKAGE, "tsconfig.json": '{"paths": {}}'}, "a.ts", "import y from 'left-pad';\n", []),
    ({"package.json": "[" * 100_000}, "a.ts", "import y from 'left-pad';\n", []),
]


@pytest.mark.parametrize(("files", "path", "text", "lines"), CASES)
def test_imports_that_nothing_declares_are_told_when_they_are_new(
    tmp_path: Path, files: dict[str, str], path: str, text: str, lines: list[int]
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")

    def look(before: str | None) -> list[int]:
        file = ChangedFile(path, before.encode() if before is not None else None, text.encode())
        return [each.line for each in asyncio.run(new_findings(Imports(tmp_path), file))]

    assert look(None) == look("") == lines
    assert look(f"\n{text}") == []


REQUESTS = '[project]\nname = "a"\ndependencies = ["requests>=2", "flask"]\n'


@pytest.mark.parametrize(
    ("path", "before", "after", "lost"),
    [
        ("pyproject.toml", REQUESTS, REQUESTS.replace("requests", "reqeusts"), ["requests"]),
        ("pyproject.toml", REQUESTS, REQUESTS.replace(">=2", ">=3.1rc1"), []),
        ("pyproject.toml", REQUESTS, REQUESTS.replace(', "flask"', ', "django"'), []),
        ("requirements.txt", "requests\nflask\n", "flask\n", ["requests"]),
        ("package.json", '{"dependencies": {"dayjs": "1"}}', '{"dependencies": {"dajys": "1"}}', ["dayjs"]),
        (
            "web/package.json",
            '{"dependencies": {"vue": "3", "x": "1"}}',
            '{"dependencies": {"x": "1"}}',
            ["vue"],
        ),
    ],
)
def test_packages_that_are_declared_no_more_and_still_imported_are_told(
    tmp_path: Path, path: str, before: str, after: str, lost: list[str]
) -> None:
    (tmp_path / "web").mkdir()
    sources = {
        "net.py": "import requests\n",
        "a.js": "import d from 'dayjs';\n",
        "web/b.js": "import v from 'vue';\n",
    }
    for name, text in {**sources, path: after}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    check = LostDeclarations(Files(policy(tmp_path, home=Path("/nowhere"))))
    assert check.takes(path)
    found = asyncio.run(new_findings(check, ChangedFile(path, before.encode(), after.encode())))
    assert [each.message.split("`")[1] for each in found] == lost


def test_a_secret_is_told_where_a_change_brings_it_and_never_shown() -> None:
    def look(before: str, after: str) -> list[int]:
        file = ChangedFile("a.py", before.encode(), after.encode())
        found = asyncio.run(new_findings(Secrets(Vault({"TOKEN": "correct-horse-battery"})), file))
        assert not any(KEY in each.message or "horse" in each.message for each in found)
        return [each.line for each in found]

    assert look("x = 1\n", f"x = 1\nkey = '{KEY}'\n") == [2]
    assert look("", "a = 'correct-horse-battery'\n") == [1]
    assert look(f"key = '{KEY}'\n", f"\n\nkey = '{KEY}'\n") == []
    assert look("", "key = 'none'\n") == []


@pytest.mark.parametrize(
    "line",
    [
        'PASSWORD = "hunter2-Blue7"',
        "  db_password: 'c0rrect-horse'",
        "const apiKey = `Zm9vYmFy1234`;",
        '{"client_secret": "9f8e7d6c5b4a"}',
        'API_KEY: Final = "Zm9vYmFy1234"',
        f"HOOK = 'https://hooks.slack.com/services/T{'A1' * 4}/B{'B2' * 4}/{'c3D' * 8}'",
        f"bot = '123456789:AA{'H3x_' * 9}'",
        f"key = 'dop_v1_{'a1' * 32}'",
        f"AccountKey={'aB3/' * 21}==;EndpointSuffix=core",
    ],
)
def test_secrets_are_told_in_the_forms_that_people_write(line: str) -> None:
    def look(path: str, text: str) -> list[int]:
        return [each.line for each in asyncio.run(Secrets(Vault()).findings(path, text.encode()))]

    assert look("a.py", f"x = 1\n{line}\n") == [2]


@pytest.mark.parametrize(
    "line",
    [
        'password = os.environ["DB_PASSWORD_1"]',
        'PASSWORD = "changeme-123"',
        'password = "{password1}"',
        'API_KEY = "your-api-key-1"',
        'secret_key_file = "/run/secrets/key1"',
        'password_hint = "two words1 here"',
        'PASSWORD_FIELD = "password"',
        'access_token: str = ""',
        'api_key = ""',
    ],
)
def test_what_only_names_a_secret_is_none(line: str) -> None:
    assert not asyncio.run(Secrets(Vault()).findings("a.py", f"{line}\n".encode()))


def test_passwords_of_tests_are_none() -> None:
    line = b'PASSWORD = "hunter2-Blue7"\n'
    assert not asyncio.run(Secrets(Vault()).findings("tests/test_login.py", line))


def test_a_session_is_told_of_both_also_where_the_syntax_is_broken(tmp_path: Path) -> None:
    stage = staged(
        tmp_path,
        {"requirements.txt": "flask\n"},
        shell(f"printf 'import django\\nkey = \"%s\"\\nx = (\\n' {KEY} > a.py"),
        "Done.",
    )
    stage.run("Go", config=configured(tmp_path), mode="auto")
    (note,) = notes(stage)
    assert "a.py:1: warning: `django` is imported, and nothing declares it" in note
    assert "a.py:2: warning: a secret stands here" in note
    assert KEY not in str(stage.events(ChangesChecked))


@pytest.mark.parametrize("path", ["config/local.ini", "notes.txt", "Dockerfile", "id.pem", "d.swift"])
def test_a_secret_is_told_in_files_of_every_kind(tmp_path: Path, path: str) -> None:
    stage = staged(
        tmp_path,
        {},
        shell(f"mkdir -p config; printf 'NAME=x\nKEY=%s\n' {KEY} > {path}"),
        shell(f"printf 'one\\000KEY=%s\n' {KEY} > data.bin; echo text > plain.txt"),
        "Done.",
    )
    stage.run("Go", config=configured(tmp_path), mode="yolo", limits=Limits(max_cost_usd=1.0))
    assert f"{path}:2: warning: a secret stands here" in notes(stage)[0]
    assert "plain.txt" not in str(notes(stage))
    assert KEY not in str(stage.events(ChangesChecked))


@pytest.mark.parametrize("ignored", ["", ".env\n"])
def test_a_new_file_of_secrets_is_told_where_git_would_commit_it(tmp_path: Path, ignored: str) -> None:
    stage = staged(
        tmp_path,
        {".gitignore": ignored},
        *(shell("mkdir -p app; echo 'KEY=x' > app/.env"), shell("echo 'KEY=y' >> app/.env"), "Done."),
    )
    subprocess.run(["git", "init", "-q", str(stage.workspace)], check=True)
    stage.run("Go", config=configured(tmp_path), mode="yolo", limits=Limits(max_cost_usd=1.0))
    told = "app/.env: warning: secrets usually stand in files of this name, and git does not ignore it"
    assert [told in note for note in notes(stage)] == ([] if ignored else [True])


def test_they_can_be_switched_off(tmp_path: Path) -> None:
    assert (
        line_checks(ChecksSettings(changed_lines="off"), Files(policy(tmp_path, home=tmp_path)), Vault({}))
        == ()
    )
