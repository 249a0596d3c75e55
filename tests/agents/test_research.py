"""`research`: it searches the web where its parent can, and neither loops nor spends without end."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.events import CallStarted, ChildEnded, ChildStarted, GuardTripped, Usage
from mainspring.models import Request
from mainspring.models.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.models.search_settings import SearchSettings
from mainspring.settings import Config
from tests.agents.family import PARENT, Family, asks, script_of

ASKED = (asks("STUDY it", agent="research"), ScriptedReply(text="Reported."))


class Searching(Family):
    def _config(self) -> Config:
        config = super()._config()
        search = SearchSettings(backend="searxng", url="http://127.0.0.1:9/search")
        return msgspec.structs.replace(
            config, settings=msgspec.structs.replace(config.settings, search=search)
        )


def look(number: int, usage: Usage | None = None) -> ScriptedReply:
    return ScriptedReply(calls=(ScriptedCall("grep", {"pattern": f"word{number}"}),), usage=usage)


def test_a_model_that_repeats_itself_is_ended_by_the_guard(tmp_path: Path) -> None:
    stage = Family(tmp_path, script_of(ASKED, STUDY=(look(1),) * 200))
    assert stage.run(PARENT).text == "Reported."
    (started,), (ended,) = stage.events(ChildStarted), stage.events(ChildEnded)
    child = [item.event for item in stage.of(started.child)]
    assert [each for each in child if isinstance(each, GuardTripped) and each.is_final]
    assert ended.state != "done"
    assert ended.steps < 30


def test_a_model_that_always_finds_something_new_to_look_for_is_ended_by_its_token_cap(
    tmp_path: Path,
) -> None:
    for number in range(200):
        (tmp_path / "workspace").mkdir(exist_ok=True)
        (tmp_path / "workspace" / f"{number}.txt").write_text(f"word{number}\n")
    much = Usage(input_tokens=45_000, output_tokens=10)
    stage = Family(tmp_path, script_of(ASKED, STUDY=tuple(look(number, much) for number in range(200))))
    assert stage.run(PARENT).text == "Reported."
    (started,), (ended,) = stage.events(ChildStarted), stage.events(ChildEnded)
    assert started.limits.max_tokens == 1_000_000
    assert ended.state == "budget"
    assert ended.usage.input_tokens <= 1_000_000
    made = [each for each in stage.of(started.child) if isinstance(each.event, CallStarted)]
    assert 10 <= len(made) <= 22


def test_a_reader_searches_the_web_where_its_parent_can(tmp_path: Path) -> None:
    for family, has_search in ((Family, False), (Searching, True)):
        shown: list[set[str]] = []

        def noted(request: Request, shown: list[set[str]] = shown) -> None:
            if not any(PARENT.encode() in message for message in request.messages):
                shown.append({each.name for each in request.tools})

        folder = tmp_path / family.__name__
        script = script_of(ASKED, STUDY=(ScriptedReply(text="Nothing."),))
        family(folder, script).run(PARENT, model=ScriptedModel(script, on_request=noted))
        assert shown
        assert ("web_search" in shown[0]) is has_search
