"""What the skills for working on this project say is true of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SKILLS = sorted((ROOT / ".agents" / "skills").glob("*/SKILL.md"))


@pytest.mark.parametrize("skill", SKILLS, ids=lambda skill: skill.parent.name)
def test_every_path_that_a_skill_names_exists(skill: Path) -> None:
    named = re.findall(r"(?:src|docs|tests)/[\w./-]*\w", skill.read_text(encoding="utf-8"))
    assert named
    missing = [path for path in named if not (ROOT / path).exists()]
    assert not missing, f"{skill.relative_to(ROOT)} names {missing}"


def test_the_skill_about_events_names_what_is_in_the_files_that_it_names() -> None:
    text = (ROOT / ".agents/skills/adding-an-event/SKILL.md").read_text(encoding="utf-8")
    for name, path in (
        ("STORED", "src/mainspring/events/__init__.py"),
        ("LINES", "src/mainspring/documents/lines.py"),
        ("_nothing", "src/mainspring/documents/lines.py"),
        ("GOAL_LINES", "src/mainspring/documents/goal_lines.py"),
        ("expanded", "src/mainspring/secrets/redaction.py"),
        ("_LIGHT", "src/mainspring/folds/state.py"),
    ):
        assert f"`{name}`" in text
        assert re.search(rf"^(def )?{name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE), (
            name,
            path,
        )
