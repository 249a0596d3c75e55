"""Structured output: from a type to a validated value, over every wire and the command line."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict, assert_type

import msgspec
import pydantic
import pytest

import mainspring
from mainspring.errors import OutputInvalid, UsageError
from mainspring.events import NoteAdded, PromptSet, SpendReserved, TurnStarted, UserSaid
from mainspring.models import Request
from mainspring.models.fingerprint import Fingerprint
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedModel, ScriptedReply
from mainspring.models.structured import ANSWER
from mainspring.session.replay import replay
from mainspring.testing import Stage as PublicStage
from mainspring.testing.memory import MemorySessions
from mainspring.testing.server import HostedModelServer
from mainspring.tools.json_schema import check_schema, problem_with
from mainspring.tools.output import OutputType
from tests.stage import PausingModel, Stage, call, calls, limits, says


class City(msgspec.Struct, frozen=True):
    name: str
    people: Annotated[int, msgspec.Meta(ge=0)]
    rivers: list[str] = []


@dataclass
class CityData:
    name: str
    people: int


class CityDict(TypedDict):
    name: str
    people: int


class CityModel(pydantic.BaseModel):
    name: str
    people: int

    @pydantic.field_validator("name")
    @classmethod
    def capitalised(cls, name: str) -> str:
        if not name[:1].isupper():
            raise ValueError("a name begins with a capital letter")
        return name


GOOD = '{"name": "Ulm", "people": 3}'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


@pytest.fixture(autouse=True)
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path.with_name("home-of-" + tmp_path.name)))
    monkeypatch.chdir(tmp_path)


def answer(kind: Any, *texts: str, requests: list[Request] | None = None) -> mainspring.Reply:
    def seen(request: Request) -> None:
        if requests is not None:
            requests.append(request)

    script = Script(replies=tuple(ScriptedReply(text=text) for text in texts))
    return mainspring.run("which city?", model=ScriptedModel(script, on_request=seen), output=kind)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (City, City(name="Ulm", people=3)),
        (CityData, CityData(name="Ulm", people=3)),
        (CityDict, {"name": "Ulm", "people": 3}),
        (CityModel, CityModel(name="Ulm", people=3)),
        (SCHEMA, {"name": "Ulm", "people": 3}),
    ],
)
def test_a_type_gives_a_value_of_it(kind: Any, value: Any) -> None:
    requests: list[Request] = []
    reply = answer(kind, f"```json\n{GOOD}\n```", requests=requests)
    assert (reply.ending, reply.output) == ("done", value)
    assert requests[0].schema == OutputType(kind).schema


def test_the_model_is_told_once_what_is_wrong() -> None:
    requests: list[Request] = []
    reply = answer(City, '{"name": "Ulm", "people": -1}', GOOD, requests=requests)
    assert reply.output == City(name="Ulm", people=3)
    assert b"$.people: breaks minimum 0" in requests[1].messages[-1]
    assert requests[1].schema == requests[0].schema


def test_a_second_wrong_answer_fails_the_turn_and_says_why() -> None:
    reply = answer(City, "no JSON", '{"name": "Ulm"}', GOOD)
    assert (reply.ending, reply.output) == ("failed", None)
    assert "people missing" in reply.detail


def test_what_only_the_type_refuses_is_told_once_too() -> None:
    small = '{"name": "ulm", "people": 3}'
    assert answer(CityModel, small, GOOD).output == CityModel(name="Ulm", people=3)
    with pytest.raises(OutputInvalid, match="capital letter"):
        answer(CityModel, small, small)


def test_tools_still_work_and_the_last_answer_is_structured(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", calls(call("do", {"what": "x"}), text="First I look."), says(GOOD))
    assert stage.take("go", output=OutputType(City)).ending == "done"
    assert stage.effects == ["x"]
    (started,) = stage.events(TurnStarted)
    assert started.output_schema == OutputType(City).schema


@pytest.mark.parametrize("after", [TurnStarted, NoteAdded])
def test_a_killed_session_goes_on_with_its_schema(after: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", says("no"), says(GOOD))
    assert stage.take("go", output=OutputType(City)).ending == "done"
    again = stage.killed_after(tmp_path / "again", stage.seq(after))
    assert again.take().ending == "done"
    assert all(request.schema == OutputType(City).schema for request in again.requests)
    assert len(again.events(NoteAdded)) == 1


def test_a_later_turn_without_an_output_type_is_free(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", says(GOOD), says("plain"))
    stage.take("go", output=OutputType(City))
    assert stage.take("and now?").ending == "done"
    assert stage.requests[-1].schema is None


def test_what_is_no_object_or_is_not_checked_is_refused() -> None:
    for schema in (
        {"type": "array"},
        {"type": "object", "dependentSchemas": {}},
        {"type": "object", "properties": {"a": {"type": "text"}}},
    ):
        with pytest.raises(UsageError, match="schema"):
            OutputType(schema)
    with pytest.raises(UsageError, match="engine"):
        mainspring.run("x", engine="exec:true", output=City)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": ["string", "null"]}, [None, "a"], [1]),
        ({"type": "integer"}, [1, 2.0], [True, 1.5, "1"]),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 2}, [1.5, 2], [1, 3]),
        ({"enum": ["a", 1]}, ["a", 1], ["b"]),
        ({"const": 3}, [3], [4]),
        ({"type": "string", "minLength": 2, "pattern": "^a"}, ["ab"], ["a", "bb"]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, [["a"]], [[], [1]]),
        ({"prefixItems": [{"type": "string"}], "items": False}, [["a"]], [["a", 1], [2]]),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, ["a", 1], [[], None]),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, [1.5], [1]),
        ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1], [3]),
        ({"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}, [None], [1]),
        ({"additionalProperties": {"type": "string"}}, [{"a": "b"}], [{"a": 1}]),
    ],
)
def test_values_are_checked(schema: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    check_schema(
        {**schema, "type": "object"}
        if "$ref" in schema
        else {"type": "object", "properties": {"value": schema}}
    )
    assert [problem_with(value, schema) for value in good] == [""] * len(good)
    assert all(problem_with(value, schema) for value in bad)


def test_a_program_can_ask_twice_in_one_session() -> None:
    async def asked() -> list[Any]:
        model = ScriptedModel(Script(replies=(says(GOOD), says(GOOD.replace("Ulm", "Bern")))))
        async with mainspring.open(model=model, output=City, sessions=MemorySessions()) as session:
            return [(await session.ask("one?")).output.name, (await session.ask("another?")).output.name]

    assert asyncio.run(asked()) == ["Ulm", "Bern"]


def test_going_on_with_nothing_asks_nothing_of_the_model() -> None:
    requests: list[Request] = []

    async def asked() -> tuple[mainspring.Reply, mainspring.Reply]:
        script = Script(replies=(ScriptedReply(text=GOOD), ScriptedReply(text=GOOD)))
        model = ScriptedModel(script, on_request=requests.append)
        async with mainspring.open(model=model, output=City, sessions=MemorySessions()) as session:
            return await session.ask("which city?"), await session.ask()

    first, second = asyncio.run(asked())
    assert first.output == City(name="Ulm", people=3)
    assert (second.is_new, second.output, len(requests)) == (False, None, 1)


def test_an_answer_that_was_on_record_before_a_crash_is_given() -> None:
    async def asked() -> mainspring.Reply:
        sessions = MemorySessions()
        model = ScriptedModel(Script(replies=(ScriptedReply(text=GOOD),)))
        async with mainspring.open(model=model, output=City, sessions=sessions) as session:
            await session.ask("which city?")
            recorded = await session.journal.read()
        seq = next(each.seq for each in recorded if type(each.event).__name__ == "AssistantSaid")
        forked, _ = await sessions.fork(session.id, at=seq)
        async with mainspring.open(model=model, session=forked, output=City, sessions=sessions) as again:
            return await again.ask()

    assert asyncio.run(asked()).output == City(name="Ulm", people=3)


@pytest.mark.parametrize(
    "inner",
    [
        {"type": "string", "pattern": "^\\p{L}+$"},
        {"$ref": "#/$defs/Missing"},
        {"$ref": "#/properties/name"},
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused_before_anything_is_asked(inner: Any) -> None:
    with pytest.raises(UsageError):
        check_schema({"type": "object", "properties": {"name": inner}})


def test_a_schema_may_refer_to_itself() -> None:
    tree: dict[str, Any] = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    check_schema(tree)
    assert problem_with({"children": [{"children": []}]}, tree) == ""
    assert problem_with({"children": [{"leaf": 1}]}, tree)


def test_each_question_can_want_its_own_type_and_the_next_one_is_free(tmp_path: Path) -> None:
    stage = PublicStage(tmp_path, GOOD, "Plain text.", '{"name": "Ulm", "people": 4}')

    async def asked() -> tuple[Any, Any, Any]:
        async with stage.open() as session:
            city = await session.ask("which city?", output=City)
            assert_type(city, mainspring.Reply[City])
            text = await session.ask("why?")
            return city.output, text.output, (await session.ask("and now?", output=SCHEMA)).output

    assert asyncio.run(asked()) == (City(name="Ulm", people=3), None, {"name": "Ulm", "people": 4})
    assert [request.schema for request in stage.requests] == [OutputType(City).schema, None, SCHEMA]
    assert [request.verdict for request in stage.replay()] == ["same"] * 3


def test_a_question_may_want_another_type_than_its_session(tmp_path: Path) -> None:
    stage = PublicStage(tmp_path, '{"rivers": []}', GOOD)
    rivers: dict[str, Any] = {"type": "object", "properties": {"rivers": {"type": "array"}}}

    async def asked() -> list[Any]:
        async with stage.open(output=City) as session:
            first = await session.ask("rivers?", output=rivers)
            return [first.output, (await session.ask("city?")).output]

    assert asyncio.run(asked()) == [{"rivers": []}, City(name="Ulm", people=3)]


@pytest.mark.parametrize("after", [UserSaid, TurnStarted])
def test_what_a_question_wants_is_on_record_before_its_turn(after: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", says(GOOD))

    async def asked() -> None:
        async with stage.opened() as session:
            await session.ask("which city?", output=City)

    asyncio.run(asked())
    again = stage.killed_after(tmp_path / "again", stage.seq(after))
    assert again.take().ending == "done"
    assert [request.schema for request in again.requests] == [OutputType(City).schema]


def test_a_turn_that_reached_a_limit_goes_on_with_what_was_wanted(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", calls(call("do", {"what": "x"})), says(GOOD), says("plain"))

    async def asked() -> list[Any]:
        async with stage.opened(**limits(max_steps=1)) as session:
            replies = [await session.ask(text, output=City) for text in ("which city?", "")]
            return [(reply.ending, reply.output) for reply in replies]

    assert asyncio.run(asked()) == [("limit", None), ("done", City(name="Ulm", people=3))]
    assert [request.schema for request in stage.requests] == [OutputType(City).schema] * 2


def test_a_running_turn_keeps_what_it_answers_with(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "s", says("Slowly."))

    async def asked() -> int:
        model = stage.model(PausingModel)
        async with stage.opened(model=model) as session:
            await session.say("go")
            await model.is_streaming.wait()
            with pytest.raises(UsageError, match="running"):
                await session.say("as JSON, please", output=City)
            model.may_go_on.set()
            return session.state.turn

    assert asyncio.run(asked()) == 1
    assert [said.text for said in stage.events(UserSaid)] == ["go"]


def test_a_type_without_a_schema_is_refused_and_nothing_is_said(tmp_path: Path) -> None:
    stage = PublicStage(tmp_path)

    async def asked() -> None:
        async with stage.open() as session:
            with pytest.raises(UsageError, match="JSON schema"):
                await session.ask("x", output=object)

    asyncio.run(asked())
    assert (stage.events(UserSaid), stage.requests) == ([], [])


def test_a_replay_notices_a_changed_schema(tmp_path: Path) -> None:
    stage = PublicStage(tmp_path, GOOD, "Plain.")
    assert stage.run("which city?", output=City).is_done
    stage.run("and?")
    assert [request.verdict for request in stage.replay(output=City)] == ["same", "same"]
    assert [request.verdict for request in stage.replay(output=CityData)] == ["different", "same"]


def test_a_session_that_was_recorded_without_the_schema_in_its_hashes_replays(tmp_path: Path) -> None:
    stage = PublicStage(tmp_path, GOOD)
    assert stage.run("which city?", output=City).is_done

    async def older() -> list[str]:
        journal = await MemorySessions().create()
        for item in stage.journal():
            event = item.event
            if isinstance(event, SpendReserved):
                prompt = stage.events(PromptSet)[-1]
                messages = stage.requests[0].messages[bool(prompt.context) :]
                event = msgspec.structs.replace(event, request_sha256=Fingerprint().of(prompt, messages))
            await journal.append(event)
        return [request.verdict async for request in replay(journal, lambda _: stage.model())]

    assert asyncio.run(older()) == ["same"]


REFUSED = {
    "openai-compatible": {
        "error": {"message": "Unknown parameter: 'response_format'.", "param": "response_format"}
    },
    "anthropic": {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "output_config.format: Extra inputs are not permitted",
        },
    },
}


@pytest.mark.parametrize("wire", sorted(REFUSED))
def test_a_provider_that_refuses_the_schema_is_asked_by_a_tool_and_told_once(
    wire: str, tmp_path: Path
) -> None:
    wrong = ScriptedCall(name=ANSWER, arguments={"name": "Ulm", "people": -1})
    right = ScriptedCall(name=ANSWER, arguments={"name": "Ulm", "people": 3})
    refusal = Fault(kind="status", status=400, body=REFUSED[wire])
    script = Script(
        replies=(ScriptedReply(calls=(wrong,), fault=refusal), ScriptedReply(text="Here:", calls=(right,)))
    )
    with HostedModelServer(script) as server:
        address = server.url.removesuffix("/v1") if wire == "anthropic" else server.url
        reply = mainspring.run("which city?", model=f"{wire}@{address}#m", output=City, tools=["find"])
        native, first, second = (seen.json() for seen in server.seen)
    assert (reply.ending, reply.output) == ("done", City(name="Ulm", people=3)), reply.detail
    assert ANSWER not in json.dumps(native)
    assert all(ANSWER in json.dumps(body["tools"]) for body in (first, second))
    # A model that thinks may not be forced.
    assert ["tool_choice" in body for body in (first, second)] == ["thinking" not in first] * 2
    assert not {"response_format", "output_config"} & {*first, *second}
    assert "breaks minimum 0" in json.dumps(second["messages"][-1])


@pytest.mark.parametrize("depth", [60, 400, 5_000])
def test_a_schema_that_is_nested_too_deeply_is_refused_before_anything_is_said(depth: int) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    with pytest.raises(UsageError, match="nested more than 100 deep"):
        check_schema(schema)
