"""The pages under docs/: what they show works, what is made from the code is up to date, every link leads somewhere."""

from __future__ import annotations

import ast
import html
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Annotated

import click
import msgspec
import pytest

from mainspring.agents.task_files import read_tasks
from mainspring.app.team_rules import check_calls
from mainspring.approvals.rules import parse
from mainspring.cli.commands import mainspring
from mainspring.goals.profiles import load_profile
from mainspring.people.team import parse_team
from mainspring.settings import load_config

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
READ_IN_CODE = re.compile(r"""(?:variable|environment\.get)\(\s*"([A-Z][A-Z_]+)\"""")


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


docs = load_script("docs")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchor(heading: str) -> str:
    """As the table of contents of Markdown and GitHub name it, for headings of plain words."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {
        anchor(found)
        for found in re.findall(r"^#+ (.*)$", without_code(page.read_text("utf-8")), re.MULTILINE)
    }


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, name = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_file() or (name and name not in anchors(target)):
            broken.append(link)
    return broken


def examples(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that is meant, and the words after its name."""
    command: click.Command = mainspring
    context = click.Context(mainspring)
    general = {option for each in mainspring.params for option in each.opts}
    while words and words[0] in general:
        words = words[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def commands(page: Path) -> list[list[str]]:
    text = "".join(examples(page, "console")).replace("\\\n", " ")
    lines = re.findall(r"(?:^\$|&&) (?:\S*/)?mainspring +(.*?)(?= && |$)", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A title\n")
    page = tmp_path / "page.md"
    page.write_text("[a](there.md#a-title) [b](gone.md) [c](there.md#gone) [d](https://example.org/)\n")
    assert broken_links(page) == ["gone.md", "there.md#gone"]


def test_every_page_is_in_the_navigation_and_reached_from_the_readme() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, f"mkdocs.yml does not name {page.name}"
        assert page.name == "index.md" or f"(docs/{page.name})" in readme, (
            f"README.md does not name {page.name}"
        )


@pytest.mark.parametrize("name", ["index.md", "configuration.md", "api.md"])
def test_pages_made_from_the_code_are_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / name).read_text("utf-8")
    assert written == docs.pages()[name], f"docs/{name} is not what the code says: run `make docs-pages`"


def test_a_key_without_a_description_is_refused() -> None:
    class Undocumented(msgspec.Struct):
        known: int = 1
        """It has one."""
        bare: Annotated[int, msgspec.Meta(ge=1)] = 2

    with pytest.raises(SystemExit, match=r"Undocumented\.bare has no description"):
        list(docs.tables(Undocumented))


def test_every_variable_that_the_code_reads_is_on_the_page() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    read = {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in READ_IN_CODE.findall(path.read_text("utf-8"))
    }
    assert {"MAINSPRING_MODEL", "TZ"} <= read
    assert not [name for name in sorted(read) if f"`{name}`" not in page]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    for words in commands(page):
        command, rest = resolve(words)
        assert command is not mainspring or not words, f"{page.name}: there is no command {words}"
        if "--" in rest:
            rest = rest[: rest.index("--")]
        known = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
        unknown = [word for word in rest if re.match(r"--?\w", word) and word.partition("=")[0] not in known]
        assert not unknown, f"{page.name}: {' '.join(words)} has no option {unknown}"


def test_the_pages_show_commands_to_check() -> None:
    assert sum(len(commands(page)) for page in PAGES) > 40


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_on_a_page_are_taken(page: Path, tmp_path: Path) -> None:
    for number, text in enumerate(examples(page, "toml")):
        found = tomllib.loads(text)
        if "serial" in found:
            check_calls(parse_team(text, page.name))
        elif "rule" in found:
            assert parse(text).rules
        elif "task" in found:
            (tmp_path / "tasks.toml").write_text(text)
            assert read_tasks(tmp_path / "tasks.toml")
        elif "prompt" in found:
            (tmp_path / "profiles").mkdir(exist_ok=True)
            (tmp_path / "profiles" / "mine.toml").write_text(text)
            assert load_profile("mine", tmp_path).prompt
        else:
            home = tmp_path / str(number)
            home.mkdir()
            (home / "config.toml").write_text(text)
            load_config({"MAINSPRING_HOME": str(home)})


def in_substance(lines: list[str]) -> list[str]:
    """Without figures that change with a prompt, and without the sandbox of the machine."""
    text = html.unescape("\n".join(line.strip() for line in lines if line.strip()))
    text = re.sub(r"(events?) [\d, ]*\d", r"\1 N", re.sub(r"[\d,]+ tokens, \$[\d.]+", "TOKENS", text))
    return re.sub(r"· sandbox \w+", "· sandbox NAME", text).split("\n")


@pytest.mark.parametrize("name", ["run", "report"])
def test_pictures_show_what_the_program_prints(name: str) -> None:
    pictures = load_script("pictures")
    lines = pictures.run_lines() if name == "run" else pictures.report_lines()
    drawn = pictures.text_of((ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8"))
    now = pictures.text_of(pictures.draw(lines, pictures.DARK, title=""))
    assert in_substance(drawn) == in_substance(now), "run `make pictures`"


def source_of(place: str) -> str:
    """The source of `file.py:Class.function`; empty when there is none."""
    file, _, name = place.partition(":")
    text = (ROOT / "src" / "mainspring" / file).read_text("utf-8")
    node: ast.AST | None = ast.parse(text)
    for part in name.split("."):
        inside = ast.iter_child_nodes(node) if node else ()
        node = next((each for each in inside if getattr(each, "name", "") == part), None)
    return (ast.get_source_segment(text, node) or "") if node else ""


def test_the_walk_of_a_message_follows_the_code() -> None:
    design = (ROOT / "docs" / "design.md").read_text("utf-8")
    hops = re.findall(r"^\| (\d+) \| `([^`]+)` \| `([^`]+)` \|", design, re.MULTILINE)
    assert 10 < len(hops) <= 20
    for number, place, called in hops:
        assert re.search(rf"\b{re.escape(called)}\(", source_of(place)), (
            f"hop {number}: {place} has no {called}("
        )


def test_every_test_that_the_security_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 20
    for file, test in named:
        assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file}::{test}"
