"""Every view in a real Chromium: what it shows, that axe finds nothing, and that it fits a phone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Route

from tests.cli.conftest import Machine
from tests.serve.browsers import DESKTOP, PHONE, Visitor, begin, browser, call
from tests.serve.conftest import Served
from tests.serve.pdfs import pdf

__all__ = ["browser"]

AXE = Path(__file__).parents[2] / "requirements/node/node_modules/axe-core/axe.min.js"
TRAIN = "n=$(cat model 2>/dev/null || echo 0); n=$((n + 1)); echo $n > model\n"
TRAIN += "printf 'step,loss\\n1,2\\n' > curve.csv; test $n -lt 2 || echo '<promise>DONE</promise>'\n"
MEASURE = 'n=$(cat model); for d in 0 1 2; do echo "METRIC loss=0.$((90 - 20 * n + d))"; done\n'
LONG_NAME = "a" * 120 + ".txt"
TABLE = f"{'| a ' * 6}|\n{'|---' * 6}|\n{'| thoroughly considered ' * 6}|\n"
RUN_AXE = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
  .map(each => [each.id, each.nodes.slice(0, 3).map(node => node.html.slice(0, 160) + ' ' + node.failureSummary)])"""


BROKEN = """() => [...document.querySelectorAll('.choice button, .actions button, .countdown, .tabs [aria-current], .part .md td')].filter(each => {
  const box = each.getBoundingClientRect(), range = document.createRange();
  const isCut = each.matches('.tabs a') && (box.left < 0 || box.right > innerWidth + 1);
  const words = [...each.childNodes].filter(node => node.nodeType === 3).flatMap(node => [...node.data.matchAll(/\\S+/g)].map(word => [node, word]));
  return isCut || words.some(([node, word]) => { range.setStart(node, word.index); range.setEnd(node, word.index + word[0].length);
    return new Set([...range.getClientRects()].map(line => Math.round(line.top))).size > 1; });
}).map(each => each.textContent)"""
"""What a person could not read at a glance: a word that is broken, or an open tab out of sight."""


class House(NamedTuple):
    """A server with a session that changed files and keeps outputs, a goal, and one that asks."""

    served: Served
    work: str
    goal: str
    asking: str


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    machine = Machine(tmp_path_factory.mktemp("views"))
    (machine.workspace / "train.sh").write_text(TRAIN)
    (machine.workspace / "measure.sh").write_text(MEASURE)
    goal = ("exploop", "Bring the loss down", "--engine", "exec:sh train.sh", "--target", "loss<0.6")
    done = machine.run(*goal, "--evaluate", "sh measure.sh", "--frozen", "measure.sh", "--mode", "auto")
    assert done.returncode == 0, done.stderr
    served = Served(machine)
    goal_id = next(row["id"] for row in served.get("/sessions") if row["goal"])
    plan = {"items": [{"text": "look", "progress": "done"}, {"text": "write", "progress": "doing"}]}
    work = begin(
        served,
        {"text": "I plan.", "calls": [{"name": "plan", "arguments": plan}]},
        {"calls": [{"name": "write", "arguments": {"path": "made.txt", "content": "one\ntwo\n"}}]},
        {"text": f"made it\n\n{TABLE}"},
    )
    served.until(work, "TurnEnded")
    for name, text in (
        ("figures.csv", "a,b\n1,2\n"),
        ("figures.csv", "a,b\n1,3\n"),
        ("notes.md", "# Notes\n"),
    ):
        (machine.workspace / name).write_text(text)
        served.post(f"/sessions/{work}/kept", {"path": name, "note": "of a test"})
    for name, data in (
        ("paper.pdf", pdf("one", "two")),
        ("broken.pdf", b"%PDF-1.4\n\x00\xff"),
        (LONG_NAME, b"x"),
    ):
        (machine.workspace / name).write_bytes(data)
        served.post(f"/sessions/{work}/kept", {"path": name})
    asking = begin(served, call("touch a"), {"text": "done"}, mode="ask", text="one")
    served.until(asking, "TurnEnded")
    yield House(served, work, goal_id, asking)
    served.end()
    for server in machine.servers:
        server.__exit__(None, None, None)


@pytest.fixture
def visitor(browser: Browser, house: House) -> Iterator[Visitor]:
    visitor = Visitor(browser, house.served)
    yield visitor
    assert (visitor.problems, visitor.elsewhere) == ([], [])
    visitor.context.close()


def views(house: House) -> dict[str, str]:
    """Every view, and what shows that it is there."""
    return {
        "": ".card",
        "inbox": ".question",
        "new": "form",
        "artifacts": ".artifact",
        "cost": "table",
        "machine": "text=Pair a device",
        "machine/approvals": ".empty",
        "machine/agents": ".card >> text=explore",
        f"s/{house.work}/record": "text=Is the record whole?",
        "machine/fleet": ".empty >> text=on this machine alone",
        "machine/schedules": ".empty",
        "machine/settings": ".settings > div",
        "s/nosuch": "text=There is no such session",
        "machine/doctor": ".verdict",
        f"s/{house.work}": ".part.end",
        f"s/{house.work}/changes": ".diff",
        f"s/{house.work}/artifacts": ".artifact",
        f"s/{house.work}/processes": ".empty",
        f"s/{house.work}/back/2": ".back .diff",
        f"s/{house.goal}/goal": ".plot",
        f"s/{house.goal}/report": ".report h2",
        f"s/{house.asking}": ".question",
    }


@pytest.mark.skipif(not AXE.exists() and not os.environ.get("CI"), reason="make node-tools")
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"])
def test_axe_finds_nothing_on_any_view_and_all_fit(
    browser: Browser, house: House, size: Any, scheme: str
) -> None:
    visitor = Visitor(browser, house.served, size, scheme)
    page = visitor.enter()
    source = AXE.read_text()
    for view, wanted in views(house).items():
        visitor.to(view)
        page.wait_for_selector(wanted)
        if page.evaluate("typeof axe") == "undefined":
            page.evaluate(source)
        assert page.evaluate(RUN_AXE) == [], view
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], view
        assert page.evaluate(BROKEN) == [], view
    assert all("/sessions/nosuch" in each for each in visitor.problems), visitor.problems
    assert visitor.elsewhere == []
    visitor.context.close()


def test_a_goal_shows_iterations_metrics_with_noise_checks_outputs_and_its_report(
    visitor: Visitor, house: House
) -> None:
    page = visitor.enter()
    visitor.to("")
    page.click(f"a[href='#/s/{house.goal}/goal']")
    page.wait_for_selector(".plot .band")
    assert page.locator(".plot .point").count() == 2
    assert page.locator(".timeline > li").count() == 2
    page.wait_for_selector(".tile >> text=verified")
    page.wait_for_selector(".artifact >> text=curve.csv")
    page.click("text=Read the report")
    page.wait_for_selector(".report h2")


def test_a_record_is_verified_compared_and_told_what_its_changes_reach(
    visitor: Visitor, house: House, tmp_path: Path
) -> None:
    (tmp_path / "one.py").write_text("def one(a):\n    return a\n")
    (tmp_path / "two.py").write_text("from one import one\n\n\ndef two():\n    return one(1)\n")
    named = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run(("git", *named, *words), cwd=tmp_path, check=True)
    (tmp_path / "one.py").write_text("def one(a, b):\n    return a\n")
    model = house.served.machine.serve({"text": "done"})
    body = {"text": "look", "workspace": str(tmp_path), "model": model, "mode": "auto"}
    session = house.served.post("/sessions", body)["session"]
    house.served.until(session, "TurnEnded")
    page = visitor.enter()
    visitor.to(f"s/{session}/record")
    page.get_by_role("button", name="Check").click()
    page.wait_for_selector(".verdict.good >> text=nothing was changed or lost")
    page.get_by_label("With another session").select_option(house.work)
    page.wait_for_selector("text=0 events are the same")
    assert page.locator(".grid .card").count() == 2
    page.get_by_role("button", name="Look", exact=True).click()
    page.wait_for_selector(".chip >> text=major")
    page.wait_for_selector("h3:has-text('Callers') + ul >> text=two.py:")


def test_outputs_are_previewed_compared_and_downloaded(visitor: Visitor, house: House) -> None:
    page = visitor.enter()
    visitor.to(f"s/{house.work}/artifacts")
    page.click(".artifact:has-text('figures.csv') summary")
    page.wait_for_selector(".preview td.figure >> text=3")
    page.click("text=Compare with the version before")
    page.wait_for_selector(".preview .minus >> text=-1,2")
    with page.expect_download() as coming:
        page.click(".artifact:has-text('figures.csv') >> text=Download")
    assert coming.value.suggested_filename == "figures.csv"
    assert Path(coming.value.path()).read_text() == "a,b\n1,3\n"
    page.click(".artifact:has-text('paper.pdf') summary")
    page.wait_for_selector(".preview img[alt='paper.pdf, page 2 of 2']")
    widths = "all => Promise.all(all.map(each => each.decode().then(() => each.naturalWidth)))"
    assert page.eval_on_selector_all(".preview img", widths) == [1000, 1000]
    page.click(".artifact:has-text('broken.pdf') summary")
    page.wait_for_selector(".artifact:has-text('broken.pdf') .preview >> text=This PDF cannot be read")
    with page.expect_download():
        page.click(".artifact:has-text('broken.pdf') >> text=Download")
    page.click(".artifact:has-text('notes.md') summary")
    page.wait_for_selector(".preview h2 >> text=Notes")
    visitor.to("artifacts")
    page.fill("input[type=search]", "notes")
    page.wait_for_selector(".artifact >> text=notes.md")
    page.wait_for_function("() => document.querySelectorAll('.artifact').length === 1")


def test_going_back_shows_what_would_change_before_it_does(visitor: Visitor, house: House) -> None:
    served = house.served
    session = begin(served, call("echo x > gone"), {"text": "made"}, text="make a file")
    served.until(session, "TurnEnded")
    page = visitor.enter()
    visitor.to(f"s/{session}")
    page.click("text=Undo last turn")
    page.wait_for_selector(".back .card >> text=make a file")
    page.click("button >> text=Unified")
    page.wait_for_selector(".minus >> text=-x")
    assert (served.machine.workspace / "gone").exists()
    page.click("button.main")
    page.wait_for_selector("ol.rows")
    assert not (served.machine.workspace / "gone").exists()


def test_a_plan_that_comes_late_does_not_push_the_buttons_out_of_sight(
    browser: Browser, house: House
) -> None:
    phone = Visitor(browser, house.served, {"width": 360, "height": 640})
    page = phone.enter()
    held: list[Route] = []
    page.route("**/now", lambda route: held.append(route))  # noqa: PLW0108 - it marks what it is given
    phone.to(f"s/{house.work}")
    page.wait_for_selector(".part.end")
    assert not page.query_selector(".plan")
    for each in held:
        each.continue_()
    page.wait_for_selector(".plan")
    page.wait_for_function(
        "() => document.querySelector('.compose .main').getBoundingClientRect().bottom"
        " <= document.querySelector('.main-nav').getBoundingClientRect().top"
    )
    assert phone.problems == []
    phone.context.close()


BAR = """() => { const box = each => { const {left, right, top, bottom} = each.getBoundingClientRect(); return {left, right, top, bottom}; };
  const bar = document.querySelector('.actions.sticky'), last = document.querySelector('.back .diff:last-of-type');
  return {bar: box(bar), nav: box(document.querySelector('.main-nav')), last: box(last), buttons: [...bar.children].map(each => ({...box(each),
    isReached: each.contains(document.elementFromPoint(box(each).left + 8, (box(each).top + box(each).bottom) / 2))}))}; }"""


def test_the_buttons_of_going_back_are_one_line_above_the_navigation_of_a_phone(
    browser: Browser, house: House
) -> None:
    phone = Visitor(browser, house.served, {"width": 360, "height": 640})
    page = phone.enter()
    phone.to(f"s/{house.work}/back/2")
    page.wait_for_selector(".back .diff")
    found = page.evaluate(BAR)
    assert abs(found["bar"]["bottom"] - found["nav"]["top"]) <= 1
    assert found["bar"]["bottom"] - found["bar"]["top"] <= 64
    assert (found["bar"]["left"], found["bar"]["right"]) == (0, 360)
    assert len({each["top"] for each in found["buttons"]}) == 1
    assert all(each["isReached"] and 0 < each["left"] < each["right"] < 360 for each in found["buttons"])
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    found = page.evaluate(BAR)
    assert found["last"]["bottom"] <= found["bar"]["top"] <= found["bar"]["bottom"] <= found["nav"]["top"]
    assert phone.problems == []
    phone.context.close()


def test_going_back_shows_what_would_change_as_it_was_when_it_was_confirmed(
    visitor: Visitor, house: House
) -> None:
    served = house.served
    asks = {"calls": [{"name": "ask", "arguments": {"question": "Which?"}}]}
    session = begin(served, call("echo x > gone"), {"text": "made"}, asks, text="make a file")
    served.until(session, "TurnEnded")
    page = visitor.enter()
    visitor.to(f"s/{session}/back")
    page.wait_for_selector(".back .card >> text=make a file")
    held: list[Route] = []
    page.route("**/back", lambda route: held.append(route))  # noqa: PLW0108 - it marks what it is given
    page.click("button.main")
    page.wait_for_selector("button.main[disabled]")
    served.post(f"/sessions/{session}/say", {"text": "and go on"})
    page.locator(".meta", has_not_text="done").wait_for()
    assert [each.request.method for each in held] == ["POST"]
    held[0].fulfill(json={})
    page.wait_for_selector("ol.rows")
    assert len(held) == 1


def test_one_answer_counts_and_the_others_see_whose(browser: Browser, visitor: Visitor, house: House) -> None:
    served = house.served
    asked = begin(served, call("touch once"), {"text": "done"}, mode="ask", text="may I")
    served.until(asked, "TurnEnded")
    page = visitor.enter()
    visitor.to("inbox")
    card = page.locator(".question", has_text="touch once")
    card.wait_for()
    code = served.post("/devices/offer", {"role": "answer", "name": "tablet"})["code"]
    other = Visitor(browser, served, PHONE)
    other.page.goto(f"{served.address}/#pair={code}")
    other.page.click("nav >> text=Inbox")
    theirs = other.page.locator(".question", has_text="touch once")
    theirs.get_by_text("Refuse", exact=True).click()
    theirs.locator("textarea").fill("not on a Monday")
    theirs.get_by_text("Refuse", exact=True).click()
    page.wait_for_selector(".answered >> text=Refused, answered by tablet")
    page.wait_for_selector(".answered >> text=not on a Monday")
    with served.client() as client:
        late = client.post(f"/api/v1/sessions/{asked}/answer", json={"reply": {"decision": "allow"}})
    assert late.status_code == 400
    events = served.get(f"/sessions/{asked}/events", limit=1000)["events"]
    given = [each["body"] for each in events if each["kind"] == "ApprovalGiven"]
    assert [(each["decision"], each["feedback"]) for each in given] == [("reject", "not on a Monday")]
    assert not (served.machine.workspace / "once").exists()
    assert other.problems == []
    other.context.close()


def test_answers_given_at_the_same_moment_are_one(house: House) -> None:
    served = house.served
    asked = begin(served, call("touch both"), {"text": "done"}, mode="ask", text="may I")
    served.until(asked, "TurnEnded")

    def reply(decision: str) -> int:
        with served.client() as client:
            answer = client.post(f"/api/v1/sessions/{asked}/answer", json={"reply": {"decision": decision}})
        return answer.status_code

    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(reply, ("allow", "reject", "allow", "reject")))
    assert sorted(codes) == [200, 400, 400, 400]
    events = served.get(f"/sessions/{asked}/events", limit=1000)["events"]
    assert sum(each["kind"] == "ApprovalGiven" for each in events) == 1


def test_several_are_answered_at_once_edited_and_allowed_always(visitor: Visitor, house: House) -> None:
    served = house.served
    page = visitor.enter()
    sessions = [
        begin(served, call(f"touch many{number}"), {"text": "done"}, mode="ask", text=f"many {number}")
        for number in range(3)
    ]
    for session in sessions:
        served.until(session, "TurnEnded")
    visitor.to("inbox")
    for number in range(2):
        page.check(f".choose:has-text('many{number}') > input")
    page.click(".batch >> text=Allow 2")
    for session in sessions[:2]:
        page.wait_for_selector(f".answered:has-text('many{sessions.index(session)}')")
    card = page.locator(".question", has_text="many2")
    card.get_by_text("Always…").click()
    card.get_by_label("in this project").check()
    card.get_by_label("For how long").select_option("8h")
    card.get_by_text("Cancel").click()
    card.get_by_text("Edit", exact=True).click()
    card.locator("textarea").fill("touch edited")
    card.get_by_text("Allow as changed").click()
    page.wait_for_selector(".answered:has-text('many2')")
    served.until(sessions[2], "CallEnded")
    assert (served.machine.workspace / "edited").exists()


def test_a_session_that_is_deleted_while_it_is_shown_says_so(browser: Browser, house: House) -> None:
    served = house.served
    model = served.machine.serve({"text": "soon gone"})
    assert served.machine.run("run", "--model", model, "--mode", "auto", "brief").returncode == 0
    session = served.get("/sessions")[0]["id"]
    visitors = [Visitor(browser, served) for _ in range(2)]
    for visitor, tab, wanted in zip(visitors, ("", "/changes"), (".part.end", ".empty"), strict=True):
        visitor.enter()
        visitor.to(f"s/{session}{tab}").wait_for_selector(wanted)
    assert served.machine.run("sessions", "delete", session, "--yes").returncode == 0
    for visitor in visitors:
        visitor.page.wait_for_selector("text=This session was deleted")
        assert not visitor.page.query_selector(".problem")
    assert visitors[1].problems == []
    assert len(visitors[0].problems) <= 1  # its stream may be taken up again before the list is known
    for visitor in visitors:
        visitor.context.close()


def test_a_question_that_is_dropped_is_no_error(visitor: Visitor, house: House) -> None:
    served = house.served
    asked = begin(served, call("touch dropped"), {"text": "done"}, {"text": "well"}, mode="ask", text="drop")
    served.until(asked, "TurnEnded")
    page = visitor.enter()
    visitor.to("inbox")
    page.wait_for_selector(".question:has-text('touch dropped')")
    with page.expect_response("**/answered?*") as told:
        served.post(f"/sessions/{asked}/say", {"text": "never mind"})
    assert (told.value.status, told.value.json()) == (200, None)
    page.wait_for_selector(".question:has-text('touch dropped')", state="detached")


def test_settings_have_their_origins(visitor: Visitor, house: House) -> None:
    page = visitor.enter()
    visitor.to("machine/settings")
    page.wait_for_selector(".settings > div")
    total = page.locator(".settings > div").count()
    page.check("text=Only what differs from the default")
    assert page.locator(".settings > div").count() < total


def test_the_keyboard_reaches_everything(visitor: Visitor, house: House) -> None:
    page = visitor.enter()
    visitor.to("inbox")
    page.wait_for_selector(".question")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.textContent.trim()"))
    assert {"Sessions", "New", "Cost", "Allow once", "Refuse", "Always…", "Edit"} <= reached
    page.locator("nav a:has-text('Cost')").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("h1 >> text=Cost")
