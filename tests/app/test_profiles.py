"""What a session gives a small model, over real HTTP: few tools, one action a reply, and one question."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import mainspring
from mainspring.app.models import look_up
from mainspring.errors import UsageError
from mainspring.events import EFFECT_SOURCE, AssistantSaid, CallEnded, NoteAdded, PromptSet, TurnEnded
from mainspring.models.capabilities import Capabilities
from mainspring.models.protocol import BAD_CALLS
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedReply
from mainspring.session.session import runtime_of
from mainspring.settings import Config, load_config
from mainspring.testing.server import ModelServer

SMALL = "coder-1.5b"


def act(action: str, **arguments: object) -> ScriptedReply:
    return ScriptedReply(text=json.dumps({"action": action, "arguments": arguments}))


def answer(text: str) -> ScriptedReply:
    return ScriptedReply(text=json.dumps({"thought": "that is all", "action": "answer", "text": text}))


def settings(tmp_path: Path, text: str = "") -> Config:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('work.priming = "off"\n' + text)
    return load_config({"HOME": str(tmp_path), "MAINSPRING_HOME": str(home)})


def session(
    tmp_path: Path, script: Script, *, config: Config | None = None, name: str = SMALL, task: str = "Do it."
) -> tuple[list[Any], list[Any]]:
    """The events of one turn, and the requests that the server saw."""
    config = config or settings(tmp_path)
    workspace = tmp_path / "work"
    workspace.mkdir(exist_ok=True)

    async def run() -> tuple[list[Any], list[Any]]:
        async with ModelServer(script) as server:
            model = f"openai-compatible@{server.url}#{name}"
            async with mainspring.open(workspace, model=model, mode="auto", config=config) as opened:
                await opened.ask(task)
                events = [each.event for each in await runtime_of(opened).journal.read()]
            return events, [seen.json() for seen in server.seen]

    return asyncio.run(run())


def only(events: list[Any], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_a_small_model_gets_flat_tools_and_is_held_to_one_action(tmp_path: Path) -> None:
    replies = (
        act("write", path="a.txt", content="one\n"),
        act("edit", path="a.txt", old="one", new="two"),
        act("find", text="two"),
        act("shell", command="cat a.txt"),
        answer("It says two."),
    )
    events, requests = session(tmp_path, Script(replies=replies))
    (prompt,) = only(events, PromptSet)
    assert prompt.profile == "small"
    assert [tool.name for tool in prompt.tools] == ["read", "write", "edit", "shell", "find", "finish"]
    assert (tmp_path / "work" / "a.txt").read_text() == "two\n"
    assert [ended.outcome for ended in only(events, CallEnded)] == ["ok"] * 4
    assert only(events, AssistantSaid)[-1].text == "It says two."
    for request in requests:
        assert "tools" not in request
        assert request["response_format"]["type"] == "json_schema"
    assert not [note for note in only(events, NoteAdded) if note.source == EFFECT_SOURCE]


def test_a_small_model_thinks_first_and_names_the_file_before_what_it_writes_there(tmp_path: Path) -> None:
    """Servers make grammars of schemas, and those have the order of the bytes that are sent."""
    _, (request, _) = session(tmp_path, Script(replies=(answer("Done."),) * 2))
    actions = request["response_format"]["json_schema"]["schema"]["anyOf"]
    assert all(next(iter(action["properties"])) == "thought" for action in actions)
    assert all(list(action["properties"])[1] == "action" for action in actions)
    orders = {
        action["properties"]["action"]["const"]: list(action["properties"]["arguments"]["properties"])
        for action in actions
        if "arguments" in action["properties"]
    }
    assert orders["write"] == ["path", "content"]
    assert orders["edit"] == ["path", "old", "new"]


def test_what_the_profile_is_can_be_said_and_is_kept(tmp_path: Path) -> None:
    config = settings(tmp_path, f'[models."{SMALL}"]\nprofile = "standard"\n')
    events, requests = session(tmp_path, Script(replies=(ScriptedReply(text="Hello."),)), config=config)
    assert only(events, PromptSet)[0].profile == "standard"
    assert len(requests[0]["tools"]) > 6
    config = settings(tmp_path, 'work.profile = "small"\n')
    events, _ = session(tmp_path, Script(replies=(answer("Hello."),) * 2), config=config, name="large")
    assert only(events, PromptSet)[0].profile == "small"

    async def resume() -> str:
        script = Script(replies=(answer("Hello."),) * 4)
        async with ModelServer(script) as server:
            model = f"openai-compatible@{server.url}#large"
            async with mainspring.open(tmp_path / "work", model=model, config=config) as first:
                name = first.id
            plain = settings(tmp_path)
            async with mainspring.open(session=name, model=model, config=plain) as again:
                state = runtime_of(again).state
            with pytest.raises(UsageError, match="profile small"):
                async with mainspring.open(session=name, model=model, profile="standard", config=plain):
                    pass
            return state.prompt.profile

    assert asyncio.run(resume()) == "small"


@pytest.mark.parametrize(
    ("task", "reply"),
    [
        ("Repariere die Datei.", "Ändere Zeile 3."),
        ("请修复这个文件。", "请修改第三行。"),
        ("Fix it.", "Change line 3."),
    ],
)
def test_a_small_model_that_did_nothing_is_asked_once(tmp_path: Path, task: str, reply: str) -> None:
    events, requests = session(tmp_path, Script(replies=(answer(reply),) * 2), task=task)
    (note,) = only(events, NoteAdded)
    assert note.source == EFFECT_SOURCE
    assert len(requests) == 2
    assert only(events, TurnEnded)[0].ending == "done"


def test_a_large_model_is_not_asked(tmp_path: Path) -> None:
    replies = (ScriptedReply(text="Hello."),)
    events, requests = session(tmp_path, Script(replies=replies), name="coder-70b")
    assert not only(events, NoteAdded)
    assert len(requests) == 1


def test_a_server_that_refuses_the_schema_gets_the_same_words_without_it(tmp_path: Path) -> None:
    body = {"error": {"message": "Failed to initialize the grammar", "type": "invalid_request_error"}}
    written = 'I will.\n```json\n{"action": "write", "arguments": {"path": "a", "content": "x"}}\n```\nDone!'
    replies = (ScriptedReply(text=written), ScriptedReply(text='{"text": "Done.", "action": "answer"}'))
    script = Script(faults=(Fault(kind="status", status=400, body=body),), replies=replies)
    events, requests = session(tmp_path, script)
    assert "response_format" in requests[0]
    assert all("response_format" not in request and "tools" not in request for request in requests[1:])
    assert (tmp_path / "work" / "a").read_text() == "x"
    assert only(events, AssistantSaid)[-1].text == "Done."
    kept = Capabilities(tmp_path / "home" / "healed.json")
    (known,) = json.loads((tmp_path / "home" / "healed.json").read_text())["models"]
    assert "response_format" in kept.known(known)


def test_a_model_that_writes_calls_as_text_is_held_to_actions_from_then_on(tmp_path: Path) -> None:
    text = '```json\n{"name": "find", "arguments": {"glob": "%s"}}\n```'
    replies = (
        ScriptedReply(text=text % "*.a"),
        ScriptedReply(text=text % "*.b"),
        act("find", glob="*.c"),
        answer("Nothing there."),
    )
    events, requests = session(tmp_path, Script(replies=replies), name="coder-70b")
    assert [("tools" in request, "response_format" in request) for request in requests] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert all("tool_calls" not in message for message in requests[2]["messages"])
    assert [ended.outcome for ended in only(events, CallEnded)] == ["ok"] * 3
    assert BAD_CALLS in (tmp_path / "home" / "healed.json").read_text()


@pytest.mark.parametrize("between", ["\n", "\n[find gave]\nnothing\n", "\n```\nThen:\n```json\n"])
def test_actions_behind_the_first_are_dropped_and_told(tmp_path: Path, between: str) -> None:
    config = settings(tmp_path, f'[models."{SMALL}"]\ntools = "text"\n')
    calls = [json.dumps({"action": "find", "arguments": {"glob": glob}}) for glob in ("*.a", "*.b")]
    both = between.join(calls)
    fence = "```json\n" if "```" in between else ""
    replies = (ScriptedReply(text=fence + both), answer("Nothing there."))
    events, requests = session(tmp_path, Script(replies=replies), config=config)
    (ended,) = only(events, CallEnded)
    assert ended.outcome == "ok"
    (note,) = [note for note in only(events, NoteAdded) if "1 behind it" in note.text]
    assert note.text in json.dumps(requests[1]["messages"])


def test_a_model_that_writes_results_itself_is_held_to_actions(tmp_path: Path) -> None:
    echo = ScriptedReply(text="<tool_response>\n3 files\n</tool_response>", calls=(ScriptedCall("find", {}),))
    _, requests = session(tmp_path, Script(replies=(echo, echo, answer("Three."))), name="coder-70b")
    assert ["response_format" in request for request in requests] == [False, False, True]


def test_a_native_call_that_cannot_be_read_counts_as_well(tmp_path: Path) -> None:
    broken = ScriptedReply(calls=(ScriptedCall(name="find", arguments='{"glob": '),))
    replies = (broken, broken, answer("Stuck."))
    _, requests = session(tmp_path, Script(replies=replies), name="coder-70b")
    assert ["response_format" in request for request in requests] == [False, False, True]


def test_results_for_a_small_model_are_short_and_the_rest_is_kept(tmp_path: Path) -> None:
    replies = (act("shell", command="seq 1 5000"), answer("Many."))
    events, _ = session(tmp_path, Script(replies=replies))
    (ended,) = only(events, CallEnded)
    assert len(ended.output) <= 6_000
    assert ended.full is not None


@pytest.mark.parametrize(
    ("name", "text", "profile", "tools", "source"),
    [
        ("ollama@http://127.0.0.1:9/v1#qwen2.5-coder:1.5b", "", "small", "schema", "billions, name"),
        ("ollama@http://127.0.0.1:9/v1#qwen3:30b-a3b", "", "standard", "native", "default"),
        ("ollama@http://127.0.0.1:9/v1#mixtral:8x7b", "", "standard", "native", "default"),
        ("groq/llama-3.1-8b-instant", "", "small", "native", "billions, name"),
        ("groq/gemma2-9b-it", "", "standard", "native", "default"),
        ("anthropic/claude-opus-4-5", "", "standard", "native", "default"),
        ("groq/big", '[models."groq/big"]\nwindow = 8192', "small", "native", "window, config"),
        (
            "ollama@http://127.0.0.1:9/v1#q:7b",
            '[models."q:7b"]\ntools = "text"',
            "small",
            "text",
            "billions, name",
        ),
    ],
)
def test_the_profile_follows_from_what_is_known(
    tmp_path: Path, name: str, text: str, profile: str, tools: str, source: str
) -> None:
    record = asyncio.run(look_up(name, settings(tmp_path, text)))
    assert (record.profile, record.tools, record.sources["profile"]) == (profile, tools, source)


def test_what_a_person_says_of_a_model_goes_into_its_requests(tmp_path: Path) -> None:
    said = (
        f'[models."{SMALL}"]\nprofile = "standard"\nparallel_calls = false\ntemperature = 0.5\ntop_p = 0.9\n'
    )
    calls = tuple(ScriptedCall(name="find", arguments=f'{{"glob": "*.{each}"}}') for each in "ab")
    replies = (ScriptedReply(calls=calls), ScriptedReply(text="Nothing."))
    events, requests = session(tmp_path, Script(replies=replies), config=settings(tmp_path, said))
    assert (requests[0]["temperature"], requests[0]["top_p"]) == (0.5, 0.9)
    assert len(only(events, CallEnded)) == 1


FILES = "Here it is.\n\n### calc.py\n```python\ndef add(a, b):\n    return a + b\n```\n\n### new.py\n```python\nNEW = 1\n```\n"


@pytest.mark.parametrize("tools", ["schema", "native"])
def test_whole_files_in_a_reply_are_written_when_a_small_model_was_shown_all_of_them(
    tmp_path: Path, tools: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    config = settings(tmp_path, f'[models."{SMALL}"]\ntools = "{tools}"\n')
    path = config.home / "config.toml"
    path.write_text(path.read_text().replace('"off"', '"on"'))
    config = load_config({"HOME": str(tmp_path), "MAINSPRING_HOME": str(config.home)})
    script = Script(replies=(ScriptedReply(text=FILES), answer("Done.")))
    events, requests = session(tmp_path, script, config=config, task="Repariere calc.py")
    assert (work / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert (work / "new.py").read_text() == "NEW = 1\n"
    assert [ended.outcome for ended in only(events, CallEnded)] == ["ok", "ok"]
    # Only the reply that may be files is free; the next one is held to an action again.
    held = ["response_format" in request for request in requests]
    assert held == [False, tools == "schema"]
    if tools == "schema":  # and only what may be a call is told of tools
        assert ["shell: " in request["messages"][0]["content"] for request in requests] == [False, True]
        (said,) = [each["content"] for each in requests[1]["messages"] if each["role"] == "assistant"]
        assert said.startswith("### calc.py\n```python\n")


def test_the_example_of_a_file_is_one_of_the_program(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "crash.txt").write_text("KeyError: 'x' in calc.py\n")
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (work / "test_calc.py").write_text("import calc\n")
    path = settings(tmp_path).home / "config.toml"
    path.write_text("")
    config = load_config({"HOME": str(tmp_path), "MAINSPRING_HOME": str(path.parent)})
    task = "The traceback is in `crash.txt`. Mend it."
    _, requests = session(tmp_path, Script(replies=(answer("No."),) * 3), config=config, task=task)
    last = requests[0]["messages"][-1]["content"]
    assert last.rstrip().endswith("### calc.py\n```python\nthe whole file, changed\n```")


def test_a_file_that_was_not_shown_whole_is_not_asked_for_whole(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n" * 500)
    path = settings(tmp_path).home / "config.toml"
    path.write_text("")
    config = load_config({"HOME": str(tmp_path), "MAINSPRING_HOME": str(path.parent)})
    replies = (answer("Done."),) * 2
    _, requests = session(tmp_path, Script(replies=replies), config=config, task="Repariere calc.py")
    assert "response_format" in requests[0]
    assert "### calc.py" not in str(requests[0]["messages"])


def test_a_small_model_that_wrote_files_as_they_are_is_asked_for_the_change_and_sampled_otherwise(
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    path = settings(tmp_path).home / "config.toml"
    path.write_text("")
    config = load_config({"HOME": str(tmp_path), "MAINSPRING_HOME": str(path.parent)})
    same = ScriptedReply(text=FILES.replace("a + b", "a - b").partition("### new.py")[0])
    replies = (same, answer("Nothing changed."), ScriptedReply(text=FILES), answer("Done."))
    events, requests = session(tmp_path, Script(replies=replies), config=config, task="Repariere calc.py")
    assert (work / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert [note.source for note in only(events, NoteAdded)].count(EFFECT_SOURCE) == 1
    assert [request.get("temperature") for request in requests] == [None, None, 0.7, None]
    assert "response_format" not in requests[2]
    assert only(events, TurnEnded)[-1].ending == "done"


WRITTEN = ScriptedReply(text='```json\n{"name": "find", "arguments": {"glob": "*.a"}}\n```')
MALFORMED = ScriptedReply(calls=(ScriptedCall(name="find", arguments='{"glob": "*.a'),))


@pytest.mark.parametrize("bad", [WRITTEN, MALFORMED], ids=["text", "malformed"])
def test_what_was_seen_of_a_model_holds_for_the_next_session(tmp_path: Path, bad: ScriptedReply) -> None:
    config, workspace = settings(tmp_path), tmp_path / "work"
    workspace.mkdir()
    script = Script(replies=(bad, bad, answer("Nothing there.")))

    async def run() -> tuple[list[Any], Any]:
        async with ModelServer(script) as server:
            model = f"openai-compatible@{server.url}#coder-70b"
            for _ in range(2):
                async with mainspring.open(workspace, model=model, mode="auto", config=config) as opened:
                    await opened.ask("Look for it.")
            requests = [(seen.reply, "tools" in seen.json()) for seen in server.seen]
            return requests, await look_up(model, config)

    requests, record = asyncio.run(run())
    second = [is_native for reply, is_native in requests[3:] if reply == 0]
    assert [is_native for _, is_native in requests[:3]] == [True, True, False]
    assert second == [False]
    assert (record.tools, record.sources["tools"]) == ("schema", "seen")
