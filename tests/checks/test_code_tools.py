"""Tools that ask language servers: offered where they can work, found with `find_tools`, and all or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring.app.checks import SessionChecks
from mainspring.checks.symbol_values import (
    Place,
    Position,
    Span,
    TextEdit,
    edited,
    edits_in,
    outline_in,
    places_in,
    utf16_column,
)
from mainspring.events import CallEnded
from mainspring.models.scripted import ScriptedCall, ScriptedReply
from mainspring.testing import tool_call
from tests.checks.test_after_change import configured
from tests.checks.test_language_servers import PATH, in_session
from tests.stage import staged

MODEL = "class Car:\n    def drive(self) -> int:\n        return 1\n"
USER = "from model import Car\n\nprint(Car().drive())\n"


def through(name: str, **arguments: Any) -> Any:
    call = ScriptedCall(name="call_tool", arguments={"name": name, "arguments": arguments})
    return ScriptedReply(calls=(call,))


def python(folder: Path, *replies: Any) -> Any:
    files = {"pyrightconfig.json": "{}", "model.py": MODEL, "user.py": USER}
    return staged(folder, files, *replies)


def test_a_name_is_found_and_renamed_in_all_files_by_a_real_server(tmp_path: Path) -> None:
    stage = python(
        tmp_path,
        tool_call("find_tools", query="rename a symbol"),
        through("symbols", action="outline", path="model.py"),
        through("symbols", action="definition", path="user.py", line=3, symbol="drive"),
        through("symbols", action="references", path="model.py", line=2, symbol="drive"),
        through("symbols", action="references", path="model.py", line=2, symbol="fly"),
        through("rename", path="model.py", line=2, symbol="drive", new_name="roll"),
        through("diagnostics", path="user.py"),
        "Done.",
    )
    config = configured(tmp_path, language_servers="on", path=PATH)
    stage.run("Go", config=config, mode="auto")
    found, outline, definition, references, refused, _, clean = [
        event.output for event in stage.events(CallEnded)
    ]
    assert "new_name" in found
    assert outline.splitlines() == ["1: class Car", "  2: method drive"]
    assert definition == "model.py:2: def drive(self) -> int:"
    assert {line.split(": ")[0] for line in references.splitlines()} == {"user.py:3", "model.py:2"}
    assert "does not stand in line 2" in refused
    assert (stage.workspace / "user.py").read_text() == USER.replace("drive", "roll")
    assert (stage.workspace / "model.py").read_text() == MODEL.replace("drive", "roll")
    assert "error" not in clean


def test_tools_are_offered_only_where_a_server_can_answer(tmp_path: Path) -> None:
    config = configured(tmp_path, language_servers="on", path=PATH)
    none, ruff, types = (tmp_path / name for name in ("none", "ruff", "types"))
    for folder in (none, ruff, types):
        folder.mkdir()
    (ruff / "ruff.toml").touch()
    (types / "pyrightconfig.json").write_text("{}")
    offered = {
        folder.name: [tool.name for tool in SessionChecks(config).tools(folder)]
        for folder in (none, ruff, types)
    }
    assert offered == {"none": [], "ruff": ["diagnostics"], "types": ["diagnostics", "symbols", "rename"]}
    off = SessionChecks(configured(tmp_path, language_servers="off", path=PATH))
    assert off.tools(types) == []


def test_no_request_shows_them_and_none_without_a_server_pays(tmp_path: Path) -> None:
    shown: list[set[str]] = []
    for name, files in (("with", {"pyrightconfig.json": "{}"}), ("without", {"notes.txt": ""})):
        stage = staged(tmp_path / name, files, "Done.")
        stage.run("Go", config=configured(tmp_path / name, language_servers="on", path=PATH))
        shown.append({tool.name for tool in stage.requests[0].tools})
    assert shown[0] - shown[1] == {"find_tools", "call_tool"}


def test_a_file_of_no_server_is_refused(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"mark": "", "a.txt": "x"}, through("diagnostics", path="a.txt"), "Done.")
    stage.run("Go", config=in_session(tmp_path), mode="auto")
    assert "No language server knows a.txt" in stage.events(CallEnded)[0].output


def test_all_that_is_wrong_in_a_file_is_listed(tmp_path: Path) -> None:
    stage = staged(tmp_path, {"mark": "", "a.bad": "bad\n"}, through("diagnostics", path="a.bad"), "Done.")
    stage.run("Go", config=in_session(tmp_path), mode="auto")
    assert stage.events(CallEnded)[0].output == "a.bad:1: error: bad [fake 7]"


def span(line: int, start: int, end: int) -> Span:
    return Span(Position(line, start), Position(line, end))


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        ("a b\r\na\n", [(0, 0, 1), (1, 0, 1)], "xx b\r\nxx\n"),
        ("'😀' a", [(0, 5, 6)], "'😀' xx"),  # two units of UTF-16
        ("\x0c\u2028 a\na", [(0, 3, 4), (1, 0, 1)], "\x0c\u2028 xx\nxx"),  # neither ends a line
        ("a", [(0, 0, 1), (0, 0, 1)], None),
        ("b", [(0, 0, 1)], None),
        ("a", [(7, 0, 1)], None),
        ("a", [(-1, 0, 1)], None),
    ],
)
def test_edits_are_applied_where_the_server_means_or_not_at_all(
    text: str, edits: list[tuple[int, int, int]], after: str | None
) -> None:
    given = [TextEdit(span(*each), "xx") for each in edits]
    if after is None:
        with pytest.raises(ValueError):
            edited(text, given, "a")
    else:
        assert edited(text, given, "a") == after
    assert utf16_column("'😀' a", 4) == 5


def test_answers_of_every_shape_are_read() -> None:
    place = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 2}}
    link = {"targetUri": "file:///w/b%20c.py", "targetRange": place, "targetSelectionRange": place}
    assert places_in(None) == []
    assert places_in({"uri": "file:///w/a.py", "range": place}) == [Place("/w/a.py", 4)]
    assert places_in([link]) == [Place("/w/b c.py", 4)]
    flat = [{"name": "f", "kind": 12, "location": {"uri": "file:///w/a.py", "range": place}}]
    assert outline_in(flat) == ["4: function f"]
    edit = {"range": place, "newText": "x"}
    by_document = {"documentChanges": [{"textDocument": {"uri": "file:///w/a.py"}, "edits": [edit]}]}
    assert (
        list(edits_in(by_document)) == list(edits_in({"changes": {"file:///w/a.py": [edit]}})) == ["/w/a.py"]
    )
