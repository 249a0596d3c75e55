"""Commands in Markdown files: which are found, and what is said for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mainspring.workspace.user_commands import UserCommand, command_line, filled, find_user_commands


def command(text: str) -> UserCommand:
    return UserCommand(name="x", path=Path("x.md"), text=text, whole=text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "arguments", "said"),
    [
        ("Fix $1 in $2.", "it 'a b.py' more", "Fix it in a b.py."),
        ("Fix $ARGUMENTS.", "it 'a b.py'", "Fix it 'a b.py'."),
        ("Fix $1$3.", "it", "Fix it."),
        ("Fix it.", "soon", "Fix it.\n\nsoon"),
        ("Fix it.", "", "Fix it."),
        ("Costs $10 or $ARGUMENTSX", "a", "Costs $10 or $ARGUMENTSX\n\na"),
        ("Say $1", "$2 $ARGUMENTS", "Say $2"),
        ("Say $1", "it's", "Say it's"),
        ("See !`log $1`: $1", "x", "See OUT $1: x"),
        ("See !`unknown`!", "", "See !"),
    ],
)
def test_arguments_and_outputs_stand_where_the_author_wants_them(
    text: str, arguments: str, said: str
) -> None:
    assert filled(command(text), arguments, {"log $1": "OUT $1"}) == said


@pytest.mark.parametrize(
    ("arguments", "line"),
    [("a", "log a"), ("'a; rm b'", "log 'a; rm b'"), ("$(id)", "log '$(id)'"), ("", "log ")],
)
def test_arguments_of_what_is_run_are_words_and_never_code(arguments: str, line: str) -> None:
    assert command_line("log $1", arguments) == line
    assert command_line("log $ARGUMENTS", arguments) == line


def test_files_are_found_by_their_place_and_the_first_of_a_name_counts(tmp_path: Path) -> None:
    mine, project = tmp_path / "mine", tmp_path / "work" / ".claude" / "commands"
    write(mine / "fix.md", "---\ndescription: Mine\nargument-hint: '[file]'\nmodel: fast\n---\nFix.\n")
    write(project / "fix.md", "Other.")
    write(project / "git" / "commit.md", "# Commit all\n\nNow: !`git status`\n")
    write(project / "empty.md", "---\ndescription: x\n---\n")
    write(project / "bad name.md", "x")
    write(project / "huge.md", "x" * 70_000)
    write(tmp_path / "outside.md", "secret")
    (project / "out.md").symlink_to(tmp_path / "outside.md")
    found, broken = find_user_commands({mine: False, project: True}, tmp_path / "work")
    assert list(found) == ["fix", "git:commit"]
    assert (found["fix"].text, found["fix"].hint, found["fix"].model) == ("Fix.\n", "[file]", "fast")
    assert found["git:commit"].description == "Commit all"
    assert found["git:commit"].runs == ("git status",)
    assert found["git:commit"].is_projects
    assert {each.path.name for each in broken} == {
        *("fix.md", "empty.md", "bad name.md", "huge.md", "out.md"),
    }
