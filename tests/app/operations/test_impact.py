"""What a change reaches: public API with its hint, callers, importers and tests, read and never run."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainspring.app.operations.impact import look_at_impact
from mainspring.errors import MainspringError
from mainspring.settings import Config, load_config
from mainspring.workspace.impact import Impact, facts_of, impact_of

CALC = """\
def add(first, second=0):
    return first + second

def gone():
    pass

def _own():
    pass

class Shop:
    def total(self, prices):
        return sum(prices)
"""
FILES = {
    "src/shop/__init__.py": "from .calc import add\n",
    "src/shop/calc.py": CALC,
    "src/shop/desk.py": "from shop import calc\n\nprint(calc.add(1, 2))\n",
    "src/shop/far.py": "from . import desk\n",
    "src/shop/alone.py": "add = 1\n",
    "tests/test_desk.py": "import shop.desk\n",
    "tests/test_alone.py": "import shop.alone\n",
}


def config_of(folder: Path) -> Config:
    return load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": os.environ["PATH"]})


def look(config: Config, root: Path, paths: Sequence[str] = (), since: str = "") -> Impact:
    return asyncio.run(look_at_impact(config, root, paths, since))


def test_no_file_is_read_when_nothing_of_its_language_changed(tmp_path: Path) -> None:
    root, config = repository(tmp_path), config_of(tmp_path)
    assert look(config, root).changed == ()
    (root / "more.txt").write_text("x\n", encoding="utf-8")
    assert look(config, root).changed == ()
    assert not (config.home / "impact").exists()
    (root / "src/shop/alone.py").write_text("add = 2\n", encoding="utf-8")
    assert look(config, root).changed == ("src/shop/alone.py",)


def repository(folder: Path, files: dict[str, str] = FILES) -> Path:
    root = folder / "work"
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


def test_a_removed_function_is_found_with_all_that_it_reaches(tmp_path: Path) -> None:
    root = repository(tmp_path)
    changed = CALC.replace("def gone():\n    pass\n\n", "").replace("+ second", "- second")
    (root / "src/shop/calc.py").write_text(changed, encoding="utf-8")
    (root / "web.swift").write_text("x\n", encoding="utf-8")
    found = look(config_of(tmp_path), root)
    assert found.changed == ("src/shop/calc.py",)
    assert [(each.name, each.change, each.semver) for each in found.api] == [("gone", "removed", "major")]
    assert [(each.path, each.line, each.name) for each in found.callers] == [
        ("src/shop/__init__.py", 1, "add"),
        ("src/shop/desk.py", 3, "add"),
    ]
    assert found.importers == ("src/shop/__init__.py", "src/shop/desk.py")
    assert found.tests == ("tests/test_desk.py",)
    assert found.semver == "major"
    assert found.not_read == ("web.swift: no grammar reads its API",)


def test_named_files_are_looked_at_although_they_did_not_change(tmp_path: Path) -> None:
    root = repository(tmp_path)
    config = config_of(tmp_path)
    found = look(config, root / "src", ["shop/calc.py"])
    assert (found.api, found.semver) == ((), "patch")
    assert ("src/shop/desk.py", "add") in [(each.path, each.name) for each in found.callers]
    assert look(config, root) == Impact(changed=())
    with pytest.raises(MainspringError):
        look(config, root, ["../elsewhere.py"])


def test_what_is_no_file_and_no_commit_is_told_as_such(tmp_path: Path) -> None:
    root, config = repository(tmp_path), config_of(tmp_path)
    with pytest.raises(MainspringError, match=r"nope\.py is no file"):
        look(config, root, ["nope.py"])
    with pytest.raises(MainspringError, match="'nope' is no commit"):
        look(config, root, since="nope")
    (root / "src/shop/calc.py").unlink()
    assert look(config, root, ["src/shop/calc.py"]).changed == ("src/shop/calc.py",)


def test_a_folder_stands_for_the_files_below_it(tmp_path: Path) -> None:
    found = look(config_of(tmp_path), repository(tmp_path), ["tests"])
    assert found.changed == ("tests/test_alone.py", "tests/test_desk.py")


def test_what_is_compared_with_can_be_chosen(tmp_path: Path) -> None:
    root = repository(tmp_path)
    with pytest.raises(MainspringError):
        look(config_of(tmp_path), root, since="nowhere")
    with pytest.raises(MainspringError):
        look(config_of(tmp_path), root, since="--output=x")
    with pytest.raises(MainspringError):
        look(config_of(tmp_path), tmp_path)
    (root / "src/shop/alone.py").unlink()
    found = look(config_of(tmp_path), root, since="HEAD")
    assert (found.changed, found.tests) == (("src/shop/alone.py",), ("tests/test_alone.py",))


def test_what_is_no_plain_file_of_the_repository_is_left_out(tmp_path: Path) -> None:
    root = repository(tmp_path)
    (tmp_path / "outside.py").write_text("import shop.calc\n", encoding="utf-8")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    os.mkfifo(root / "pipe.py")
    (root / "deep.py").write_text("(" * 100_000, encoding="utf-8")
    found = look(config_of(tmp_path), root, ["src/shop/calc.py", "deep.py"])
    assert "link.py" not in found.importers
    assert found.not_read == ("deep.py: it cannot be read as Python",)


def test_a_second_look_reads_only_what_changed(tmp_path: Path) -> None:
    root, config = repository(tmp_path), config_of(tmp_path)
    first = look(config, root, ["src/shop/calc.py"])
    (kept,) = (tmp_path / "home" / "impact").iterdir()
    written = kept.stat().st_mtime_ns
    assert look(config, root, ["src/shop/calc.py"]) == first
    assert kept.stat().st_mtime_ns == written
    (root / "src/shop/far.py").write_text("import shop.calc\n", encoding="utf-8")
    assert "src/shop/far.py" in look(config, root, ["src/shop/calc.py"]).importers


@pytest.mark.parametrize(
    ("after", "why", "semver"),
    [
        ("def f(a, b=1): return 2", None, "patch"),
        ("def f(a, b=1, c=2): ...", "parameter c is new", "minor"),
        ("def f(a, b=1, *, c): ...", "parameter c is required", "major"),
        ("def f(a): ...", "parameter b is gone", "major"),
        ("def f(a, b): ...", "parameter b has no default any more", "major"),
        ("def f(a, *, b=1): ...", "parameter b is keyword now", "major"),
        ("def f(b=1, a=2): ...", "its parameters stand in another order", "major"),
        ("async def f(a, b=1): ...", "function, now async function", "major"),
        ("class f: ...", "function, now class", "major"),
    ],
)
def test_the_hint_follows_from_what_callers_have_to_change(after: str, why: str | None, semver: str) -> None:
    before, now = facts_of("a.py", "def f(a, b=1): ..."), facts_of("a.py", after)
    found = impact_of({"a.py": ()}, {"a.py": now}, {"a.py": before})
    assert [each.why for each in found.api] == ([why] if why else [])
    assert found.semver == semver
