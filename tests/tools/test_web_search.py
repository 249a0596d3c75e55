"""Web search against loopback doubles of the documented wires: what is asked, what is found, what it costs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring.app.search import search_tools
from mainspring.events import CallEnded, Limits, SpendSettled
from mainspring.models import Price
from mainspring.models.search_settings import SearchSettings
from mainspring.settings import Config, load_config
from mainspring.testing import Stage, tool_call

URL = "https://example.org/a"
ANSWERS: dict[str, Any] = {
    "/search": {
        "query": "q",
        "results": [{"url": URL, "title": "A", "content": "About <b>a</b>"}, {"url": "javascript:1"}],
    },
    "/brave": {"web": {"results": [{"url": URL, "title": "A", "description": "About <strong>a</strong>"}]}},
    "/own": {"data": [{"link": URL, "name": "A", "snippet": "About a"}, {"link": URL}]},
    "/v1/messages": {
        "content": [
            {"type": "server_tool_use", "id": "1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "1",
                "content": [
                    {
                        "type": "web_search_result",
                        "url": URL,
                        "title": "A",
                        "encrypted_content": "x",
                        "page_age": None,
                    }
                ],
            },
            {
                "type": "text",
                "text": "It is a.",
                "citations": [
                    {"type": "web_search_result_location", "url": URL, "title": "A", "cited_text": "About a"}
                ],
            },
        ],
        "usage": {"input_tokens": 1000, "output_tokens": 100, "server_tool_use": {"web_search_requests": 1}},
    },
    "/responses": {
        "output": [
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "sources": [{"type": "url", "url": URL}]},
            },
            {
                "type": "message",
                "content": [
                    {
                        "type": "output_text",
                        "text": "It is a.",
                        "annotations": [
                            {
                                "type": "url_citation",
                                "url": URL,
                                "title": "A",
                                "start_index": 0,
                                "end_index": 2,
                            }
                        ],
                    }
                ],
            },
        ],
        "usage": {"input_tokens": 1000, "output_tokens": 100},
    },
    "/models/gemini-9:generateContent": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "It is a."}]},
                "groundingMetadata": {
                    "webSearchQueries": ["q"],
                    "groundingChunks": [{"web": {"uri": URL, "title": "A"}}],
                    "groundingSupports": [
                        {"segment": {"endIndex": 8, "text": "About a"}, "groundingChunkIndices": [0]}
                    ],
                },
            }
        ],
        "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 100},
    },
}


class Double(ThreadingHTTPServer):
    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], Any]] = []
        self.answer: tuple[int, bytes] | None = None
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Double  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.seen.append((self.path, headers, json.loads(body) if body else None))
        path = self.path.partition("?")[0]
        if path.startswith("http://"):
            path = "/" + path.split("/", 3)[3]
        status, data = self.server.answer or (200, json.dumps(ANSWERS[path]).encode())
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[Double]:
    with Double() as double:
        thread = threading.Thread(target=double.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield double
        double.shutdown()
        thread.join()


@pytest.fixture
def double(server: Double) -> Double:
    server.seen.clear()
    server.answer = None
    return server


def config_of(folder: Path, settings: SearchSettings, **environment: str) -> Config:
    config = load_config({"MAINSPRING_HOME": str(folder / "home"), "HOME": str(folder), **environment})
    return msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, search=settings))


def searched(folder: Path, config: Config, query: str = "what is a & b?") -> tuple[CallEnded, float]:
    """How the call ended, and what the session spent in all: its model is free."""
    stage = Stage(folder, tool_call("web_search", query=query), "done")
    stage.run("x", config=config, mode="yolo", limits=Limits(max_cost_usd=1))
    return stage.events(CallEnded)[0], stage.events(SpendSettled)[-1].total_usd


KEYS = {
    "ANTHROPIC_API_KEY": "k-anthropic-123456",
    "OPENAI_API_KEY": "k-openai-123456",
    "GEMINI_API_KEY": "k-gemini-123456",
}


def test_searxng_is_asked_for_json_and_costs_nothing(double: Double, tmp_path: Path) -> None:
    ended, spent_usd = searched(
        tmp_path, config_of(tmp_path, SearchSettings(backend="searxng", url=double.url))
    )
    assert (ended.outcome, ended.output) == ("ok", f"1. A\n   {URL}\n   About a")
    assert double.seen[0][0] == "/search?q=what+is+a+%26+b%3F&format=json"
    assert not spent_usd


def test_brave_gets_its_key_and_its_price_is_in_the_ledger(double: Double, tmp_path: Path) -> None:
    settings = SearchSettings(backend="brave", url=f"{double.url}/brave", results=3)
    ended, spent_usd = searched(tmp_path, config_of(tmp_path, settings, BRAVE_API_KEY="brave-secret-123"))
    assert ended.output == f"1. A\n   {URL}\n   About a"
    path, headers, _ = double.seen[0]
    assert path.endswith("&count=3")
    assert headers["x-subscription-token"] == "brave-secret-123"
    assert spent_usd == 0.005


def test_any_address_that_answers_json_does(double: Double, tmp_path: Path) -> None:
    settings = SearchSettings(
        backend="url", url=f"{double.url}/own?find={{query}}", headers={"x-key": "${MINE}"}
    )
    ended, _spent_usd = searched(tmp_path, config_of(tmp_path, settings, MINE="mine"))
    assert ended.output == f"1. A\n   {URL}\n   About a"
    assert double.seen[0][0] == "/own?find=what+is+a+%26+b%3F"
    assert double.seen[0][1]["x-key"] == "mine"


@pytest.mark.parametrize(
    ("model", "tool", "key"),
    [
        (
            "anthropic@{url}#claude-9",
            {"type": "web_search_20250305", "name": "web_search", "max_uses": 1},
            "x-api-key",
        ),
        ("openai@{url}#gpt-9", {"type": "web_search"}, "authorization"),
        ("gemini@{url}#gemini-9", {"google_search": {}}, "x-goog-api-key"),
    ],
)
def test_a_provider_searches_with_its_own_tool(
    double: Double, tmp_path: Path, model: str, tool: dict[str, Any], key: str
) -> None:
    name = model.format(url=double.url)
    config = config_of(tmp_path, SearchSettings(backend="provider", model=name, cost_usd=0.01), **KEYS)
    prices = {name: msgspec.convert({"input": 1.0, "output": 10.0}, Price)}
    config = msgspec.structs.replace(config, settings=msgspec.structs.replace(config.settings, prices=prices))
    ended, spent_usd = searched(tmp_path, config)
    assert ended.outcome == "ok", ended.output
    assert ended.output.startswith("It is a.\n1. A\n")
    assert URL in ended.output
    _, headers, body = double.seen[0]
    assert body["tools"] == [tool]
    assert "123456" in headers[key]
    assert spent_usd == pytest.approx(0.01 + 0.001 + 0.001)


def test_a_search_whose_price_nobody_knows_is_asked_for(double: Double, tmp_path: Path) -> None:
    settings = SearchSettings(backend="provider", model=f"anthropic@{double.url}#claude-unknown-9")
    ((tool,), warnings) = search_tools(config_of(tmp_path, settings, **KEYS))
    assert warnings == ()
    assert tool.cost_usd is not None
    assert tool.cost_usd(None) is None, "the policy asks for what has no price"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((429, b"slow down"), "answered 429: slow down"),
        ((200, b"<html>"), "in JSON"),
        ((200, b"{}"), "No results"),
    ],
)
def test_what_goes_wrong_is_told_to_the_model(
    double: Double, tmp_path: Path, answer: tuple[int, bytes], said: str
) -> None:
    double.answer = answer
    ended, _spent_usd = searched(
        tmp_path, config_of(tmp_path, SearchSettings(backend="searxng", url=double.url))
    )
    assert said in ended.output
    assert (ended.outcome == "ok") == (said == "No results")


def test_a_proxy_of_the_environment_is_used(double: Double, tmp_path: Path) -> None:
    settings = SearchSettings(backend="searxng", url="http://search.invalid")
    ended, _spent_usd = searched(tmp_path, config_of(tmp_path, settings, http_proxy=double.url))
    assert ended.outcome == "ok", ended.output
    assert double.seen[0][0].startswith("http://search.invalid/search?q=")


def test_a_secret_in_a_result_reaches_no_journal_and_no_model(double: Double, tmp_path: Path) -> None:
    secret = "s3cret-value-of-mine-9876"
    double.answer = (200, json.dumps({"results": [{"url": URL, "title": f"leaked {secret}"}]}).encode())
    settings = SearchSettings(backend="searxng", url=double.url)
    stage = Stage(tmp_path, tool_call("web_search", query="q"), "done")
    config = config_of(tmp_path, settings, MY_API_KEY=secret)
    stage.run("x", config=config, mode="yolo", limits=Limits(max_cost_usd=1))
    assert secret not in stage.events(CallEnded)[0].output
    assert all(secret.encode() not in message for request in stage.requests for message in request.messages)


def test_the_policy_judges_the_host_and_plan_mode_refuses(double: Double, tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("web_search", query="q"), "done")
    stage.run("x", config=config_of(tmp_path, SearchSettings(backend="searxng", url=double.url)), mode="plan")
    assert stage.events(CallEnded)[0].outcome == "refused"
    assert double.seen == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (SearchSettings(), ""),
        (SearchSettings(backend="brave"), "BRAVE_API_KEY"),
        (SearchSettings(backend="searxng"), "http://"),
        (SearchSettings(backend="url", url="https://example.org"), "{query}"),
        (SearchSettings(backend="provider", model="deepseek/deepseek-chat"), ""),
    ],
)
def test_without_a_backend_that_works_there_is_no_tool_and_it_is_told(
    tmp_path: Path, settings: SearchSettings, said: str
) -> None:
    stage = Stage(tmp_path, "done")
    stage.run("x", config=config_of(tmp_path, settings))
    assert "web_search" not in [tool.name for tool in stage.requests[0].tools]
    told = [str(item.event) for item in stage.journal() if "Web search is not offered" in str(item.event)]
    assert bool(told) == bool(settings.backend)
    assert all(said in each for each in told)
