"""The page in a real Chromium: entered, watched, answered from, and attacked."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from mainspring.serve.markdown_tree import tree_of
from tests.serve.conftest import Served

VENDORED = {
    "preact.module.js": (
        "preact 10.29.8",
        "c30e721ebfdc6e2ad4c18c14d2dfb82667829c8aec27de1207774e3fc16858a8",
    ),
    "hooks.module.js": ("preact 10.29.8", "a6ee626f2d01570592dd569a792e3f050154aa02890eead8c223fa3ed5aa3d5a"),
    "htm.module.js": ("htm 3.1.1", "ab33dd3f38059b9be4d5f5350128eefb2356639c4e0bbe9d9e8b3ba75847e9e4"),
}
DESKTOP: ViewportSize = {"width": 1100, "height": 900}
PHONE: ViewportSize = {"width": 360, "height": 740}
WAIT = "while [ ! -e go ]; do sleep 0.05; done"


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

    def __init__(self, browser: Browser, served: Served, size: ViewportSize = DESKTOP) -> None:
        self.served = served
        self.context: BrowserContext = browser.new_context(viewport=size)
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on(
            "console", lambda line: self.problems.append(line.text) if line.type == "error" else None
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
    assert (visitor.problems, visitor.elsewhere) == ([], [])
    visitor.context.close()


def begin(served: Served, *replies: dict[str, Any], text: str = "begin", mode: str = "auto") -> str:
    model = served.machine.serve(*replies)
    body = {"text": text, "workspace": str(served.machine.workspace), "model": model, "mode": mode}
    return served.post("/sessions", body)["session"]


def call(command: str) -> dict[str, Any]:
    return {"calls": [{"name": "shell", "arguments": {"command": command}}]}


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
    phone.page.click("nav >> text=Questions")
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
    phone.page.wait_for_selector("text=This device may only watch.")
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


def test_long_sessions_keep_the_page_small(visitor: Visitor, served: Served) -> None:
    writes = [
        {"calls": [{"name": "write", "arguments": {"path": f"f{number}", "content": f"number {number}"}}]}
        for number in range(140)
    ]
    session = begin(served, *writes, {"text": "the last answer"})
    served.until(session, "TurnEnded")
    page = visitor.enter()
    visitor.to(f"s/{session}")
    page.wait_for_selector("text=the last answer")
    shown = [row["seq"] for row in everything(served, session) if row["parts"]]
    assert len(shown) > 350
    while (first := visitor.rows()[0]) > shown[0]:
        page.click("button >> text=Show earlier")
        page.wait_for_function(
            "first => +document.querySelector('ol.rows > li').id.slice(1) < first", arg=first
        )
        rows = visitor.rows()
        assert len(rows) <= 300
        start = shown.index(rows[0])
        assert shown[start : start + len(rows)] == rows
    page.click("button >> text=Newest")
    page.wait_for_selector("text=the last answer")


def everything(served: Served, session: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while page := served.get(f"/sessions/{session}/view", after=rows[-1]["seq"] if rows else 0, limit=1000)[
        "rows"
    ]:
        rows += page
    return rows


PAYLOADS = [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg onload=alert(1)>", "javascript:alert(1)",
    "[x](javascript:alert(1))", "[x](JaVaScRiPt:alert(1))", "[x](data:text/html,<script>alert(1)</script>)",
    "![x](https://evil.example/x.png)", "<iframe src='javascript:alert(1)'></iframe>", "<a href='javascript:alert(1)'>x</a>",
    "</pre><script>alert(1)</script>", "`<script>alert(1)</script>`", "<style>@import 'https://evil.example'</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>", "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>", "<object data='javascript:alert(1)'>", "<embed src='javascript:alert(1)'>",
    "<form action='https://evil.example'><button>x</button></form>", "<details open ontoggle=alert(1)>", "<video><source onerror=alert(1)>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>", "{{constructor.constructor('alert(1)')()}}", "${alert(1)}",
    "\"><script>alert(1)</script>", "'-alert(1)-'", "<x onclick=alert(1)>click</x>", "<body onload=alert(1)>", "<input autofocus onfocus=alert(1)>",
    "<marquee onstart=alert(1)>", "[x](vbscript:msgbox(1))", "[x](//evil.example)", "<https://evil.example>", "[x]: javascript:alert(1)\n[x]",
    "<scr<script>ipt>alert(1)</scr</script>ipt>", "\x00<script>alert(1)</script>", "<!--<script>alert(1)</script>-->", "<![CDATA[<script>alert(1)</script>]]>",
    "__proto__", "constructor", "[a](\x01javascript:alert(1))", "[a](java\nscript:alert(1))", "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "# <img src=x onerror=alert(1)>", "> <svg/onload=alert(1)>", "1. <img src=x onerror=alert(1)>", "~~<img src=x onerror=alert(1)>~~",
    "**<img src=x onerror=alert(1)>**", "```<script>\nalert(1)\n```", "&lt;script&gt;alert(1)&lt;/script&gt;", "&#x6A;avascript:alert(1)",
]  # fmt: skip


def test_nothing_that_a_model_a_tool_or_a_file_says_becomes_code(visitor: Visitor, served: Served) -> None:
    hostile = "\n\n".join(PAYLOADS)
    (served.machine.workspace / "<img src=x onerror=alert(1)>.txt").write_text(hostile)
    session = begin(
        served,
        {
            "text": hostile,
            "calls": [
                {"name": "shell", "arguments": {"command": "cat ./*.txt; echo x > '<svg onload=alert(2)>'"}}
            ],
        },
        {"text": hostile, "calls": [{"name": "<img src=x onerror=alert(3)>", "arguments": {"<b>": hostile}}]},
        call(f"echo '<script>alert(4)</script>' # {PAYLOADS[1]} && touch x"),
        text=f"<img src=x onerror=alert(5)> {hostile}",
        mode="edits",
    )
    page = visitor.enter()
    page.wait_for_selector(".card")
    visitor.to(f"s/{session}")
    page.wait_for_selector(".question")
    for details in page.query_selector_all("summary"):
        details.click()
    page.click("button >> text=Changes")
    visitor.to("inbox")
    page.wait_for_selector(".question")
    kinds = page.evaluate(
        "() => [...document.querySelectorAll('#app script, #app iframe, #app object, #app embed, #app svg, #app img, #app style, #app base, #app form[action], [onerror], [onload]')].length"
    )
    assert kinds == 0


@pytest.mark.parametrize("text", PAYLOADS)
def test_markdown_has_only_known_nodes_and_safe_links(text: str) -> None:
    def check(node: Any) -> None:
        if isinstance(node, str):
            return
        name, attributes, children = node
        assert name in {"p", "ul", "ol", "li", "blockquote", "strong", "em", "s", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "br", "hr", "h", "a"}  # fmt: skip
        assert set(attributes) <= {"href", "level", "start", "language"}
        assert attributes.get("href", "https:").split(":")[0].lower() in {"http", "https", "mailto"}
        for child in children:
            check(child)

    for node in tree_of(text):
        check(node)


def test_vendored_code_is_what_was_published() -> None:
    folder = files("mainspring.serve") / "page" / "vendor"
    for name, (_, sha256) in VENDORED.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256, name
    third_party = (Path(__file__).parents[2] / "THIRD-PARTY.md").read_text()
    assert all(package in third_party for package, _ in VENDORED.values())
