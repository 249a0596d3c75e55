"""A server on loopback that takes what channels send, and says what it got."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import machine
from tests.serve.conftest import served

__all__ = ["machine", "served"]


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


class Receiver:
    """`answers` are the statuses that it gives, one after the other, perhaps with headers and a body; then
    200."""

    def __init__(self) -> None:
        self.answers: list[int | tuple[int, dict[str, str], bytes]] = []
        self.got: list[dict[str, Any]] = []
        self.arrived = threading.Condition()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                answer = receiver.answers.pop(0) if receiver.answers else 200
                status, more, told = (answer, {}, b"ok") if isinstance(answer, int) else answer
                headers = {name.lower(): value for name, value in self.headers.items()}
                with receiver.arrived:
                    receiver.got.append(
                        {"path": self.path, "headers": headers, "raw": body, "body": _decoded(body)}
                    )
                    receiver.arrived.notify_all()
                self.send_response(status)
                for name, value in {**more, "content-length": str(len(told))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(told)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is called there
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def wait(self, count: int) -> list[dict[str, Any]]:
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.got) >= count, 60), self.got
            return list(self.got)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()
