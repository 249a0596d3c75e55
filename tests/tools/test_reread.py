"""A file that is read again: the call that showed it is named while its text still stands in the context."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.context.work import WorkSettings
from mainspring.events import CallEnded, Limits
from mainspring.settings import load_config
from mainspring.testing import Stage, tool_call

LINES = [f"value_{number} = {number}  # one of many lines" for number in range(1, 61)]
CAP = Limits(max_cost_usd=1, max_steps=20)
TEXT = "\n".join(LINES) + "\n"


def read(path: str = "app.py", **more: Any) -> Any:
    return tool_call("read", path=path, **more)


def shell(command: str) -> Any:
    return tool_call("shell", command=command)


def staged(folder: Path, *replies: Any) -> Stage:
    stage = Stage(folder, *replies, "Done.")
    (stage.workspace / "app.py").write_text(TEXT, encoding="utf-8")
    return stage


def results(stage: Stage) -> list[str]:
    return [ended.output for ended in stage.events(CallEnded)]


def said(output: str) -> str:
    """What a read gave: which call showed it before, or how many lines."""
    if output.startswith("Unchanged: "):
        return output.partition("shown ")[2].partition(".")[0]
    return f"{output.count(chr(9))} lines"


def outcomes(folder: Path, *replies: Any, **options: Any) -> list[str]:
    stage = staged(folder, *replies)
    usual: dict[str, Any] = {"mode": "yolo", "sandbox": "none", "limits": CAP}
    stage.run("go", **{**usual, **options})
    return [said(output) for output in results(stage)]


def test_a_second_read_names_the_call_that_showed_the_file(tmp_path: Path) -> None:
    stage = staged(tmp_path, shell("true"), read(), read("./app.py"))
    stage.run("go", mode="yolo", sandbox="none", limits=CAP)
    _, first, second = results(stage)
    assert said(first) == "60 lines"
    assert said(second) == "by call 2"
    assert "lines 1-60 of ./app.py" in second
    assert LINES[5] not in second


def test_the_text_is_shown_when_it_is_asked_for(tmp_path: Path) -> None:
    asked = (read(), read(again=True), read(), read(), read())
    assert outcomes(tmp_path, *asked) == ["60 lines", "60 lines", "by call 2", "60 lines", "by call 4"]


@pytest.mark.parametrize(
    ("page", "given"),
    [
        ({"offset": 10, "limit": 20}, "by call 1"),
        ({"offset": 10}, "by call 1"),
        ({"limit": 60}, "by call 1"),
        ({"offset": 60}, "1 lines"),  # shorter than the sentence would be
    ],
)
def test_a_part_of_what_was_shown_counts_as_shown(tmp_path: Path, page: dict[str, Any], given: str) -> None:
    assert outcomes(tmp_path, read(), read(**page)) == ["60 lines", given]


def test_a_part_that_was_not_shown_is_shown(tmp_path: Path) -> None:
    pages = (read(limit=30), read(offset=31), read(offset=20, limit=20), read(offset=35, limit=20))
    assert outcomes(tmp_path, *pages) == ["30 lines", "30 lines", "20 lines", "by call 2"]


@pytest.mark.parametrize(
    "change",
    [
        shell("sed -i s/value_7/worth_7/ app.py"),
        shell("echo more >> app.py"),
        tool_call("edit", path="app.py", edits=[{"old": LINES[3], "new": "changed = 1"}]),
    ],
    ids=["shell", "grown", "edit"],
)
def test_a_file_that_changed_is_shown_however_it_did(tmp_path: Path, change: Any) -> None:
    _, _, again, after = outcomes(tmp_path, read(), change, read(), read())
    assert again in ("60 lines", "61 lines")
    assert after == "by call 3"


def test_a_file_that_is_as_before_again_is_told_by_the_call_that_showed_it_so(tmp_path: Path) -> None:
    there, back = shell("cp app.py old; echo more >> app.py"), shell("mv old app.py")
    given = outcomes(tmp_path, read(), there, read(), back, read())
    assert [given[0], given[2], given[4]] == ["60 lines", "61 lines", "by call 1"]


def test_another_file_with_the_same_content_is_another_file(tmp_path: Path) -> None:
    given = outcomes(tmp_path, read(), shell("cp app.py twin.py"), read("twin.py"), read("twin.py"))
    assert [given[0], given[2], given[3]] == ["60 lines", "60 lines", "by call 3"]


def test_a_read_that_was_undone_showed_nothing(tmp_path: Path) -> None:
    stage = staged(tmp_path, read(), "Read.", read())

    async def talk() -> None:
        async with stage.open(mode="yolo", sandbox="none", limits=CAP) as session:
            await session.ask("read it")
            await session.undo()
        stage.script = msgspec.structs.replace(stage.script, replies=stage.script.replies[2:])
        async with stage.open(mode="yolo", sandbox="none", limits=CAP) as session:
            await session.ask("read it again")

    asyncio.run(talk())
    assert [said(output) for output in results(stage)] == ["60 lines", "60 lines"]


def test_a_read_that_was_made_short_showed_nothing(tmp_path: Path) -> None:
    fillers = [tool_call("note", text=f"fact {number} " + "because " * 300) for number in range(12)]
    stage = staged(tmp_path, read(), *fillers, "Read.", "A summary.", read())

    async def talk() -> None:
        async with stage.open(mode="yolo", sandbox="none", limits=CAP) as session:
            await session.ask("read it")
            await session.compact()
            assert LINES[5] not in str([stage.sent()])[-200:]
        stage.script = msgspec.structs.replace(stage.script, replies=(*[read()] * 40,))
        async with stage.open(mode="yolo", sandbox="none", limits=CAP) as session:
            await session.ask("read it again")

    asyncio.run(talk())
    given = [said(output) for output in results(stage) if "\t" in output or "Unchanged" in output]
    assert given[:2] == ["60 lines", "60 lines"]


def test_a_resumed_session_knows_what_an_earlier_process_showed(tmp_path: Path) -> None:
    stage = staged(tmp_path, read(), "Read.", read(), "Done.")
    stage.run("read it", mode="yolo", sandbox="none", limits=CAP)
    stage.run("read it again", mode="yolo", sandbox="none", limits=CAP)
    assert [said(output) for output in results(stage)] == ["60 lines", "by call 1"]


def test_a_file_that_was_shown_at_the_start_is_not_shown_again(tmp_path: Path) -> None:
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home")})
    settings = msgspec.structs.replace(config.settings, work=WorkSettings())
    config = msgspec.structs.replace(config, settings=settings)
    stage = staged(tmp_path, read(), read(), shell("echo more >> app.py"), read())
    stage.run("Fix app.py", mode="yolo", sandbox="none", limits=CAP, config=config)
    given = [said(output) for output in results(stage)]
    assert given[:2] == ["in the note from mainspring:files", "60 lines"]
    assert given[3] == "61 lines"


def test_a_small_model_is_told_of_its_own_calls_alone(tmp_path: Path) -> None:
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home")})
    stage = staged(tmp_path, *(read(),) * 3)
    stage.run("Fix app.py", mode="yolo", sandbox="none", limits=CAP, config=config, profile="small")
    assert [said(output) for output in results(stage)] == ["60 lines", "by call 1", "60 lines"]
