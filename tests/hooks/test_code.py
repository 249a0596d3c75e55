"""The files that a hook runs are found however its command is written, or it is said that they are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.hooks.sources import HookFile, HookSource, read_sources


def read(workspace: Path, command: str, event: str = "PreToolUse") -> HookFile:
    for name in ("tools/guard.py", "tools/guard.sh", "data"):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("exit 2")
    (workspace / "hooks.json").write_text(
        json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}})
    )
    (file,) = read_sources([HookSource(path=workspace / "hooks.json", label="x")], workspace)
    return file


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 tools/guard.py", "tools/guard.py"),
        ("python3 tools/guard.py; exit $?", "tools/guard.py"),
        ("tools/guard.sh|tee log", "tools/guard.sh"),
        ("cd tools && ./guard.sh", "tools/guard.sh"),
        ("python3 -m tools.guard", "tools/guard.py"),
        ('"$(git rev-parse --show-toplevel)/tools/guard.py"', "tools/guard.py"),
        ('exec <&0;"$CLAUDE_PROJECT_DIR"/tools/guard.sh;', "tools/guard.sh"),
        ("bash -c 'tools/guard.sh'", "tools/guard.sh"),
        ("bash < tools/guard.sh", "tools/guard.sh"),
        ("uv run --with x tools/guard.py data", "tools/guard.py"),
    ],
)
def test_a_guard_that_was_rewritten_is_not_run(tmp_path: Path, command: str, name: str) -> None:
    file = read(tmp_path, command)
    assert file.subject
    assert name in file.subject.text
    (hook,) = file.hooks
    assert not hook.unknown
    assert not hook.why_changed(tmp_path)
    (tmp_path / "data").write_text("other")
    assert not hook.why_changed(tmp_path)
    (tmp_path / name).write_text("exit 0")
    assert name in hook.why_changed(tmp_path)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 -m tools.guard", "tools/__init__.py"),
        ("python3 -m json.tool", "json/tool.py"),
        ("make guard", "Makefile"),
    ],
)
def test_a_file_that_would_run_instead_is_noticed(tmp_path: Path, command: str, name: str) -> None:
    file = read(tmp_path, command)
    assert file.subject
    assert name not in file.subject.text
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    assert name in file.hooks[0].why_changed(tmp_path)


def test_files_of_tasks_count_for_guards_only(tmp_path: Path) -> None:
    """An agent that adds a package must not end what formats its files."""
    assert not read(tmp_path, "npm run format", "PostToolUse").hooks[0].code


@pytest.mark.parametrize(
    "command",
    [
        'python3 "$X/guard.py"',
        "for f in tools/*.sh; do bash $f; done",
        "PATH=tools:$PATH guard.sh",
        "cd .. && ./x.sh",
    ],
)
def test_whoever_approves_is_told_that_a_file_cannot_be_known(tmp_path: Path, command: str) -> None:
    file = read(tmp_path, command)
    assert file.subject
    assert "unnoticed" in file.subject.text
    assert "unnoticed" not in (read(tmp_path, "jq -e '.x == 1' >/dev/null").subject or file.subject).text
