"""A package that a change names is looked up in a local database; without one that is told, and only then."""

from __future__ import annotations

import asyncio
import json
import zipfile
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, NotChecked, new_findings
from mainspring.checks.pins import names_dependencies, pins_in
from mainspring.checks.vulnerabilities import Vulnerabilities, order_of
from tests.checks.test_after_change import configured, notes, write
from tests.stage import staged

PINS = [
    (
        "requirements.txt",
        "# x\nDjango[x]==2.2 ; python_version > '3'\nflask\n",
        [("PyPI", "django", "2.2", 2)],
    ),
    ("requirements/dev.lock", "ruamel_yaml==0.17 \\\n  --hash=x\n", [("PyPI", "ruamel-yaml", "0.17", 1)]),
    ("pyproject.toml", '[project]\ndependencies = ["a>=1.0", "b"]\n', [("PyPI", "a", "1.0", 2)]),
    (
        "package.json",
        '{\n"version": "1.0.0",\n"dependencies": {\n"@x/y": "^1.2.3"\n}}',
        [("npm", "@x/y", "1.2.3", 4)],
    ),
    (
        "package-lock.json",
        '{"packages": {\n"": {"version": "1"},\n"node_modules/a/node_modules/b": {\n"version": "2.0.0"}}}',
        [("npm", "b", "2.0.0", 3)],
    ),
    ("uv.lock", '[[package]]\nname = "A_b"\nversion = "3"\n', [("PyPI", "a-b", "3", 2)]),
    ("Cargo.lock", '[[package]]\nname = "a_b"\nversion = "0.1.0"\n', [("crates.io", "a_b", "0.1.0", 2)]),
    ("go.mod", "module x.test/y\n\nrequire (\n\tx.test/z v1.2.0\n)\n", [("Go", "x.test/z", "1.2.0", 4)]),
]
ENTRY = {
    "id": "GHSA-1",
    "summary": "It lets\nothers in",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "Some_Lib"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "2.0"}, {"fixed": "2.10.1"}]},
                {"type": "GIT", "events": [{"introduced": "0"}]},
            ],
            "versions": ["0.9"],
        }
    ],
}
VERSIONS = [
    ("1.9", False),
    ("2.0", True),
    ("2.9", True),
    ("2.10.1rc1", True),
    ("2.10.1", False),
    ("2.10.1.0", False),
    ("0.9", True),
    ("3.0", False),
]


@pytest.mark.parametrize(("path", "text", "expected"), PINS)
def test_files_name_packages_with_their_versions(
    path: str, text: str, expected: list[tuple[str, str, str, int]]
) -> None:
    assert [tuple(pin) for pin in pins_in(path, text.encode())] == expected
    assert names_dependencies(path)


def found(database: Path | None, before: str | None, after: str) -> list[str]:
    changed = ChangedFile("requirements.txt", before.encode() if before is not None else None, after.encode())
    return [each.rule for each in asyncio.run(new_findings(Vulnerabilities(database), changed))]


@pytest.mark.parametrize("form", ["folder", "file", "lines", "archive"])
def test_a_changed_version_is_told_where_it_is_affected(tmp_path: Path, form: str) -> None:
    other = json.dumps({**ENTRY, "id": "GHSA-2", "withdrawn": "2026-01-01T00:00:00Z"})
    database = tmp_path / {"folder": "osv", "archive": "all.zip"}.get(form, "osv.json")
    if form == "folder":
        database.mkdir()
        (database / "a.json").write_text(json.dumps(ENTRY), encoding="utf-8")
        (database / "b.json").write_text(other, encoding="utf-8")
    elif form == "archive":
        with zipfile.ZipFile(database, "w") as archive:
            archive.writestr("GHSA-1.json", json.dumps(ENTRY))
    else:
        text = f"{json.dumps(ENTRY)}\n{other}\n" if form == "lines" else json.dumps([ENTRY])
        database.write_text(text, encoding="utf-8")
    told = [bool(found(database, "some-lib==1.0\n", f"some-lib=={version}\n")) for version, _ in VERSIONS]
    assert told == [is_affected for _, is_affected in VERSIONS]
    assert found(database, "some_lib==2.5\n", "x==1\nsome_lib==2.5\n") == []  # it stood there


def test_versions_are_ordered() -> None:
    ordered = ["0", "1.0.dev1", "1.0a1", "1.0rc1", "1.0", "1.0.post1", "1.2", "1.10", "v2"]
    assert sorted(ordered, key=order_of) == ordered


def test_what_cannot_be_looked_up_is_told(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    for database in (None, tmp_path / "bad.json", tmp_path / "missing.json"):
        with pytest.raises(NotChecked):
            found(database, None, "some-lib==2.5\n")
    assert found(None, "some-lib==2.5\n", "# only a comment\nsome-lib==2.5\n") == []


def test_a_session_is_told(tmp_path: Path) -> None:
    (tmp_path / "osv.json").write_text(json.dumps(ENTRY), encoding="utf-8")
    stage = staged(tmp_path, {}, write("requirements.txt", "some-lib==2.5\n"), "Done.")
    stage.run("Go", config=configured(tmp_path, vulnerabilities=str(tmp_path / "osv.json")), mode="auto")
    (note,) = notes(stage)
    assert "requirements.txt:1: warning: some-lib 2.5 has a known vulnerability: It lets others in" in note
    without = staged(tmp_path / "without", {}, write("requirements.txt", "some-lib==2.5\n"), "Done.")
    without.run("Go", config=configured(tmp_path / "without"), mode="auto")
    (note,) = notes(without)
    assert "Not checked: requirements.txt by vulnerabilities" in note
