"""What a session has of its repository's index: `symbols` without a language server, `impact`, and the map."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.operations.index import update_index
from mainspring.context.work import WorkSettings
from mainspring.events import CallEnded, PromptSet
from mainspring.settings import Config
from mainspring.testing import Stage, tool_call
from tests.checks.test_after_change import configured
from tests.checks.test_code_tools import MODEL, USER, through
from tests.stage import staged


def project(folder: Path, *replies: Any, files: int = 50) -> Stage:
    more = {
        f"part{number}.py": f"from model import Car\n\nclass Part{number}(Car): ...\n"
        for number in range(files)
    }
    stage = staged(folder, {"model.py": MODEL, "user.py": USER, **more}, *replies)
    subprocess.run(["git", "init", "-q"], cwd=stage.workspace, check=True)
    return stage


def config_in(folder: Path, **work: Any) -> Config:
    config = configured(folder, language_servers="off", path="/usr/bin:/bin")
    settings = msgspec.structs.replace(
        config.settings, work=WorkSettings(priming="off", kind_skills=False, **work)
    )
    return msgspec.structs.replace(config, settings=settings)


def test_symbols_are_told_from_the_index_without_a_server(tmp_path: Path) -> None:
    stage = project(
        tmp_path,
        tool_call("find_tools", query="definition of a symbol"),
        through("symbols", action="outline", path="model.py"),
        through("symbols", action="definition", symbol="Car.drive"),
        through("symbols", action="references", path="model.py", line=2, symbol="drive"),
        tool_call("write", path="late.py", content="from model import Car\nCar().drive()\n"),
        through("symbols", action="references", symbol="drive"),
        through("symbols", action="definition", symbol="nothing_such"),
        through("rename", path="model.py", line=2, symbol="drive", new_name="roll"),
        through("impact", paths=["model.py"]),
        "Done.",
        files=3,
    )
    config = config_in(tmp_path)
    asyncio.run(update_index(config, stage.workspace))
    stage.run("Go", config=config, mode="auto")
    found, outline, defined, used, _, later, none, rename, impact = [
        event.output for event in stage.events(CallEnded)
    ]
    assert '"outline"' in found
    assert "rename" not in found
    assert outline.splitlines()[:2] == ["1: class Car", "  2: method drive"]
    assert defined.splitlines() == ["model.py:2: def drive(self) -> int", "(from the index, by name alone)"]
    assert used.splitlines()[:2] == ["model.py:2: def drive(self) -> int:", "user.py:3: print(Car().drive())"]
    assert "late.py:2: Car().drive()" in later
    assert none.startswith("No definition of nothing_such.")
    assert "rename" in rename
    assert "user.py" in impact


def test_without_an_index_nothing_is_offered_and_with_on_the_first_call_makes_it(tmp_path: Path) -> None:
    stage = project(tmp_path / "auto", "Done.", files=1)
    stage.run("Go", config=config_in(tmp_path / "auto"))
    assert "find_tools" not in {tool.name for tool in stage.requests[0].tools}
    asked = through("symbols", action="definition", symbol="Car")
    stage = project(tmp_path / "on", asked, "Done.", files=1)
    stage.run("Go", config=config_in(tmp_path / "on", index="on"))
    assert stage.events(CallEnded)[0].output.startswith("model.py:1: class Car")


def test_the_first_message_has_the_map_where_there_is_an_index(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    stage = project(tmp_path, "Done.", "Done.")
    asyncio.run(update_index(config, stage.workspace))
    stage.run("Go", config=config)
    (prompt,) = stage.events(PromptSet)
    assert "model.py: Car" in prompt.context
    assert "map" in [part.name for part in prompt.parts]
    assert "model.py: Car" in str(stage.sent(0))


def test_no_map_where_it_is_off_or_the_project_is_small(tmp_path: Path) -> None:
    for name, files, work in (("off", 50, {"map_tokens": 0}), ("small", 3, {})):
        config = config_in(tmp_path / name, **work)
        stage = project(tmp_path / name, "Done.", files=files)
        asyncio.run(update_index(config, stage.workspace))
        stage.run("Go", config=config)
        assert "Map of the repository" not in stage.events(PromptSet)[0].context
