"""The local model against what a real llama.cpp server said (`tests/streams/llamacpp-*`)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app.models import build_model, ready, ready_later
from mainspring.errors import ModelError, NetworkFailed
from mainspring.events import CallDelta, Effort, Profile, Speed, TextDelta, ToolSpec
from mainspring.models import ReplyFinished, Request, UserMessage
from mainspring.models.local import LocalAnswer, LocalSettings
from mainspring.models.local.model import LocalModel, threads
from mainspring.models.pool import ModelPool
from mainspring.models.probe import probe_server
from mainspring.models.retry import Retried
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.models.served import ServedModel
from mainspring.settings import load_config
from mainspring.testing.server import ModelServer

STREAMS = Path(__file__).parent.parent.parent / "streams"
TOOL = ToolSpec(
    name="read",
    description="Reads a file.",
    parameters={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
)
RECORDED = {
    "/v1/models": (STREAMS / "llamacpp-models.json").read_bytes(),
    "/props": (STREAMS / "llamacpp-props.json").read_bytes(),
}


def recorded(name: str) -> bytes:
    return (STREAMS / f"llamacpp-{name}.txt").read_bytes()


@asynccontextmanager
async def serving(replies: dict[str, bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A server that answers each path with the same bytes, and what it was sent."""
    seen: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            (int(line[15:]) for line in head.lower().splitlines() if line.startswith("content-length")), 0
        )
        seen.append(await reader.readexactly(length))
        body = replies.get(head.split()[1])
        kind = "text/event-stream" if body and body.startswith(b"data:") else "application/json"
        status = "200 OK" if body is not None else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n"
            f"content-length: {len(body or b'')}\r\n\r\n".encode()
            + (body or b"")
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", seen


class Process:
    """What stands for the process that holds the model."""

    def __init__(self, url: str, error: str = "") -> None:
        self.answer = msgspec.json.encode(LocalAnswer(url=url, error=error))
        self.is_alive = True

    def log_tail(self) -> str:
        return "no such tensor"

    async def close(self) -> None:
        self.is_alive = False


def playing(stream: str | bytes, use: Callable[[LocalModel, list[Any], list[bytes]], Any]) -> Any:
    async def play() -> Any:
        body = stream if isinstance(stream, bytes) else recorded(stream)
        async with serving({**RECORDED, "/v1/chat/completions": body}) as (url, seen):
            started: list[Any] = []

            async def start(line: bytes) -> Process:
                started.append((msgspec.json.decode(line, type=LocalSettings), Process(url)))
                return started[-1][1]

            model = LocalModel("local", Path("m.gguf"), start, context_tokens=4096)
            await model.start()
            try:
                return await use(model, started, seen)
            finally:
                await model.close()

    return asyncio.run(play())


async def _ask(model: LocalModel, *_: Any) -> list[Any]:
    request = Request(system="Be brief.", tools=(TOOL,), messages=[model.encode(UserMessage("go"))])
    return [item async for item in model.stream(request)]


def test_a_call_that_it_was_held_to_is_a_call() -> None:
    call, finished = playing("call", _ask)
    assert isinstance(call, CallDelta)
    assert (call.name, msgspec.json.decode(call.arguments)) == ("read", {"path": "notes.txt"})
    assert finished.stop == "calls"
    assert finished.usage.output_tokens > 0
    assert isinstance(finished.speed, Speed)
    assert finished.speed.output_per_s > 0


def test_an_answer_comes_in_pieces() -> None:
    *deltas, finished = playing("answer", _ask)
    assert len(deltas) > 5
    assert "".join(delta.text for delta in deltas) == "Hello, I am a Python user. How can I help you?"
    assert finished.stop == "end"


def test_an_answer_that_was_cut_off_says_so() -> None:
    *deltas, finished = playing("cut", _ask)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    assert isinstance(finished, ReplyFinished)
    assert finished.stop == "length"


def test_it_says_what_it_takes_and_costs_nothing() -> None:
    async def look(model: LocalModel, started: list[Any], _: list[bytes]) -> Any:
        return model.context_tokens, model.price, started[0][0]

    context, price, sent = playing("call", look)
    assert context == 8192
    assert price is not None
    assert price.output == price.input == 0
    assert (sent.context_tokens, sent.threads) == (4096, threads())
    assert len(sent.key) > 20


def test_the_request_holds_it_to_a_schema_and_describes_the_tools() -> None:
    async def send(model: LocalModel, _: list[Any], seen: list[bytes]) -> Any:
        await _ask(model)
        return msgspec.json.decode(seen[-1])

    sent = playing("call", send)
    assert "tools" not in sent
    assert sent["response_format"]["type"] == "json_schema"
    assert "read: Reads a file." in sent["messages"][0]["content"]
    assert sent["max_tokens"] == 2048


def test_a_structured_answer_beside_tools_is_held_to_its_schema_and_told() -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 7}},
        "required": ["city"],
    }
    answer = {"action": "final_answer", "arguments": {"city": "Ulm"}}
    chunk = {"choices": [{"index": 0, "delta": {"content": json.dumps(answer)}}]}
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in (chunk, end)) + "data: [DONE]\n\n"

    async def ask(model: LocalModel, _: list[Any], seen: list[bytes]) -> Any:
        said = [model.encode(UserMessage("go"))]
        request = Request(system="Be brief.", tools=(TOOL,), messages=said, schema=schema)
        return [item async for item in model.stream(request)], json.loads(seen[-1])

    (text, finished), sent = playing(stream.encode(), ask)
    assert (json.loads(text.text), finished.stop) == ({"city": "Ulm"}, "end")
    actions = {
        each["properties"]["action"]["const"]: each["properties"]
        for each in sent["response_format"]["json_schema"]["schema"]["anyOf"]
    }
    assert set(actions) == {"read", "final_answer"}
    assert set(actions["final_answer"]["arguments"]["properties"]) == {"city", "people"}
    told = sent["messages"][0]["content"]
    assert json.dumps(schema, separators=(",", ":")) in told
    assert '"answer"' not in told
    assert "tool_choice" not in sent


def test_a_server_that_died_is_started_again() -> None:
    async def die(model: LocalModel, started: list[Any], _: list[bytes]) -> int:
        started[0][1].is_alive = False
        await _ask(model)
        return len(started)

    assert playing("call", die) == 2


def test_a_model_that_cannot_be_loaded_says_why() -> None:
    async def start(_: bytes) -> Process:
        return Process("", "RuntimeError: failed to load model")

    async def load() -> None:
        await _ask(LocalModel("local", Path("bad.gguf"), start, context_tokens=1))

    with pytest.raises(ModelError, match=r"bad\.gguf could not be loaded: RuntimeError") as caught:
        asyncio.run(load())
    assert "no such tensor" in caught.value.remedy


SERVERS = {
    "llama.cpp": (
        RECORDED,
        ServedModel(
            "smollm2.gguf",
            8192,
            has_tools=False,
            billions=0.134515008,
            has_images=False,
            has_parallel_calls=False,
            has_thinking_cap=True,
            temperature=0.2,
            top_p=0.95,
        ),
    ),
    "vLLM": (
        {"/v1/models": b'{"data":[{"id":"q","max_model_len":32768}]}'},
        ServedModel("q", 32768),
    ),
    "LM Studio": (
        {
            "/v1/models": b'{"data":[{"id":"q"}]}',
            "/api/v0/models": b'{"data":[{"id":"q","type":"vlm","loaded_context_length":4096,'
            b'"max_context_length":9,"capabilities":["tool_use"]}]}',
        },
        ServedModel("q", 4096, has_tools=True, has_images=True),
    ),
    "Ollama": (
        {
            "/v1/models": b'{"data":[{"id":"q:1b"}]}',
            "/api/ps": b'{"models":[{"name":"q:1b","context_length":4096}]}',
            "/api/tags": b'{"models":[{"name":"q:1b","details":{"parameter_size":"1.2B"}}]}',
        },
        ServedModel("q:1b", 4096, billions=1.2),
    ),
    "an old Ollama": (
        {"/api/ps": b'{"models":[]}', "/api/tags": b'{"models":[{"name":"q:1b"}]}'},
        ServedModel("q:1b"),
    ),
    "one that says no more": ({"/v1/models": b'{"data":[{"id":"q"}]}'}, ServedModel("q")),
}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("suffix", ["", "/v1", "/v1/"])
def test_a_server_by_its_url_says_what_it_serves(name: str, suffix: str) -> None:
    replies, expected = SERVERS[name]

    async def probe() -> tuple[ServedModel, ...]:
        async with serving(replies) as (url, _):
            return await probe_server(url + suffix)

    assert asyncio.run(probe()) == (expected,)


def test_ollama_is_asked_for_more_of_the_model_that_is_wanted() -> None:
    shown = {
        "capabilities": ["completion", "tools", "thinking"],
        "parameters": 'num_ctx                        8192\nstop "<|im_end|>"\ntemperature 0.7\ntop_p 0.8',
        "details": {"parameter_size": "7.6B"},
        "model_info": {"general.parameter_count": 7_615_616_512, "qwen2.context_length": 131072},
    }
    replies = {
        "/v1/models": b'{"data":[{"id":"q:latest"},{"id":"other"}]}',
        "/api/ps": b'{"models":[]}',
        "/api/show": json.dumps(shown).encode(),
    }

    async def probe() -> tuple[ServedModel, ...]:
        async with serving(replies) as (url, seen):
            served = await probe_server(url, model="q")
            assert b'{"model":"q"}' in seen
            return served

    asked, other = asyncio.run(probe())
    assert asked == ServedModel(
        "q:latest",
        8192,
        has_tools=True,
        billions=7.615616512,
        has_images=False,
        has_thinking=True,
        temperature=0.7,
        top_p=0.8,
    )
    assert other == ServedModel("other")


def test_a_url_without_a_server_is_told() -> None:
    with pytest.raises(NetworkFailed, match="does not answer with a list of models"):
        asyncio.run(probe_server("http://127.0.0.1:9"))


def test_a_server_may_serve_several_models_and_other_paths_of_it_are_not_one() -> None:
    async def probe() -> tuple[ServedModel, ...]:
        async with ModelServer(Script(models=("a", "b"))) as server:
            with pytest.raises(NetworkFailed):
                await probe_server(f"{server.url}/wrong")
            return await probe_server(server.url, "k")

    assert asyncio.run(probe()) == (ServedModel("a"), ServedModel("b"))


def test_a_local_model_that_is_taken_later_is_loaded_before_anything_is_said_in_its_words() -> None:
    """Whether it was taught to make calls decides how a history is told to it."""

    async def take(model: LocalModel, *_: Any) -> bytes:
        fresh = LocalModel("local", Path("m.gguf"), model._start_server, context_tokens=4096)
        lineup = ModelPool(
            ScriptedModel(Script()), (fresh,), ready=partial(ready_later, config=load_config({}))
        )
        taken = await lineup.take("local")
        assert isinstance(taken, Retried)
        assert lineup.find("local") is taken
        assert taken.context_tokens == model.context_tokens
        encoded = taken.encode(UserMessage("go"))
        await lineup.close()
        return encoded if encoded == model.encode(UserMessage("go")) else b""

    assert playing("call", take)


def test_a_local_model_that_cannot_be_loaded_later_says_so_at_its_first_request() -> None:
    async def start(_: bytes) -> Process:
        return Process("", error="not enough memory")

    async def ask() -> None:
        lineup = ModelPool(
            ScriptedModel(Script()),
            (LocalModel("local", Path("m.gguf"), start, context_tokens=4096),),
            ready=partial(ready_later, config=load_config({})),
        )
        model = await lineup.take("local")
        async for _ in model.stream(Request("s", (), [])):
            pass

    with pytest.raises(ModelError, match="not enough memory"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("profile", "effort", "settings", "cap"),
    [
        ("small", None, "", 640),
        ("small", "low", "", 256),
        ("standard", None, "", None),
        ("standard", None, "thinking_tokens = 99", 99),
        ("small", "high", "thinking_tokens = 0", 0),
    ],
)
def test_a_small_model_that_llama_cpp_serves_may_not_think_for_long(
    tmp_path: Path, profile: Profile, effort: Effort | None, settings: str, cap: int | None
) -> None:
    (tmp_path / "config.toml").write_text(f'[models."m"]\n{settings}\n')
    config = load_config({"MAINSPRING_HOME": str(tmp_path)})

    async def ask() -> dict[str, Any]:
        replies = {**RECORDED, "/v1/chat/completions": recorded("call")}
        async with serving(replies) as (url, seen):
            model, _ = await ready(build_model(f"openai-compatible@{url}/v1#m", config), config, profile)
            messages = [model.encode(UserMessage("go"))]
            async with aclosing(model.stream(Request("s", (TOOL,), messages, effort=effort))) as items:
                async for _ in items:
                    pass
            await model.close()
        return msgspec.json.decode(seen[-1])

    assert asyncio.run(ask()).get("thinking_budget_tokens") == cap
