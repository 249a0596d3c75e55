"""A session of ten thousand events in a real Chromium: few rows in the document, and short tasks while one scrolls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from mainspring.app.records import compose_session
from mainspring.events import (
    AssistantSaid,
    CallAsked,
    CallEnded,
    Event,
    SessionStarted,
    Text,
    Thinking,
    TurnEnded,
    UserSaid,
)
from mainspring.settings import load_config
from tests.cli.conftest import Machine
from tests.serve.browsers import Visitor, browser, visitor
from tests.serve.conftest import Served

__all__ = ["browser", "visitor"]

EVENTS = 10_000
LONGEST_MS = 50.0
STEP_PX = 1500
SHORT = f"Step **{{number}}** with `code` and a list:\n\n- one\n- two {'word ' * 20}"
LONG = "# A long answer\n\n" + "Some *words* with `code` and [a link](https://example.org/).\n\n" * 20
LONG += (
    "| name | figure |\n|---|---|\n"
    + "| a row | 1.5 |\n" * 30
    + "\n```python\n"
    + "print(1)\n" * 60
    + "```\n"
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(Machine(tmp_path_factory.mktemp("long")))
    yield served
    served.end()


@pytest.fixture(scope="module")
def long(served: Served) -> str:
    with ThreadPoolExecutor(1) as thread:
        config = load_config(served.machine.environment())
        return thread.submit(lambda: asyncio.run(compose_session(long_session, config))).result()


def long_session(session: str) -> Iterator[tuple[int, Event]]:
    time_us = 1_700_000_000_000_000
    yield time_us, SessionStarted(session=session, workspace="/", version="0")
    yield time_us, UserSaid(text="a long task")
    for number in range((EVENTS - 4) // 2):
        asked = CallAsked(
            call=f"c{number}", name="shell", arguments=json.dumps({"command": f"echo {number}"})
        )
        text = Text(text=LONG if number % 10 == 0 else SHORT.format(number=number))
        thought = Thinking(text=f"why {number}\n" * 40)
        yield time_us + number, AssistantSaid(step=number + 1, parts=(thought, text, asked))
        output = f"line {number}\n" * (2000 if number % 7 == 0 else 5)
        yield time_us + number, CallEnded(call=f"c{number}", outcome="ok", output=output, exit_code=0)
    yield time_us, AssistantSaid(step=EVENTS, parts=(Text(text="the last answer"),))
    yield time_us, TurnEnded(ending="done", turn=1)


def longest_task_ms(trace: Path) -> float:
    """The longest piece of work of the page's own thread, in time of the processor: a wait for other processes
    of the machine is not the page's work, so this is the same on a busy machine. Not only whole tasks are looked
    at, since a trace drops the frame of some."""
    events = json.loads(trace.read_text())["traceEvents"]
    threads = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    spent_us = [each["tdur"] for each in events if "tdur" in each and (each["pid"], each["tid"]) in threads]
    assert len(spent_us) > 100
    return max(spent_us) / 1000


@pytest.mark.parametrize("count", [800, pytest.param(EVENTS, marks=pytest.mark.proof)])
def test_ten_thousand_events_scroll_with_few_rows_and_short_tasks(
    browser: Browser, visitor: Visitor, long: str, tmp_path: Path, count: int
) -> None:
    page = visitor.enter()
    visitor.to(f"s/{long}")
    page.wait_for_selector("text=the last answer")
    page.mouse.move(500, 400)
    first = visitor.rows()[0]
    until = max(2, first - count)
    browser.start_tracing(
        page=page, path=tmp_path / "trace.json", categories=["toplevel", "devtools.timeline"]
    )
    while first > until:
        page.mouse.wheel(0, -STEP_PX)
        page.evaluate("() => new Promise(requestAnimationFrame)")
        rows = visitor.rows()
        first = rows[0]
        assert len(rows) <= 300
        assert rows == list(range(rows[0], rows[0] + len(rows)))
    browser.stop_tracing()
    assert longest_task_ms(tmp_path / "trace.json") <= LONGEST_MS
    page.click("text=Newest")
    page.wait_for_selector("text=the last answer")
    assert len(visitor.rows()) <= 300
