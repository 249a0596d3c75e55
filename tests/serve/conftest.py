"""A real `mainspring serve` in a home of its own, and a client that speaks to it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.cli.conftest import Machine, machine

__all__ = ["machine"]


class Served:
    """A machine with a server, which can be ended and started again on the same port."""

    def __init__(self, machine: Machine, *arguments: str, **environment: str) -> None:
        self.machine = machine
        self.port = "0"
        self.process: subprocess.Popen[str] | None = None
        self.address = self.token = ""
        self.start(*arguments, **environment)

    def start(self, *arguments: str, **environment: str) -> None:
        command = ("serve", "--port", self.port, *arguments)
        self.process = self.machine.start(*command, is_background_job=False, **environment)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert "/#token=" in line, (line, self.process.stderr.read() if self.process.stderr else "")
        self.address, self.token = line.split("/#token=")
        self.port = self.address.rsplit(":", 1)[1]

    def end(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.communicate(timeout=60)

    def client(self, token: str | None = None, **headers: str) -> httpx2.Client:
        token = self.token if token is None else token
        given = {"authorization": f"Bearer {token}"} if token else {}
        return httpx2.Client(base_url=self.address, headers={**given, **headers}, timeout=60, trust_env=False)

    def get(self, path: str, **query: Any) -> Any:
        with self.client() as client:
            answer = client.get(f"/api/v1{path}", params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: dict[str, Any] | None = None, token: str | None = None) -> Any:
        with self.client(token) as client:
            answer = client.post(f"/api/v1{path}", json=body or {})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def stream(
        self, path: str, *, after: int = 0, token: str | None = None, **query: str
    ) -> Iterator[dict[str, Any]]:
        """The events of a stream, each as its JSON; a delta has the number 0."""
        with (
            self.client(token) as client,
            client.stream("GET", f"/api/v1{path}", params={"after": str(after), **query}) as answer,
        ):
            assert answer.status_code == 200
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])

    def until(self, session: str, kind: str, *, after: int = 0) -> list[dict[str, Any]]:
        seen = []
        for event in self.stream(f"/sessions/{session}/stream", after=after):
            seen.append(event)
            if event["kind"] == kind:
                return seen
        raise AssertionError(f"no {kind} in {[event['kind'] for event in seen]}")


@pytest.fixture
def served(machine: Machine) -> Iterator[Served]:
    served = Served(machine)
    yield served
    served.end()
