"""What a task names is shown before the first request: found in any language, bounded, on record, and seen."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.context.work import WorkSettings
from mainspring.errors import NoCredit
from mainspring.events import PRIMING_SOURCE, CallEnded, NoteAdded, TurnEnded
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import Confinement
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call
from mainspring.tools.primer import Primed, find_named, show_found
from tests.stage import staged

CALC = "def add(first, second):\n    return first - second\n"


def primed(folder: Path, **work: Any) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home")})
    settings = msgspec.structs.replace(config.settings, work=WorkSettings(**work))
    return msgspec.structs.replace(config, settings=settings)


def notes(stage: Stage) -> list[NoteAdded]:
    return [note for note in stage.events(NoteAdded) if note.source == PRIMING_SOURCE]


def prime_task(files: Files, task: str, *, tokens: int) -> Primed:
    return show_found(files, find_named(files, task), tokens=tokens)


def shown(folder: Path, task: str, files: dict[str, str], *, tokens: int = 1500) -> set[str]:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    found = prime_task(Files(Confinement(workspace=folder)), task, tokens=tokens)
    return {item.path for item in found.files}


PROJECT = {
    "calc.py": CALC,
    "src/shop/basket.py": "class Basket:\n    def total_price(self):\n        return 0\n",
    "src/shop/__init__.py": "",
    "web/app.js": "export function sortItems(items) { return items }\n",
    "docs/übersicht.md": "# Übersicht\n",
    "数据/价格 表.csv": "a,b\n1,2\n",
    "notes.txt": "total_price is mentioned here only\n",
}


@pytest.mark.parametrize(
    ("task", "files"),
    [
        ("Fix calc.py", {"calc.py"}),
        ("Bitte repariere calc.py, es zählt falsch.", {"calc.py"}),
        ("请修复calc.py中的错误", {"calc.py"}),
        ("basket.py:2 ist falsch", {"src/shop/basket.py"}),
        ("shop.basket 有问题", {"src/shop/basket.py"}),
        ("`total_price` gibt immer 0 zurück", {"src/shop/basket.py"}),
        ("函数total_price总是返回零", {"src/shop/basket.py"}),
        ("calc.add gibt die Differenz", {"calc.py"}),
        ("sortItems() sortiert nicht", {"web/app.js"}),
        ("Ergänze docs/übersicht.md", {"docs/übersicht.md"}),
        ("把价格 表.csv转换成JSON", {"数据/价格 表.csv"}),
        ('Traceback:\n  File "/srv/shop/basket.py", line 3, in total_price', {"src/shop/basket.py"}),
        ("TypeError: x\n    at sortItems (/home/me/web/app.js:1:8)", {"web/app.js"}),
        ("What is two and two?", set()),
        ("Lies /etc/hostname und ../calc.py.bak", set()),
    ],
)
def test_what_a_task_names_is_found_in_any_language(tmp_path: Path, task: str, files: set[str]) -> None:
    assert shown(tmp_path, task, PROJECT) == files


def test_a_name_that_several_files_have_is_not_guessed(tmp_path: Path) -> None:
    files = {"a/tool.py": "def go(): ...\n", "b/tool.py": "def go(): ...\n"}
    assert shown(tmp_path, "Fix tool.py and `go`", files) == set()
    assert shown(tmp_path, "Fix b/tool.py", files) == {"b/tool.py"}


def test_the_budget_holds_and_a_long_file_is_shown_where_it_matters(tmp_path: Path) -> None:
    long = "".join(f"value_{number} = {number}\n" for number in range(3000))
    files = {"long.py": f"{long}def wanted_one():\n    return 42\n{long}", "wide.json": "x" * 50_000}
    for path, text in files.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    found = prime_task(
        Files(Confinement(workspace=tmp_path)), "Fix `wanted_one` in long.py; see wide.json", tokens=400
    )
    assert len(found.text.encode()) <= 400 * 3.6
    assert "return 42" in found.text
    assert not found.whole
    (item,) = found.files
    assert item.first_line <= 3001 <= item.last_line


def test_the_tree_is_shown_of_a_small_project_alone(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("", encoding="utf-8")
    assert "one.py" in prime_task(Files(Confinement(workspace=tmp_path)), "hello", tokens=1500).text
    for number in range(60):
        (tmp_path / f"file{number}.py").write_text("", encoding="utf-8")
    assert prime_task(Files(Confinement(workspace=tmp_path)), "hello", tokens=1500).text == ""


def test_a_hidden_file_is_not_shown_however_it_is_named(tmp_path: Path) -> None:
    files = {".env": "TOKEN=hunter2hunter2\n", "calc.py": CALC, "secret/plan.txt": "the plan\n"}
    stage = staged(tmp_path, files, "Done.")
    (tmp_path / "home").mkdir()
    config = primed(tmp_path)
    sandbox = msgspec.structs.replace(config.settings.sandbox, hide=("secret/plan.txt",))
    settings = msgspec.structs.replace(config.settings, sandbox=sandbox)
    config = msgspec.structs.replace(config, settings=settings)
    stage.run("Compare .env, ./.env, secret/plan.txt and calc.py", config=config)
    (note,) = notes(stage)
    assert [item.path for item in note.files] == ["calc.py"]
    assert "hunter2" not in note.text
    assert "the plan" not in note.text
    assert "plan.txt" not in note.text


def test_a_link_out_of_the_workspace_shows_nothing(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("private", encoding="utf-8")
    stage = staged(tmp_path, {"calc.py": CALC}, "Done.")
    (stage.workspace / "inside.txt").symlink_to(tmp_path / "outside.txt")
    stage.run("Look at inside.txt", config=primed(tmp_path))
    assert all("private" not in note.text for note in notes(stage))


def test_a_file_that_was_shown_whole_may_be_written_without_a_read(tmp_path: Path) -> None:
    fixed = CALC.replace("-", "+")
    replies = (tool_call("write", path="calc.py", content=fixed), "Fixed.")
    stage = staged(tmp_path, {"calc.py": CALC}, *replies)
    stage.run("calc.py rechnet falsch", config=primed(tmp_path), mode="edits")
    assert [ended.outcome for ended in stage.events(CallEnded)] == ["ok"]
    assert (stage.workspace / "calc.py").read_text(encoding="utf-8") == fixed
    assert CALC.rstrip() in str(stage.sent(0)[-1]["text"])


def resumed_after_a_failure(stage: Stage, config: Config) -> None:
    """The first request fails for good; another process goes on with the turn."""
    stage.errors[1] = NoCredit("It is down.")
    stage.run("Repariere calc.py", config=config, mode="edits")
    assert stage.events(TurnEnded)[0].ending == "failed"


def test_a_resumed_turn_sends_the_same_bytes_though_the_file_changed(tmp_path: Path) -> None:
    stage, config = staged(tmp_path, {"calc.py": CALC}, "Done."), primed(tmp_path)
    resumed_after_a_failure(stage, config)
    (stage.workspace / "calc.py").write_text("something else\n", encoding="utf-8")
    stage.run(config=config, mode="edits")
    first, second = stage.sent(0), stage.sent(1)
    assert second[: len(first)] == first
    assert len(notes(stage)) == 1
    assert all(item.verdict == "same" for item in stage.replay())


@pytest.mark.parametrize("is_changed", [False, True])
def test_after_resume_a_file_counts_as_seen_if_it_is_unchanged(tmp_path: Path, *, is_changed: bool) -> None:
    replies = (tool_call("write", path="calc.py", content="new = 1\n"), "Done.")
    stage, config = staged(tmp_path, {"calc.py": CALC}, *replies), primed(tmp_path)
    resumed_after_a_failure(stage, config)
    if is_changed:
        (stage.workspace / "calc.py").write_text("something else\n", encoding="utf-8")
    stage.run(config=config, mode="edits")
    assert [ended.outcome for ended in stage.events(CallEnded)] == ["error" if is_changed else "ok"]


def test_each_task_is_primed_once_and_the_tree_comes_with_the_first(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"calc.py": CALC, "other.py": "x = 1\n"}, "One.", "Two.", "Three.")

    async def talk() -> None:
        async with stage.open(config=primed(tmp_path)) as session:
            for task in ("Fix calc.py", "Now other.py", "Thanks"):
                await session.ask(task)

    asyncio.run(talk())
    assert [[item.path for item in note.files] for note in notes(stage)] == [["calc.py"], ["other.py"]]
    assert ["files of the project" in note.text for note in notes(stage)] == [True, False]


def test_a_file_whose_name_is_not_text_ends_no_session(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"calc.py": CALC}, "Done.")
    try:
        (stage.workspace / os.fsdecode(b"\xff.py")).write_text("x = 1\n")
    except OSError:
        pytest.skip("names of files are text here")
    assert stage.run("Fix calc.py", config=primed(tmp_path)).ending == "done"
    assert "files of the project\ncalc.py\n" in notes(stage)[0].text


def test_priming_can_be_switched_off(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"calc.py": CALC}, "Done.")
    stage.run("Fix calc.py", config=primed(tmp_path, priming="off"))
    assert not notes(stage)


def test_a_small_model_is_shown_a_small_project_whole_and_its_task_last(tmp_path: Path) -> None:
    files = {"calc.py": CALC, "other.py": "OTHER = 1\n", "large.txt": "x" * 9000}
    for profile, is_shown in (("small", True), ("standard", False)):
        stage = staged(tmp_path / profile, files, "Done.", "Done.")
        stage.run("Repariere calc.py", config=primed(tmp_path, profile=profile))
        (note,) = notes(stage)
        assert ("OTHER = 1" in note.text) == is_shown
        assert ("Repariere calc.py\n" in note.text and "### calc.py\n```python" in note.text) == is_shown
        assert "xxx" not in note.text


@pytest.mark.parametrize(
    "task", ["Schreib den Namen aus data.csv in `answer.md`.", "把 data.csv 写入 `answer.md`"]
)
def test_a_file_that_a_task_wants_new_is_the_one_that_is_asked_for(tmp_path: Path, task: str) -> None:
    stage = staged(tmp_path, {"data.csv": "a,b\n1,2\n"}, "Done.", "Done.")
    stage.run(task, config=primed(tmp_path, profile="small"))
    (note,) = notes(stage)
    assert "### data.csv\n" in note.text
    assert note.text.rpartition("### ")[2].startswith("answer.md\n")
