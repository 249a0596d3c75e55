"""Which kinds of projects bring which skills of ours, and who replaces them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

import mainspring
from mainspring.app.prompt import skills_of
from mainspring.models import Request
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply
from mainspring.settings import load_config
from mainspring.workspace.kinds import SHELF, kinds_of, skills_for

CASES: list[tuple[dict[str, str], list[str]]] = [
    ({}, []),
    ({"notes.txt": "react fastapi"}, []),
    ({"pyproject.toml": "[project]\ndependencies = []"}, ["python"]),
    ({"requirements.txt": "FastAPI==1\nSQLAlchemy\npyjwt\n"}, ["api", "database", "python", "security"]),
    (
        {"package.json": '{"dependencies": {"react": "19"}}', "tsconfig.json": "{}"},
        ["front-end", "typescript"],
    ),
    ({"package.json": '{"dependencies": {"reactive-lib": "1"}}'}, []),
    ({"index.html": "<p>"}, ["front-end"]),
    ({"openapi.yaml": "", "tests/a": ""}, ["api", "testing"]),
    ({"migrations/1.sql": ""}, ["database"]),
    ({"auth/login.go": ""}, ["security"]),
]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("files", "kinds"), CASES, ids=lambda case: " ".join(case) or "nothing")
def test_files_and_dependencies_tell_the_kind(
    tmp_path: Path, files: dict[str, str], kinds: list[str]
) -> None:
    assert kinds_of(write(tmp_path, files)) == kinds
    assert [skill.name for skill in skills_for(tmp_path)] == kinds


def test_every_kind_has_a_short_skill() -> None:
    for folder in SHELF.iterdir():
        assert len((folder / "SKILL.md").read_text()) < 1600, folder.name
    assert len(list(SHELF.iterdir())) == 7


def test_what_is_no_ordinary_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "package.json")
    assert kinds_of(tmp_path) == []
    assert kinds_of(tmp_path / "missing") == []


@pytest.mark.parametrize(
    "place", ["home/skills", "work/.claude/skills", "work/.mainspring/skills", "work/skills"]
)
def test_a_skill_of_the_user_or_the_project_replaces_ours(tmp_path: Path, place: str) -> None:
    work = write(tmp_path / "work", {"pyproject.toml": "", "tests/test_a.py": ""})
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    own = write(
        tmp_path, {f"{place}/python/SKILL.md": "---\nname: python\ndescription: Our way.\n---\nDo it so."}
    )
    skills, broken = skills_of(work, config)
    assert [(each.name, each.is_ours) for each in skills] == [("python", False), ("testing", True)]
    assert skills[0].path == own / place / "python" / "SKILL.md"
    assert broken == []


def test_ours_are_listed_in_the_first_message_by_name_only_and_can_be_read(tmp_path: Path) -> None:
    work = write(tmp_path / "work", {"pyproject.toml": "", "tests/test_a.py": ""})
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    requests: list[Request] = []

    def ask(**options: object) -> str:
        script = Script(replies=(ScriptedReply(text="done"),))
        model = ScriptedModel(script, on_request=requests.append)
        mainspring.run("x", work, model=model, config=config, **options)  # pyright: ignore[reportArgumentType]
        return bytes(requests[-1].messages[0]).decode()

    first = ask()
    assert f"{SHELF}/NAME/SKILL.md: python, testing" in first
    assert "Find the interpreter" not in first
    assert str(SHELF) not in requests[-1].system
    assert str(SHELF) not in ask(profile="small")
    work_settings = msgspec.structs.replace(config.settings.work, kind_skills=False)
    settings = msgspec.structs.replace(config.settings, work=work_settings)
    config = msgspec.structs.replace(config, settings=settings)
    assert str(SHELF) not in ask()
