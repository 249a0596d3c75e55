"""The example plugin against a loopback double of a hub: reading is free, writing is asked for."""

from __future__ import annotations

import base64
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mainspring.events import ApprovalAsked, CallEnded, Limits
from mainspring.testing import Stage, tool_call
from mainspring.testing.plugins import check_plugin

SOURCE = Path(__file__).parents[2] / "examples" / "hub_plugin" / "src" / "mainspring_hub" / "__init__.py"
ANSWERS: dict[str, Any] = {
    "GET /api/models": [{"id": "a/tiny", "downloads": 3}],
    "GET /api/models/a/tiny/tree/main": [{"path": "README.md", "size": 5}],
    "GET /a/tiny/resolve/main/README.md": "hello",
    "GET /api/models/a/tiny/refs": {"branches": [{"name": "main"}, {"name": "next"}]},
    "GET /api/models/a/tiny/discussions": {"discussions": [{"num": 2, "status": "open", "title": "Better"}]},
    "POST /api/repos/create": {"url": "https://hub.example/a/new"},
    "POST /api/models/a/tiny/commit/next": {"commitUrl": "https://hub.example/commit/1"},
    "POST /api/models/a/tiny/branch/next": {},
    "POST /api/models/a/tiny/discussions": {"num": 3},
    "POST /api/models/a/tiny/discussions/3/merge": {},
}
READING = [
    ("search", {"repository": "tiny"}, "a/tiny  3 downloads"),
    ("files", {}, "README.md  5 bytes"),
    ("read", {"path": "README.md"}, "hello"),
    ("branches", {}, "main\nnext"),
    ("pulls", {}, "#2 open: Better"),
]
WRITING = [
    ("create", {"repository": "a/new"}, "https://hub.example/a/new"),
    ("write", {"path": "a.txt", "text": "new", "branch": "next"}, "https://hub.example/commit/1"),
    ("branch", {"branch": "next"}, "The branch next was made."),
    ("pull", {"text": "Better"}, "#3 was opened."),
    ("merge", {"number": 3}, "#3 was merged."),
]
SEEN: list[tuple[str, str, bytes]] = []


class Hub(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        asked = f"{self.command} {self.path.partition('?')[0]}"
        SEEN.append((asked, self.headers.get("authorization", ""), body))
        found = ANSWERS.get(asked)
        data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_POST = do_GET  # noqa: N815 - names of the standard library

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def plugin(address: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_token_of_a_test")
    SEEN.clear()
    spec = importlib.util.spec_from_file_location("mainspring_hub", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PLUGIN


def calls(cases: list[tuple[str, dict[str, Any], str]]) -> list[Any]:
    return [
        tool_call("hub", operation=operation, **{"repository": "a/tiny", **given})
        for operation, given, _ in cases
    ]


def test_reading_is_free_also_where_nothing_else_is(plugin: Any, tmp_path: Path) -> None:
    check_plugin(plugin)
    stage = Stage(tmp_path, *calls(READING), "done")
    stage.run("x", tools=plugin.tools, mode="plan")
    assert [each.output for each in stage.events(CallEnded)] == [said for _, _, said in READING]
    assert {key for _, key, _ in SEEN} == {"Bearer hf_token_of_a_test"}


def test_writing_is_refused_where_one_only_reads_and_done_once_it_may(plugin: Any, tmp_path: Path) -> None:
    refused = Stage(tmp_path / "plan", *calls(WRITING), "done")
    refused.run("x", tools=plugin.tools, mode="plan")
    assert {each.outcome for each in refused.events(CallEnded)} == {"refused"}
    assert SEEN == []
    stage = Stage(tmp_path / "yolo", *calls(WRITING), "done")
    stage.run("x", tools=plugin.tools, mode="yolo", limits=Limits(max_cost_usd=1))
    assert [each.output for each in stage.events(CallEnded)] == [said for _, _, said in WRITING]
    assert stage.events(ApprovalAsked) == []
    head, file = map(json.loads, SEEN[1][2].splitlines())
    assert head["value"]["summary"] == "Write a.txt"
    assert base64.b64decode(file["value"]["content"]) == b"new"


def test_what_the_hub_refuses_is_told_to_the_model(plugin: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path, tool_call("hub", operation="show", repository="a/none"), "done")
    stage.run("x", tools=plugin.tools)
    assert stage.events(CallEnded)[0].output.startswith("The hub answered 404")
