import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mainspring.errors import ConfigError
from mainspring.events import TextDelta
from mainspring.models import Request, UserMessage
from mainspring.models.connect import connect
from mainspring.models.scripted import (
    Case,
    Fault,
    Script,
    ScriptedCall,
    ScriptedModel,
    ScriptedReply,
    load_script,
)
from mainspring.testing.server import HostedModelServer, ModelServer

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "yes"}


def post(url: str, *messages: dict[str, Any], stream: bool = False) -> httpx2.Response:
    body = {"model": "m", "stream": stream, "messages": list(messages)}
    return httpx2.post(f"{url}/chat/completions", json=body, trust_env=False)


def said(response: httpx2.Response) -> str:
    return response.json()["choices"][0]["message"]["content"]


def test_the_reply_depends_only_on_the_request() -> None:
    script = Script((ScriptedReply("one"), ScriptedReply("two")))
    with HostedModelServer(script) as server:
        assert [said(post(server.url, USER)) for _ in range(2)] == ["one", "one"]
        assert said(post(server.url, USER, SAID)) == "two"
        assert said(post(server.url, USER, SAID, SAID)) == "The script is over."


def test_faults_come_the_given_number_of_times_and_then_the_reply() -> None:
    faults = (Fault(kind="status", status=429, times=2, retry_after=3), Fault(kind="status", status=503))
    with HostedModelServer(Script((ScriptedReply("one", faults=faults),))) as server:
        answers = [post(server.url, USER) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [429, 429, 503, 200]
    assert answers[0].headers["retry-after"] == "3"
    assert [seen.fault for seen in server.seen] == ["status", "status", "status", ""]


def test_a_stream_is_made_of_events_and_ends_with_done() -> None:
    reply = ScriptedReply("hello", calls=(ScriptedCall("read", "not json"),), chunk_size=2)
    with HostedModelServer(Script((reply,))) as server:
        lines = [line for line in post(server.url, USER, stream=True).text.split("\n") if line]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    deltas = [json.loads(line[6:])["choices"][0]["delta"] for line in lines[:-2]]
    assert [delta["content"] for delta in deltas[1:4]] == ["he", "ll", "o"]
    assert deltas[4]["tool_calls"][0]["function"] == {"name": "read", "arguments": ""}


def test_requests_are_recorded_with_their_bytes_and_times() -> None:
    script = Script((ScriptedReply("one"),))
    with HostedModelServer(script) as server, httpx2.Client(trust_env=False) as client:
        for _ in range(2):
            client.post(f"{server.url}/chat/completions", content=b'{"messages":[]}')
        seen = client.get(f"{server.url.removesuffix('/v1')}/requests").json()
    assert [request["body"] for request in seen] == ['{"messages":[]}'] * 2
    assert seen[0]["idle_ns"] is None
    assert seen[1]["idle_ns"] > 0
    assert seen[0]["connection"] == seen[1]["connection"]
    assert server.seen[1].body == b'{"messages":[]}'


def test_bodies_are_left_out_when_asked() -> None:
    with HostedModelServer(Script(), keep_bodies=False) as server:
        post(server.url, USER)
    assert server.seen[0].body == b""
    assert server.seen[0].size > 0


def test_models_are_listed_and_other_places_are_empty() -> None:
    with HostedModelServer(Script(models=("a", "b"))) as server:
        listed = httpx2.get(f"{server.url}/models", trust_env=False).json()
        assert [model["id"] for model in listed["data"]] == ["a", "b"]
        assert httpx2.get(f"{server.url}/nothing", trust_env=False).status_code == 404
        assert httpx2.post(f"{server.url}/nothing", trust_env=False).status_code == 404


def test_what_is_not_a_request_is_refused() -> None:
    with HostedModelServer(Script()) as server:
        answer = httpx2.post(f"{server.url}/chat/completions", content=b"nonsense", trust_env=False)
    assert answer.status_code == 400


def test_a_misspelt_script_is_refused_and_the_command_says_where(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"txet": "x"}]}')
    with pytest.raises(ConfigError, match="txet"):
        load_script(script)
    command = [sys.executable, "-m", "mainspring.testing.server", str(script)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert refused.returncode == 2
    assert "txet" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_server_and_a_model_without_one_play_the_same_script() -> None:
    replies = (ScriptedReply(text="usually"),)
    script = Script(replies=replies, cases=(Case("iteration 2", (ScriptedReply(text="the second time"),)),))

    async def played(model: Any, text: str) -> str:
        request = Request(system="", tools=(), messages=[model.encode(UserMessage(text=text))])
        async with aclosing(model.stream(request)) as items:
            return "".join([item.text async for item in items if isinstance(item, TextDelta)])

    async def scene() -> None:
        async with ModelServer(script) as server:
            for model in (ScriptedModel(script), connect(f"openai-compatible@{server.url}#x", {})):
                assert await played(model, "begin") == "usually"
                assert await played(model, "this is iteration 2") == "the second time"
                await model.close()

    asyncio.run(scene())


def test_faults_need_a_server_and_a_model_without_one_says_so() -> None:
    with pytest.raises(ConfigError, match="faults") as raised:
        ScriptedModel(Script(replies=(ScriptedReply(fault=Fault(kind="drop")),)))
    assert "mainspring.testing.server" in raised.value.remedy


def test_it_runs_from_the_command_line_and_says_its_address_first(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"text": "from a file"}]}')
    command = [sys.executable, "-m", "mainspring.testing.server", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert said(post(url, USER)) == "from a file"
        process.terminate()
        assert process.wait() == 0
