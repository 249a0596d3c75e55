"""The page in a real Chromium: entered, watched, answered from, and taken up again."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from pathlib import Path

from playwright.sync_api import Browser

from tests.serve.browsers import PHONE, Visitor, begin, browser, call, visitor
from tests.serve.conftest import Served

__all__ = ["browser", "visitor"]

VENDORED = {
    "preact.module.js": (
        "preact 10.29.8",
        "c30e721ebfdc6e2ad4c18c14d2dfb82667829c8aec27de1207774e3fc16858a8",
    ),
    "hooks.module.js": ("preact 10.29.8", "a6ee626f2d01570592dd569a792e3f050154aa02890eead8c223fa3ed5aa3d5a"),
    "htm.module.js": ("htm 3.1.1", "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4"),
}
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


def test_the_token_leaves_the_address_and_a_live_run_is_watched(visitor: Visitor, served: Served) -> None:
    page = visitor.enter()
    assert "token" not in page.url
    session = begin(served, call(WAIT), {"text": "It is **done**."})
    page.wait_for_selector(f"a[href='#/s/{session}'] .live")
    page.click(f"a[href='#/s/{session}']")
    page.wait_for_selector(".part.call")
    page.fill("textarea", "use tabs")
    page.keyboard.press("Enter")
    page.wait_for_selector(".part.user >> text=use tabs")
    (served.machine.workspace / "go").touch()
    page.wait_for_selector("strong >> text=done")
    page.wait_for_selector(".part.end.good")
    numbers = visitor.rows()
    assert numbers == sorted(set(numbers))
    page.reload()
    page.wait_for_selector(".part.end.good")
    assert visitor.rows() == numbers


def test_a_phone_answers_what_another_browser_waits_for(
    browser: Browser, visitor: Visitor, served: Served
) -> None:
    session = begin(served, call("touch made"), {"text": "made it"}, mode="ask")
    desktop = visitor.enter()
    visitor.to(f"s/{session}")
    desktop.wait_for_selector(".question")
    code = served.post("/devices/offer", {"role": "answer", "name": "phone"})["code"]
    phone = Visitor(browser, served, PHONE)
    phone.page.goto(f"{served.address}/#pair={code}")
    phone.page.click("nav >> text=Inbox")
    phone.page.wait_for_selector(".question")
    width = phone.page.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["width"]
    phone.page.click("text=Allow once")
    desktop.wait_for_selector(".question", state="detached")
    desktop.wait_for_selector(".part.end.good")
    assert (served.machine.workspace / "made").exists()
    events = served.get(f"/sessions/{session}/events", limit=1000)["events"]
    (given,) = [each["body"] for each in events if each["kind"] == "ApprovalGiven"]
    assert given["origin"]["device"] == "phone"
    phone.to(f"s/{session}")
    phone.page.wait_for_selector("text=This device may watch and answer")
    assert (phone.problems, phone.elsewhere) == ([], [])
    phone.context.close()


def test_a_stream_survives_a_restart_of_the_server(browser: Browser, served: Served) -> None:
    visitor = Visitor(browser, served)  # a connection that is refused is an error in its console
    session = begin(served, {"text": "one"}, {"text": "two"})
    served.until(session, "TurnEnded")
    page = visitor.enter()
    visitor.to(f"s/{session}")
    page.wait_for_selector(".part.end")
    served.end()
    page.wait_for_selector("text=Connection lost")
    served.start()
    page.wait_for_selector("text=Connection lost", state="detached", timeout=60_000)
    page.fill("textarea", "more")
    page.keyboard.press("Enter")
    page.wait_for_selector(".part.end >> nth=1")
    numbers = visitor.rows()
    assert numbers == sorted(set(numbers))
    assert visitor.elsewhere == []
    visitor.context.close()


def test_a_session_is_started_from_the_page(visitor: Visitor, served: Served) -> None:
    model = served.machine.serve({"text": "started here"})
    page = visitor.enter()
    visitor.to("new")
    page.fill("label:has-text('What should be done?') textarea", "begin")
    page.fill("label:has-text('Folder') input", str(served.machine.workspace))
    page.fill("label:has-text('Model') input", model)
    page.click("button >> text=Start")
    page.wait_for_selector("text=started here")
    page.click("nav >> text=Cost")
    page.wait_for_selector("td.figure")


def test_vendored_code_is_what_was_published() -> None:
    folder = files("mainspring.serve") / "page" / "vendor"
    for name, (_, sha256) in VENDORED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256, name
    third_party = (Path(__file__).parents[2] / "THIRD-PARTY.md").read_text()
    assert all(package in third_party for package, _ in VENDORED.values())
