"""The fleet in a real Chromium, with a real Postgres and a real worker: what it shows, and that it steers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from mainspring.journal.postgres.connection import StoreAddress
from tests.postgres import execute
from tests.serve.browsers import PHONE, Visitor, browser
from tests.serve.conftest import Served
from tests.serve.test_views import AXE, BROKEN, RUN_AXE
from tests.shared_store import Shared, ended, until_true
from tests.telemetry.test_metrics import samples

__all__ = ["browser"]
SLOW = {"calls": [{"name": "shell", "arguments": {"command": "echo begun >> begun; sleep 600"}}]}


class Fleet:
    """Machines that share a store: a worker that is busy, a session that waits, and one that was set aside. It is
    made before the browser, which keeps an event loop of its own."""

    def __init__(self, machine: Shared) -> None:
        self.machine = machine
        self.busy = machine.queue("work for long", machine.serve(SLOW, {"text": "done"}))
        self.worker: subprocess.Popen[str] = machine.start("worker", "--capacity", "1")
        until_true((machine.workspace / "begun").exists)
        model = machine.serve({"text": "done"})
        self.waiting = machine.queue("wait for a worker", model)
        self.failed = machine.queue("crash again and again", model)
        execute(
            StoreAddress(machine.url),
            "UPDATE mainspring.queue SET is_set_aside = true, crashes = 3, detail = $2 WHERE session = $1",
            self.failed,
            "its process ended 3 times without progress",
        )
        self.served = Served(machine)

    def end(self) -> None:
        self.served.end()
        if self.worker.poll() is None:
            ended(self.worker)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    machine = Shared(tmp_path_factory.mktemp("fleet"))
    machine.settings = "[store]\nlease_s = 60.0\n"  # nobody dies here, however slow the machine is
    machine.begin()
    fleet = Fleet(machine)
    yield fleet
    fleet.end()
    for server in machine.servers:
        server.__exit__(None, None, None)


def test_everything_of_the_fleet_is_told_on_the_page_and_the_command_line(
    fleet: Fleet, browser: Browser
) -> None:
    told = fleet.served.get("/fleet")["fleet"]
    assert [(row["queue"], row["at_work"], row["waiting"], row["set_aside"]) for row in told["queues"]] == [
        ("default", 1, 1, 1)
    ]
    assert told["queues"][0]["lag_s"] > 0
    places = {row["session"]: row["place"] for row in told["sessions"]}
    assert places == {fleet.busy: "at work", fleet.waiting: "waiting", fleet.failed: "set aside"}
    lines = fleet.machine.run("fleet").stdout
    assert "queue default: 1 of 1 at work, 1 waiting, the longest for" in lines
    assert "1 set aside, 3 crashes, " in lines
    with fleet.served.client() as client:
        read = samples(client.get("/metrics").text)
    here = ("queue", "default")
    assert read["mainspring_workers", frozenset({here, ("state", "working")})] == 1
    assert read["mainspring_queue_sessions", frozenset({here, ("state", "set aside")})] == 1
    assert read["mainspring_queue_lag_seconds", frozenset({here})] > 0
    for size, scheme in (({"width": 1280, "height": 900}, "light"), (PHONE, "dark")):
        visitor = Visitor(browser, fleet.served, size, scheme)  # type: ignore[arg-type]
        page = visitor.enter()
        visitor.to("machine/fleet")
        page.wait_for_selector(".chip >> text=set aside")
        page.wait_for_selector(".chip >> text=waits for a worker")
        page.wait_for_selector("text=its process ended 3 times")
        page.wait_for_selector("text=1 of 1 at work")
        if AXE.exists() or os.environ.get("CI"):
            page.evaluate(AXE.read_text())
            assert page.evaluate(RUN_AXE) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert page.evaluate(BROKEN) == []
        assert (visitor.problems, visitor.elsewhere) == ([], [])
        visitor.context.close()


def test_who_may_only_watch_sees_the_fleet_and_steers_nothing(fleet: Fleet, browser: Browser) -> None:
    code = fleet.served.post("/devices/offer", {"role": "watch", "name": "a viewer"})["code"]
    visitor = Visitor(browser, fleet.served)
    visitor.page.goto(f"{fleet.served.address}/#pair={code}")
    visitor.page.wait_for_selector("nav")
    visitor.to("machine/fleet")
    visitor.page.wait_for_selector(".chip >> text=set aside")
    assert visitor.page.locator("section button").count() == 0
    visitor.context.close()


def test_a_session_is_moved_and_tried_again_and_a_worker_drained_while_the_page_looks(
    fleet: Fleet, browser: Browser
) -> None:
    visitor = Visitor(browser, fleet.served)
    page = visitor.enter()
    visitor.to("machine/fleet")
    failed = page.locator("li.card", has_text="crash again and again").last
    failed.get_by_text("Try again").click()
    failed.locator(".chip >> text=waits for a worker").wait_for()
    failed.get_by_text("Move…").click()
    failed.get_by_label("Queue").fill("night")
    failed.get_by_label("Labels").fill("gpu, no word!")
    failed.locator("button.main").click()
    page.wait_for_selector(".problem >> text=is not a word")
    visitor.problems.clear()  # a browser tells of a request that was refused
    failed.get_by_label("Labels").fill("gpu")
    failed.locator("button.main").click()
    failed.locator(".meta >> text=queue night").wait_for()
    assert {row["session"]: row["queue"] for row in fleet.machine.fleet()["sessions"]}[
        fleet.failed
    ] == "night"
    page.locator(".card >> text=no worker").wait_for()
    page.get_by_role("button", name="Drain").click()
    _, said = fleet.worker.communicate(timeout=120)
    assert fleet.worker.returncode == 0, said
    page.wait_for_selector("text=No worker is running")
    assert (visitor.problems, visitor.elsewhere) == ([], [])
    visitor.context.close()
