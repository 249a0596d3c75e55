"""Instructions, skills and project facts, as they lie in real folders."""

from pathlib import Path

import pytest

from mainspring.workspace.instructions import (
    MAX_BYTES,
    NestedInstructions,
    find_instructions,
    repository_root,
)
from mainspring.workspace.project import look_at
from mainspring.workspace.skills import Broken, Skill, find_skills, frontmatter, read_skill


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_instructions_come_from_the_user_then_from_the_root_down_to_the_workspace(tmp_path):
    user, root = tmp_path / "user", tmp_path / "repo"
    put(user / "AGENTS.md", "mine")
    put(root / ".git/HEAD", "")
    put(root / "AGENTS.md", "root")
    put(root / "packages/CLAUDE.md", "packages")
    put(root / "packages/one/AGENTS.md", "one")
    put(root / "packages/one/src/AGENTS.md", "deeper")
    put(tmp_path / "AGENTS.md", "outside")
    found = find_instructions(root / "packages/one", user)
    assert [item.text for item in found] == ["mine", "root", "packages", "one"]
    assert repository_root(root / "packages/one") == root
    assert repository_root(tmp_path / "user") == tmp_path / "user"


@pytest.mark.parametrize("name", ["pyproject.toml", "package.json"])
def test_a_project_file_that_is_nested_too_deeply_tells_its_language_alone(tmp_path: Path, name: str) -> None:
    deep = "[" * 5000 + "]" * 5000
    put(tmp_path / name, f"a = {deep}" if name == "pyproject.toml" else f'{{"a": {deep}}}')
    assert look_at(tmp_path).languages == (("Python",) if name == "pyproject.toml" else ("JavaScript",))


@pytest.mark.parametrize(
    ("names", "read"),
    [
        (("AGENTS.md", "CLAUDE.md", "GEMINI.md"), "AGENTS.md"),
        (("CLAUDE.md", "GEMINI.md"), "CLAUDE.md"),
        (("GEMINI.md",), "GEMINI.md"),
        ((), None),
    ],
)
def test_other_agents_files_are_read_where_ours_is_absent(tmp_path, names, read):
    for name in names:
        put(tmp_path / name, name)
    assert [item.text for item in find_instructions(tmp_path, tmp_path / "none")] == ([read] if read else [])


def test_long_instructions_are_cut_and_empty_or_foreign_ones_left_out(tmp_path):
    put(tmp_path / "repo/AGENTS.md", "x" * (MAX_BYTES + 1))
    [found] = find_instructions(tmp_path / "repo", tmp_path / "none")
    assert (len(found.text), found.is_cut) == (MAX_BYTES, True)
    put(tmp_path / "empty/AGENTS.md", " \n")
    assert find_instructions(tmp_path / "empty", tmp_path / "none") == []
    put(tmp_path / "secret", "password")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/AGENTS.md").symlink_to(tmp_path / "secret")
    [linked] = find_instructions(tmp_path / "linked", tmp_path / "none")
    assert (linked.text, "leads out" in linked.problem) == ("", True)


def test_nested_instructions_are_found_by_the_files_under_them(tmp_path):
    put(tmp_path / "AGENTS.md", "top")
    put(tmp_path / "a/AGENTS.md", "a")
    put(tmp_path / "a/b/c/GEMINI.md", "c")
    nested = NestedInstructions(tmp_path)
    assert [item.text for item in nested.for_file("a/b/c/d/file.py")] == ["a", "c"]
    assert [item.text for item in nested.for_file(str(tmp_path / "a/file.py"))] == ["a"]
    for nothing in ("file.py", "../x/file.py", "/etc/passwd", "event:12", "a\0b/c"):
        assert nested.for_file(nothing) == []


def skill(folder: Path, head: str, body: str = "Do it.") -> Path:
    return put(folder / "SKILL.md", f"---\n{head}\n---\n{body}\n")


def test_skills_are_found_with_name_and_description(tmp_path):
    skill(tmp_path / "skills/group/tables", "name: tables\ndescription: Reads tables.")
    skill(tmp_path / "skills/plots", "name: plots\ndescription: >-\n  Draws plots,\n  in SVG.\nlicense: MIT")
    skill(tmp_path / "user/plots", "name: plots\ndescription: Another.")
    put(tmp_path / "skills/tables-old/readme.md", "nothing")
    found, broken = find_skills(tmp_path / "skills", tmp_path / "user", tmp_path / "none")
    assert [(item.name, item.description) for item in found] == [
        ("plots", "Draws plots, in SVG."),
        ("tables", "Reads tables."),
    ]
    assert [item.problem for item in broken] == ["there is another skill named plots"]


@pytest.mark.parametrize(
    ("folder", "head", "problem"),
    [
        ("a", "description: No name.", "needs a name"),
        ("a", "name: a", "needs a name and a description"),
        ("Big", "name: Big\ndescription: x", "lower-case"),
        ("a--b", "name: a--b\ndescription: x", "single hyphens"),
        ("-a", "name: -a\ndescription: x", "single hyphens"),
        ("a_b", "name: a_b\ndescription: x", "lower-case"),
        ("a" * 65, f"name: {'a' * 65}\ndescription: x", "at most 64"),
        ("a", f"name: a\ndescription: {'x' * 1025}", "1024"),
        ("other", "name: a\ndescription: x", "folder is named other"),
    ],
)
def test_a_skill_that_breaks_the_format_says_how(tmp_path, folder, head, problem):
    found = read_skill(skill(tmp_path / folder, head))
    assert isinstance(found, Broken)
    assert problem in found.problem


def test_a_head_is_read_as_its_author_meant_it():
    text = (
        "---\nname: 'it''s'\ndescription: \"a \\\"b\\\"\"\nmetadata:\n  author: me\n  version: '1'\n"
        "allowed-tools: Read Grep # all\nblock: |\n  one\n\n  two\n---\nbody"
    )
    head = frontmatter(text)
    assert head is not None
    assert (head["name"], head["description"]) == ("it's", 'a "b"')
    assert head["allowed-tools"] == "Read Grep"
    assert head["block"] == "one two"
    assert frontmatter("no head") is None
    assert frontmatter("---\nname: open") is None


def test_our_head_reader_agrees_with_the_validator_of_the_specification(tmp_path):
    validator = pytest.importorskip("skills_ref")
    for folder, head in {
        "fine": "name: fine\ndescription: Does it well, when asked.",
        "folded": "name: folded\ndescription: >\n  Long\n  text.",
        "Bad": "name: Bad\ndescription: x",
        "a--b": "name: a--b\ndescription: x",
        "nothing": "name: nothing",
    }.items():
        path = skill(tmp_path / folder, head)
        assert isinstance(read_skill(path), Skill) == (validator.validate(path.parent) == [])


@pytest.mark.parametrize(
    ("files", "languages", "test"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ("Python",), "pytest"),
        ({"pyproject.toml": "[project]\nname='x'\n"}, ("Python",), "python3 -m unittest"),
        ({"pyproject.toml": "not toml ["}, ("Python",), ""),
        (
            {"package.json": '{"scripts": {"test": "jest"}}', "tsconfig.json": ""},
            ("JavaScript", "TypeScript"),
            "npm test",
        ),
        ({"package.json": "{"}, ("JavaScript",), ""),
        ({"Cargo.toml": "", "Makefile": "all:\n\ttrue\ntest: all\n"}, ("Rust",), "make test"),
        ({"go.mod": "module x"}, ("Go",), "go test ./..."),
        ({"README.md": ""}, (), ""),
    ],
)
def test_a_project_is_known_by_its_marks(tmp_path, files, languages, test):
    for name, text in files.items():
        put(tmp_path / name, text)
    found = look_at(tmp_path)
    assert (found.languages, found.test) == (languages, test)


def test_our_own_skills_are_valid():
    validator = pytest.importorskip("skills_ref")
    shelf = Path(__file__).parents[2] / ".agents" / "skills"
    folders = [path.parent for path in shelf.rglob("SKILL.md")]
    assert folders
    for folder in folders:
        assert validator.validate(folder) == []
        assert isinstance(read_skill(folder / "SKILL.md"), Skill)
