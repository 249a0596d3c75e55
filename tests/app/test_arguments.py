"""A wrong argument of a public function is named in the error, and nothing is written."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, cast

import pytest

import mainspring
from mainspring.errors import InvalidValue, MainspringError, UsageError
from mainspring.events import Cap, Limits, UserSaid
from mainspring.index import index_file
from mainspring.models.scripted import Script, ScriptedModel, ScriptedReply

NEGATIVE = (
    Limits(max_steps=-1),
    Limits(timeout_s=-0.5),
    Limits(day=Cap(usd=-1.0)),
    Limits(turn=Cap(calls=-1)),
)
WRONG_TO_OPEN: dict[str, list[Any]] = {
    "workspace": [5, None, b"x", "", "a\0b", ["."], "x\ud800y", "a" * 300],
    "session": [5, None, ["x"], "a\0b"],
    "engine": [5, None, ["codex"], print],
    "model": [5, None, ["x"], ScriptedModel],
    "fallback": ["x", 5, None, [5], [None]],
    "effort": ["huge", 5, True, ["low"]],
    "profile": ["tiny", 5, True, ["small"]],
    "mode": [5, None, "moon", ["ask"]],
    "limits": [3, "5", {"max_cost_usd": 1}, Limits, Limits(max_cost_usd="x"), *NEGATIVE],  # pyright: ignore[reportArgumentType]
    "instructions": [5, None, ["x"]],
    "system_prompt": [5, ["x"]],
    "tools": ["x", 5, None, ["no such tool"], [5], [print]],
    "output": [5, "text"],
    "sandbox": ["moon", 5, None, []],
    "policy": [5, "strict", print],
    "approver": [5, "yes", print],
    "allow_unpriced": ["yes", 5, None],
    "allow_home": ["yes", 5, None],
    "parent": [5, "x"],
    "beginning": [5, "x", print],
    "config": [5, "x", {}],
    "sessions": [5, "x", []],
    "origin": [5, "me", {}],
}
HUGE = 10**5000
NESTED: list[Any] = []
for _ in range(10_000):
    NESTED = [NESTED]
WRONG_COMMANDS: list[Any] = ["echo hi", 5, None, [], [5], ["a\0b"], b"ls"]
WRONG_TO_STEP: dict[str, list[Any]] = {
    "argv": WRONG_COMMANDS,
    "cwd": [5, None, "", "a\0b", "x\ud800y", "a" * 300],
    "timeout_s": ["5", -1, float("nan"), float("inf"), True],
    "cpu_s": ["5", -1, 1.5, True],
    "memory_mb": ["5", -1, 1.5, True],
    "template": [5, None, "no such template"],
    "label": [5, None],
    "keep": [5, "", "a\0b"],
    "allow_home": ["yes", 5, None],
    "approver": [5, "yes"],
    "config": [5, "x"],
}
WRONG_TO_ALLOWED: dict[str, list[Any]] = {
    name: WRONG_TO_STEP[name] for name in ("argv", "cwd", "template", "config")
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAINSPRING_HOME", str(tmp_path / "home"))
    (tmp_path / "workspace").mkdir()
    monkeypatch.chdir(tmp_path / "workspace")
    return tmp_path / "home"


def cases(table: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}-{number}")
        for name, values in table.items()
        for number, value in enumerate(values)
    ]


def written(home: Path) -> list[str]:
    """Journals, and what was made in the workspace."""
    places = (*home.rglob("*"), *Path.cwd().rglob("*"))
    return [str(path) for path in places if path.is_file() and path.suffix != ".lock"]


def refused(caught: pytest.ExceptionInfo[MainspringError], name: str, home: Path) -> None:
    assert isinstance(caught.value, ValueError) or name in ("mode", "tools", "output", "template")
    assert name.rstrip("s") in str(caught.value), str(caught.value)
    assert written(home) == []


def scripted() -> ScriptedModel:
    return ScriptedModel(Script(replies=(ScriptedReply(text="hi"),)))


@pytest.mark.parametrize(("name", "value"), cases(WRONG_TO_OPEN))
def test_open_and_run_name_a_wrong_argument(name: str, value: Any, home: Path) -> None:
    options = {"model": scripted(), name: value}
    with pytest.raises(MainspringError) as caught:
        mainspring.run("hello", **options)
    refused(caught, name, home)


@pytest.mark.parametrize(("name", "value"), cases(WRONG_TO_STEP))
def test_run_step_names_a_wrong_argument(name: str, value: Any, home: Path) -> None:
    options = {"argv": ["true"], name: value}
    with pytest.raises(MainspringError) as caught:
        mainspring.run_step(**options)
    refused(caught, name, home)


@pytest.mark.parametrize(("name", "value"), cases(WRONG_TO_ALLOWED))
def test_is_allowed_names_a_wrong_argument(name: str, value: Any, home: Path) -> None:
    options = {"argv": ["true"], name: value}
    with pytest.raises(MainspringError) as caught:
        mainspring.is_allowed(**options)
    refused(caught, name, home)


@pytest.mark.parametrize(
    ("name", "value"), [("session", 5), ("session", "a\0b"), ("text", 5), ("text", None), ("config", 5)]
)
@pytest.mark.parametrize("function", [mainspring.say, mainspring.note])
def test_say_and_note_name_a_wrong_argument(function: Any, name: str, value: Any, home: Path) -> None:
    options = {"session": "abc", "text": "hello", name: value}
    with pytest.raises(InvalidValue, match=name):
        asyncio.run(function(**options))
    assert written(home) == []


@pytest.mark.parametrize("value", [0, None, 5, b"x", ["x"]])
def test_a_prompt_must_be_a_text(value: Any, home: Path) -> None:
    with pytest.raises(InvalidValue, match="prompt"):
        mainspring.run(value, model=scripted())
    assert written(home) == []


@pytest.mark.parametrize(
    ("method", "name", "options"),
    [
        ("say", "text", {"text": 5}),
        ("say", "text", {"text": None}),
        ("say", "media", {"text": "x", "media": 5}),
        ("say", "media", {"text": "x", "media": "nope"}),
        ("say", "after", {"text": "x", "after": 5}),
        ("say", "output", {"text": "x", "output": 5}),
        ("ask", "text", {"text": 0}),
        ("ask", "text", {"text": 5}),
        ("ask", "output", {"text": "x", "output": 5}),
        ("say", "event", {"text": "x", "after": ["nope"]}),
        ("hear", "event", {"said": "nope"}),
        ("answer", "given", {"given": "nope"}),
        ("note", "source", {"text": "x", "source": b"x"}),
        ("attach", "name", {"data": b"x", "media_type": "image/png", "name": 9}),
        ("attach", "media type", {"data": b"x", "media_type": "x\ud800"}),
        ("attach", "media type", {"data": b"x", "media_type": ""}),
        ("attach", "media type", {"data": b"x", "media_type": "image/png\x1b[31m"}),
        ("note", "is empty", {"text": " "}),
        ("say", "list", {"text": "x", "output": NESTED}),
        ("say", "int", {"text": "x", "output": HUGE}),
    ],
)
def test_a_session_names_a_wrong_argument_and_records_nothing(
    method: str, name: str, options: dict[str, Any]
) -> None:
    async def main() -> None:
        async with mainspring.open(model=scripted()) as session:
            before = await session.journal.last_seq()
            with pytest.raises(MainspringError, match=name):
                await getattr(session, method)(**options)
            assert await session.journal.last_seq() == before
            assert (await session.ask("hello")).text == "hi"

    asyncio.run(main())


@pytest.mark.parametrize("value", [None, "1", 1.5, b"x", -(10**30)])
def test_only_the_number_of_an_event_can_be_subscribed_after(value: Any) -> None:
    async def main() -> None:
        async with mainspring.open(model=scripted()) as session:
            if isinstance(value, int):
                first = await anext(session.subscribe(value))
                assert first.seq == 1
                return
            with pytest.raises(InvalidValue, match="after"):
                session.subscribe(value)

    asyncio.run(main())


def test_what_is_shown_without_a_text_is_said() -> None:
    async def main() -> None:
        async with mainspring.open(model=scripted()) as session:
            shown = await session.attach(b"%PDF-1.4", "application/pdf", "a.pdf")
            events = [each.event async for each in session.watch("", [shown])]
            assert any(isinstance(each, UserSaid) and each.media == (shown,) for each in events)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: mainspring.run("x", model=scripted(), check=cast("Any", 5)), "check"),
        (lambda: mainspring.run_exploop(cast("Any", None)), "config"),
        (lambda: mainspring.run_drvloop(cast("Any", {})), "config"),
        (lambda: mainspring.load_config(cast("Any", "x")), "environment"),
        (lambda: asyncio.run(entered(mainspring.start_goal("x", cast("Any", None)))), "options"),
        (
            lambda: asyncio.run(entered(mainspring.start_goal(cast("Any", 5), mainspring.GoalOptions()))),
            "given",
        ),
        (lambda: asyncio.run(entered(mainspring.resume_goal("x", cast("Any", {})))), "options"),
        (
            lambda: asyncio.run(entered(mainspring.resume_goal(cast("Any", 5), mainspring.GoalOptions()))),
            "session",
        ),
    ],
)
def test_goals_checks_and_settings_name_a_wrong_argument(
    call: Callable[[], object], name: str, home: Path
) -> None:
    with pytest.raises(InvalidValue, match=name):
        call()
    assert written(home) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("folder", each) for each in (5, "x", None, Path("a\0b"))],
        *[(name, 5) for name in ("profile", "engine", "memory", "model", "mode", "sandbox", "by")],
        *[("rules", each) for each in (5, {"nope": 1}, {"max_wait_s": "x"}, {1: 2})],
        *[("checks", 5), ("checks", mainspring.GoalChecks(commands=cast("Any", 5))), ("evaluation", {})],
        *[("fallback", 5), ("fallback", (5,)), ("notify", "x"), ("effort", "huge")],
        *[("allow_unpriced", "no"), ("allow_home", 5)],
    ],
)
def test_an_option_of_a_goal_is_named_when_it_is_wrong(field: str, value: Any, home: Path) -> None:
    options = mainspring.GoalOptions(**{field: value})
    with pytest.raises(InvalidValue, match=f"{field}|commands|max_wait_s"):
        asyncio.run(entered(mainspring.start_goal("x", options)))
    with pytest.raises(InvalidValue):
        asyncio.run(entered(mainspring.resume_goal("x", options)))
    assert written(home) == []


@pytest.mark.parametrize("field", ["config", "sessions", "approver"])
def test_what_a_goal_works_with_is_named_when_it_is_wrong(field: str, home: Path) -> None:
    with pytest.raises(InvalidValue, match=field):
        asyncio.run(entered(mainspring.start_goal("x", mainspring.GoalOptions(), **{field: cast("Any", 5)})))
    assert written(home) == []


@pytest.mark.parametrize("effect", [5, None, "reed"])
def test_a_tool_with_an_effect_that_is_none_is_refused_where_it_is_made(effect: Any) -> None:
    with pytest.raises(MainspringError, match="effect"):

        @mainspring.tool(effect=effect)
        async def _looked() -> str:
            """Looks."""
            return ""


async def entered(opening: AbstractAsyncContextManager[Any]) -> None:
    async with opening:
        pass


def test_what_is_looked_for_is_found_when_nothing_is_wrong(home: Path) -> None:
    assert mainspring.run("hello", model=scripted()).text == "hi"
    assert written(home)


def test_every_argument_has_wrong_values_in_the_tables() -> None:
    for function, table in (
        (mainspring.open, WRONG_TO_OPEN),
        (mainspring.run_step, WRONG_TO_STEP),
        (mainspring.is_allowed, WRONG_TO_ALLOWED),
    ):
        assert set(inspect.signature(function).parameters) == set(table)


def test_a_workspace_whose_name_no_journal_can_hold_is_refused_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "w\udcff"
    folder.mkdir()

    async def opened() -> None:
        async with mainspring.open(folder, model=ScriptedModel(Script())):
            pass

    with pytest.raises(UsageError, match="not UTF-8"):
        asyncio.run(opened())
    assert index_file(tmp_path, folder).suffix == ".sqlite"


@pytest.mark.parametrize("value", [HUGE, -HUGE], ids=["huge", "-huge"])
@pytest.mark.parametrize("name", ["session", "model", "mode", "limits", "instructions", "workspace", "tools"])
def test_a_number_that_cannot_be_written_out_is_refused_by_name(name: str, value: int, home: Path) -> None:
    options: dict[str, Any] = {"model": scripted(), name: value}
    with pytest.raises(InvalidValue, match=name):
        mainspring.run("hello", **options)
    assert written(home) == []


@pytest.mark.parametrize("value", [HUGE, NESTED, "x" * 100_000], ids=["huge", "nested", "long"])
def test_what_is_no_tool_is_named_whatever_it_is(value: Any) -> None:
    with pytest.raises(UsageError, match="must be an async function"):
        mainspring.tool(value)


@pytest.mark.parametrize("value", [0, "", [], False])
def test_an_environment_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValue, match="environment"):
        mainspring.load_config(value)


def test_what_an_error_quotes_is_bounded_and_cannot_steer_a_terminal() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        async with mainspring.open(model=scripted()) as session:
            for name in ("\x1b[31m", "a\0b", "\ud800", "x" * 3_000_000):
                with pytest.raises(UsageError) as caught:
                    await session.set_model(name)
                told.append(str(caught.value))
        return told

    told = asyncio.run(main())
    assert [said.split("model ")[1].split(" is")[0] for said in told[:3]] == [
        r"\x1b[31m",
        r"a\x00b",
        r"\ud800",
    ]
    assert len(told[3]) < 10_000
    assert "Write PROVIDER/MODEL" in told[3]
