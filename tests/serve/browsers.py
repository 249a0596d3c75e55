"""A real Chromium, one for each module, and visitors of a server in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from tests.serve.conftest import Served

DESKTOP: ViewportSize = {"width": 1100, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = shutil.which("chromium")
    assert chromium, "apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visitor:
    """A browser of its own, that keeps what goes wrong in it and where it asks."""

    def __init__(
        self, browser: Browser, served: Served, size: ViewportSize = DESKTOP, scheme: Any = "light"
    ) -> None:
        self.served = served
        self.context: BrowserContext = browser.new_context(viewport=size, color_scheme=scheme)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on(
            "console",
            lambda line: (
                self.problems.append(f"{line.text} {line.location['url']}") if line.type == "error" else None
            ),
        )
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", self._alerted)
        self.page.on("request", self._asked)

    def _alerted(self, dialog: Any) -> None:
        self.problems.append(dialog.message)
        dialog.dismiss()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.served.address, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def enter(self) -> Page:
        self.page.goto(f"{self.served.address}/#token={self.served.token}")
        self.page.wait_for_selector("nav")
        return self.page

    def to(self, view: str) -> Page:
        self.page.goto(f"{self.served.address}/#/{view}")
        return self.page

    def rows(self) -> list[int]:
        return [
            int(each[1:])
            for each in self.page.eval_on_selector_all("ol.rows > li", "all => all.map(e => e.id)")
        ]


@pytest.fixture
def visitor(browser: Browser, served: Served) -> Iterator[Visitor]:
    visitor = Visitor(browser, served)
    yield visitor
    assert (visitor.problems, visitor.elsewhere) == ([], []), (visitor.problems, visitor.elsewhere)
    visitor.context.close()


def begin(served: Served, *replies: dict[str, Any], text: str = "begin", mode: str = "auto") -> str:
    model = served.machine.serve(*replies)
    body = {"text": text, "workspace": str(served.machine.workspace), "model": model, "mode": mode}
    return served.post("/sessions", body)["session"]


def call(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}
