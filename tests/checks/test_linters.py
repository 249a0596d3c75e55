"""Linters and formatters: what their output means, and that they look at a text that the disk has not."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, NotChecked, new_findings
from mainspring.checks.linter_facts import LINTERS, Linter, LinterOutput, linter_rows
from mainspring.checks.linters import ProjectLinter, find_linters
from mainspring.checks.settings import ChecksSettings
from mainspring.sandbox import Sandbox
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from tests.npm import MODULES, NODE, needs

ROWS = {row.name: row for row in LINTERS}
PATH = f"{sys.prefix}/bin:{NODE.parent}:{MODULES}/.bin:{os.environ['PATH']}"
STYLE = {"line": 1, "rule": "color-no-invalid-hex", "severity": "error", "text": "Invalid hex color"}
COP = {
    "severity": "warning",
    "message": "Useless.",
    "cop_name": "Lint/Void",
    "location": {"start_line": 3},
}
TOLD = [
    ("stylelint", 2, "", json.dumps([{"warnings": [STYLE]}]), [(1, "color-no-invalid-hex", "error")]),
    ("stylelint", 0, json.dumps([{"warnings": []}]), "", []),
    ("rubocop", 1, json.dumps({"files": [{"offenses": [COP]}]}), "", [(3, "Lint/Void", "warning")]),
    ("flake8", 1, "a.x:2:1: F821 undefined name 'x'\n", "", [(2, "F821", "error")]),
    ("flake8", 1, "a.x:9:80: E501 line too long (90 > 79 characters)\n", "", [(9, "E501", "warning")]),
    (
        "yamllint",
        1,
        "stdin:4:1: [error] duplication of key (key-duplicates)\n",
        "",
        [(4, "key-duplicates", "error")],
    ),
    (
        "clang-tidy",
        1,
        "b.h:1:1: warning: other [x]\na.x:3:23: error: use of undeclared 'y' [clang-diagnostic-error]\n",
        "",
        [(3, "clang-diagnostic-error", "error")],
    ),
    (
        "clang-format",
        1,
        "",
        "a.x:1:2: error: code should be clang-formatted",
        [(0, "clang-format", "warning")],
    ),
    ("rustfmt", 0, "other\n", "", [(0, "rustfmt", "warning")]),
    ("rustfmt", 0, "text\n", "", []),
    ("biome format", 1, "text\n", "The formatter is disabled.", []),
]
CRASHED = [
    "stylelint",
    "rubocop",
    "flake8",
    "yamllint",
    "clang-tidy",
    "clang-format",
    "rustfmt",
    "biome format",
]


@pytest.mark.parametrize(("name", "code", "out", "err", "expected"), TOLD)
def test_what_linters_print_is_understood(
    name: str, code: int, out: str, err: str, expected: list[tuple[int, str, str]]
) -> None:
    said = LinterOutput(code, out.encode(), err.encode(), "a.x", b"text\n")
    assert [(line, rule, how) for line, rule, _, how in ROWS[name].read(said)] == expected


@pytest.mark.parametrize("name", CRASHED)
def test_a_linter_that_fails_is_no_clean_file(name: str) -> None:
    with pytest.raises(NotChecked, match="its settings are wrong"):
        ROWS[name].read(LinterOutput(78, b"", b"note\nits settings are wrong\n", "a.x", b"text\n"))


def looked_at(
    place: Path, row: Linter, file: str, before: str | None, after: str
) -> tuple[list[str], list[int]]:
    """What a real linter finds anew in a file that the disk does not have at all."""

    async def main() -> tuple[list[str], list[int]]:
        confined = policy(place, home=place)
        sandbox = await choose(confined, {"PATH": PATH})

        async def given() -> Sandbox:
            return sandbox

        try:
            (linter,), missing = find_linters(confined, {"PATH": PATH}, given, [row])
            assert not missing
            return await found(linter)
        finally:
            await sandbox.close()

    async def found(linter: ProjectLinter) -> tuple[list[str], list[int]]:
        changed = ChangedFile(file, before.encode() if before is not None else None, after.encode())
        new = await new_findings(linter, changed)
        return [each.rule for each in new], [each.line for each in new]

    return asyncio.run(main())


@pytest.mark.skipif(not shutil.which("clang-tidy") and "CI" not in os.environ, reason="no clang-tidy here")
def test_clang_tidy_tells_what_is_new_in_a_text_that_is_not_on_the_disk(tmp_path: Path) -> None:
    (tmp_path / ".clang-tidy").write_text("Checks: '-*,bugprone-*'\n", encoding="utf-8")
    (tmp_path / "compile_flags.txt").write_text("-Wall\n", encoding="utf-8")
    before = "int f(int a) {\n  if (a);\n  return 1;\n}\n"
    after = before + "int g(int a) {\n  if (a);\n    return 2;\n  return 0;\n}\n"
    rules, lines = looked_at(tmp_path, ROWS["clang-tidy"], 'od"d name.c', before, after)
    assert (rules, lines) == (["bugprone-suspicious-semicolon"], [6])
    assert looked_at(tmp_path, ROWS["clang-tidy"], "a.c", before, before + "\n") == ([], [])


@needs(MODULES / "@biomejs/biome")
def test_biome_tells_that_a_change_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "biome.json").write_text("{}", encoding="utf-8")
    row, good = ROWS["biome format"], "const x = 1;\n"
    assert looked_at(tmp_path, row, "a.js", good, "const  x = 1\n") == (["biome format"], [0])
    assert looked_at(tmp_path, row, "a.js", good, "const y = 1;\n") == ([], [])
    (tmp_path / "biome.json").write_text('{"formatter": {"enabled": false}}', encoding="utf-8")
    assert looked_at(tmp_path, row, "a.js", good, "const  x = 1\n") == ([], [])


def test_a_linter_is_not_run_beside_a_server_that_tells_the_same() -> None:
    names = [row.name for row in linter_rows(ChecksSettings())]
    assert "ruff" not in names
    assert "clang-tidy" in names
    assert ROWS["clang-tidy"].served_by == "clangd"


HOSTILE = """\
#!/bin/bash
cat > /dev/null
(echo stolen > stolen) 2>/dev/null
(exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null && touch reached 2>/dev/null
[ -e stolen ] && echo "it wrote" >&2
(exec 3<>/dev/tcp/127.0.0.1/PORT) 2>/dev/null && echo "it reached the network" >&2
echo "it ended" >&2
exit 99
"""


def test_no_linter_of_the_table_can_write_or_reach_the_network(tmp_path: Path) -> None:
    """Whatever its settings or plugins make it do: the program itself is hostile here."""
    place, programs = tmp_path / "project", tmp_path / "programs"
    place.mkdir()
    programs.mkdir()

    async def main(port: int) -> dict[str, str]:
        for row in LINTERS:
            text = HOSTILE.replace("PORT", str(port))
            (programs / row.program).write_text(text, encoding="utf-8")
            (programs / row.program).chmod(0o755)
            for mark in [each for each in row.marks if not each.startswith("tool.")][:1]:
                (place / mark).touch()
        (place / "pyproject.toml").write_text("[tool.ruff.format]\n[tool.black]\n", encoding="utf-8")
        path = f"{programs}:/usr/bin:/bin"
        confined = policy(place, home=tmp_path)
        sandbox = await choose(confined, {"PATH": path})

        async def given() -> Sandbox:
            return sandbox

        found, _ = find_linters(confined, {"PATH": path}, given, LINTERS)
        said: dict[str, str] = {}
        for linter in found:
            try:
                said[linter.name] = str(await linter.findings("a.x", b"x\n"))
            except NotChecked as why:
                said[linter.name] = str(why)
        await sandbox.close()
        return said

    with socket.create_server(("127.0.0.1", 0)) as listening:
        said = asyncio.run(main(listening.getsockname()[1]))
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
    assert said.keys() == ROWS.keys()
    assert not (place / "stolen").exists()
    assert {*said.values()} <= {"it ended", "[]"}
