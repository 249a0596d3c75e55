"""Instructions for outside engines never overwrite anybody's words."""

import os

from mainspring.goals.instructions import BEGIN, END, write_instructions
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy


def files_in(folder):
    return Files(policy(folder, home=folder / "home", data=folder / "data"))


def test_absent_files_are_written_and_point_to_one_place(tmp_path):
    assert write_instructions(files_in(tmp_path), "Be careful.") == []
    assert (tmp_path / "AGENTS.md").read_text() == f"{BEGIN}\nBe careful.\n{END}\n"
    assert "AGENTS.md" in (tmp_path / "CLAUDE.md").read_text()
    assert "AGENTS.md" in (tmp_path / "GEMINI.md").read_text()


def test_what_a_person_wrote_stays_as_it_is(tmp_path):
    (tmp_path / "AGENTS.md").write_text("mine")
    (tmp_path / "CLAUDE.md").write_text(f"before\n{BEGIN}stale{END}\nafter")
    write_instructions(files_in(tmp_path), "new")
    assert (tmp_path / "AGENTS.md").read_text() == "mine"
    text = (tmp_path / "CLAUDE.md").read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter")
    assert "stale" not in text


def test_a_second_time_changes_nothing(tmp_path):
    write_instructions(files_in(tmp_path), "x")
    before = os.stat(tmp_path / "AGENTS.md")
    write_instructions(files_in(tmp_path), "x")
    after = os.stat(tmp_path / "AGENTS.md")
    assert (after.st_mtime_ns, after.st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_file_that_cannot_be_used_is_named_and_left_alone(tmp_path):
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\xfe")
    (tmp_path / "CLAUDE.md").mkdir()
    problems = write_instructions(files_in(tmp_path), "x")
    assert [problem.split()[0] for problem in problems] == ["AGENTS.md", "CLAUDE.md"]
    assert (tmp_path / "AGENTS.md").read_bytes() == b"\xff\xfe"
