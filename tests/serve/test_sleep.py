"""A device that slept: its connections are silent, nobody has closed them, and its clock has jumped."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from playwright.sync_api import Browser, Error

from tests.serve.browsers import Visitor, begin, browser
from tests.serve.conftest import Served

__all__ = ["browser"]


class Wire:
    """A way to a server by another port. `freeze` keeps what is connected open and passes nothing on any more."""

    def __init__(self, port: int) -> None:
        self._there = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._names = (str(self.port).encode(), str(port).encode())
        assert len(self._names[0]) == len(self._names[1])
        self._age = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._age += 1

    def close(self) -> None:
        for each in (self._listener, *self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.create_connection(self._there)
                self._open += [ours, theirs]
                for pair in ((ours, theirs, self._names), (theirs, ours, (b"", b""))):
                    threading.Thread(target=self._pass, args=(*pair, self._age), daemon=True).start()

    def _pass(
        self, source: socket.socket, target: socket.socket, names: tuple[bytes, bytes], age: int
    ) -> None:
        """Headers name the port that the server knows itself by."""
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if age == self._age:
                    target.sendall(data.replace(*names) if names[0] else data)
            if age == self._age:
                target.shutdown(socket.SHUT_WR)


@pytest.fixture
def wire(served: Served) -> Iterator[Wire]:
    wire = Wire(int(served.port))
    yield wire
    wire.close()


def shown_by(served: Served, session: str) -> list[int]:
    rows = served.get(f"/sessions/{session}/view", limit=1000)["rows"]
    return [row["seq"] for row in rows if row["parts"]]


def test_streams_that_fell_silent_go_on_where_they_were(browser: Browser, served: Served, wire: Wire) -> None:
    session = begin(served, {"text": "before it slept"}, {"text": "while it slept"}, {"text": "after that"})
    served.until(session, "TurnEnded")
    ran = served.machine.run("run", "--model", served.machine.serve({"text": "gone soon"}), "briefly")
    assert ran.returncode == 0, ran.stderr
    (other,) = (row["id"] for row in served.get("/sessions") if row["id"] != session)
    visitor = Visitor(browser, served)
    page = visitor.page
    page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"http://127.0.0.1:{wire.port}/#token={served.token}")
    page.wait_for_selector(f"a[href='#/s/{other}']")
    page.goto(f"http://127.0.0.1:{wire.port}/#/s/{session}")
    page.wait_for_selector(".part.text >> text=before it slept")
    page.wait_for_selector(".chip >> text=done")
    before = visitor.rows()
    assert before == shown_by(served, session)
    last = served.get(f"/sessions/{session}")["events"]

    wire.freeze()
    asked.clear()
    deleted = served.machine.run("sessions", "delete", other, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    served.post(f"/sessions/{session}/say", {"text": "more"})
    served.until(session, "TurnEnded", after=last)
    assert visitor.rows() == before
    assert not page.locator("text=Connection lost").count()

    page.clock.fast_forward("10:00")
    woken = page.locator(".part.text >> text=while it slept")
    for _ in range(20):  # each connection that the browser had kept is tried and given up
        if woken.is_visible():
            break
        with suppress(Error):
            woken.wait_for(timeout=500)
        page.clock.fast_forward("00:10")
    woken.wait_for()
    page.wait_for_selector("text=Connection lost", state="detached")
    assert visitor.rows() == shown_by(served, session)
    assert next(each for each in asked if "/stream?view=1" in each).endswith(f"after={last}")
    assert any(each.endswith("/api/v1/stream") for each in asked)

    page.get_by_label("Say something").fill("and now")
    page.keyboard.press("Enter")
    page.wait_for_selector(".part.text >> text=after that")
    page.wait_for_selector(".part.end >> nth=2")
    assert visitor.rows() == shown_by(served, session)
    page.click("nav >> text=Sessions")
    page.wait_for_selector(f"a[href='#/s/{session}']")
    assert not page.query_selector(f"a[href='#/s/{other}']")
    assert visitor.problems == []
    visitor.context.close()
