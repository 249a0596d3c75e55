"""Work that is begun, answered and watched from the page, in a real Chromium: processes, waits, goals, trees, devices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.cli.conftest import Machine
from tests.serve.browsers import PHONE, Visitor, begin, browser, call, visitor
from tests.serve.conftest import Served

__all__ = ["browser", "visitor"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    machine = Machine(tmp_path_factory.mktemp("work"))
    machine.home.mkdir(mode=0o700)
    (machine.home / "config.toml").write_text(
        '[notify.channels.desk]\ntype = "webhook"\nurl = "http://127.0.0.1:1/"\nalways = false\n'
    )
    served = Served(machine)
    yield served
    served.end()
    machine.run("daemon", "stop")
    for server in machine.servers:
        server.__exit__(None, None, None)


def ask(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


def asking(served: Served, *commands: str) -> list[str]:
    """Sessions that each wait for an answer to one of these."""
    found = [
        begin(served, call(each), call(each), {"text": "done"}, mode="ask", text=each) for each in commands
    ]
    for session in found:
        served.until(session, "TurnEnded")
    return found


def test_a_process_is_watched_while_it_writes_and_is_ended(visitor: Visitor, served: Served) -> None:
    lines = "n=0; while true; do n=$((n+1)); echo line $n; while [ ! -e more ]; do sleep 0.05; done; rm more; done"
    session = begin(
        served, ask("shell", command=lines, background=True), ask("wait", seconds=900), {"text": "ok"}
    )
    served.until(session, "WaitStarted")
    page = visitor.enter()
    visitor.to(f"s/{session}/processes")
    page.wait_for_selector("pre.live >> text=line 1")
    (served.machine.workspace / "more").touch()
    page.wait_for_selector("pre.live >> text=line 2")
    page.click("button >> text=End")
    page.wait_for_selector(".chip >> text=ended")
    served.post(f"/sessions/{session}/stop")


def test_a_wait_counts_down_and_the_thumb_reaches_what_ends_it(
    browser: Browser, visitor: Visitor, served: Served
) -> None:
    session = begin(served, ask("wait", seconds=3700), {"text": "ok"}, text="wait a little")
    served.until(session, "WaitStarted")
    page = visitor.enter()
    visitor.to(f"s/{session}")
    shown = page.locator(".countdown")
    shown.wait_for()
    first = shown.inner_text()
    assert first.startswith(("01:01:", "01:00:"))
    page.wait_for_function("before => document.querySelector('.countdown').textContent !== before", arg=first)
    assert shown.inner_text() < first
    phone = Visitor(browser, served, PHONE)
    page = phone.enter()
    phone.to(f"s/{session}")
    page.get_by_label("Say something").fill("hurry")
    page.wait_for_selector(".countdown")
    page.wait_for_function(
        "() => document.querySelector('.compose .main').getBoundingClientRect().bottom"
        " <= document.querySelector('.main-nav').getBoundingClientRect().top"
    )
    phone.context.close()
    served.post(f"/sessions/{session}/stop")


def test_always_is_given_from_the_page_and_holds(visitor: Visitor, served: Served) -> None:
    (session,) = asking(served, "touch always")
    page = visitor.enter()
    visitor.to("inbox")
    card = page.locator(".question", has_text="touch always")
    card.get_by_text("Always…").click()
    card.get_by_label("in this session").check()
    card.get_by_label("For how long").select_option("8h")
    card.get_by_role("button", name="Always allow").click()
    served.until(session, "CallEnded")
    events = served.get(f"/sessions/{session}/events", limit=1000)["events"]
    (given,) = [each["body"] for each in events if each["kind"] == "ApprovalGiven"]
    assert (given["decision"], given["scope"]) == ("allow", "session")
    ended = [each for each in events if each["kind"] == "TurnEnded"]
    if len(ended) < 2:
        events = served.until(session, "TurnEnded", after=ended[-1]["seq"])
    assert sum(each["kind"] == "ApprovalAsked" for each in events) <= 1
    assert (served.machine.workspace / "always").exists()
    visitor.to("machine/approvals")
    page.locator(".card", has_text="touch always").get_by_text("Ask again").click()
    page.wait_for_selector("text=Nothing is allowed for longer")
    assert served.get("/approvals") == []


def test_several_are_refused_at_once_with_one_reason(visitor: Visitor, served: Served) -> None:
    sessions = asking(served, "touch no1", "touch no2")
    page = visitor.enter()
    visitor.to("inbox")
    for name in ("no1", "no2"):
        page.check(f".choose:has-text('{name}') > input")
    page.fill(".batch input", "not today")
    page.click(".batch >> text=Refuse 2")
    for name in ("no1", "no2"):
        page.wait_for_selector(f".answered:has-text('{name}'):has-text('not today')")
    for session in sessions:
        events = served.get(f"/sessions/{session}/events", limit=1000)["events"]
        (given,) = [each["body"] for each in events if each["kind"] == "ApprovalGiven"]
        assert (given["decision"], given["feedback"]) == ("reject", "not today")
    assert not list(served.machine.workspace.glob("no?"))


def test_a_goal_is_begun_with_the_form_on_a_phone_and_tells_whom_it_names(
    browser: Browser, served: Served
) -> None:
    phone = Visitor(browser, served, PHONE)
    page = phone.enter()
    phone.to("new")
    page.get_by_role("button", name="Goal").click()
    page.get_by_label("What should be done?").fill("Make the file done, and nothing else")
    page.get_by_label("Folder").fill(str(served.machine.workspace))
    page.get_by_label("Command that must pass").fill("test -e done")
    page.get_by_label("Model").fill(served.machine.serve(call("touch done"), *[{"text": "It is done."}] * 9))
    page.get_by_label("What needs approval").select_option("auto")
    page.get_by_label("Most iterations").fill("1")
    page.get_by_label("Who is told").select_option("desk")
    page.get_by_role("button", name="Start").click()
    page.wait_for_selector(".goal .tiles")
    session = page.url.split("/s/")[1].split("/")[0]
    (goal,) = [each["body"] for each in served.until(session, "GoalSet") if each["kind"] == "GoalSet"]
    assert (goal["checks"]["commands"], goal["rules"]["max_iterations"]) == (["test -e done"], 1)
    assert '"desk"' in (served.machine.home / "notify" / f"{session}.json").read_text()
    served.until(session, "GoalEnded")
    page.wait_for_selector(".timeline > li")
    assert (phone.problems, phone.elsewhere) == ([], [])
    phone.context.close()


def test_a_goal_that_ran_out_of_iterations_goes_on_with_more(visitor: Visitor, served: Served) -> None:
    (served.machine.workspace / "count.sh").write_text(
        "echo x >> counted; test $(wc -l < counted) -lt 2 || echo '<promise>DONE</promise>'\n"
    )
    goal = (
        "goal",
        "start",
        "Count",
        "--engine",
        "exec:sh count.sh",
        "--check",
        "test $(wc -l < counted) -ge 2",
    )
    assert served.machine.run(*goal, "--max-iterations", "1", "--mode", "auto").returncode == 5
    session = next(row["id"] for row in served.get("/goals") if row["goal_state"] == "iterations")
    page = visitor.enter()
    visitor.to(f"s/{session}/goal")
    page.get_by_label("Most iterations").fill("3")
    ended = served.until(session, "GoalEnded")[-1]["seq"]
    page.click("text=Go on")
    again = served.until(session, "GoalEnded", after=ended)
    assert again[-1]["body"]["ending"] == "done"
    page.wait_for_selector(".chip.good >> text=done")


def test_agents_and_forks_are_a_tree(visitor: Visitor, served: Served) -> None:
    first = begin(served, {"text": "one"}, text="the trunk")
    served.until(first, "TurnEnded")
    branch = served.post(f"/sessions/{first}/fork")["session"]
    twig = served.post(f"/sessions/{branch}/fork")["session"]
    page = visitor.enter()
    visitor.to(f"s/{branch}")
    page.wait_for_selector(f".tree a[href='#/s/{twig}']")
    depth = "each => { let n = 0; for (let at = each; at; at = at.parentElement.closest('.tree li')) n += 1; return n; }"
    depths = [page.eval_on_selector(f".tree a[href='#/s/{each}']", depth) for each in (first, branch, twig)]
    assert depths[0] < depths[1] < depths[2]
    assert page.locator(".tree [aria-current]").get_attribute("href") == f"#/s/{branch}"
    page.click(f".tree a[href='#/s/{twig}']")
    page.wait_for_selector(f".tree [aria-current][href='#/s/{twig}']")


def test_a_device_is_paired_by_the_code_that_the_page_draws(browser: Browser, served: Served) -> None:
    owner = Visitor(browser, served)
    page = owner.enter()
    owner.to("machine")
    page.select_option("select", "watch")
    page.click("text=Pair a device")
    page.wait_for_selector(".qr path")
    link = page.locator(".card pre").inner_text()
    phone = Visitor(browser, served, PHONE)
    phone.page.goto(link)
    phone.page.wait_for_selector("nav")
    assert "pair=" not in phone.page.url
    assert "New" not in phone.page.inner_text(".main-nav")  # it may only watch
    late = Visitor(browser, served, PHONE)
    late.page.goto(link)
    late.page.wait_for_selector(".problem >> text=This code is not known, was used, or is too old")
    late.context.close()
    page.reload()
    page.click(".card:has-text('Linux browser') >> text=Revoke")
    phone.page.wait_for_selector("text=Open this machine")
    assert (owner.problems, owner.elsewhere) == ([], [])
    owner.context.close()
    phone.context.close()


def test_over_a_certificate_that_nobody_trusts_the_page_is_plain_and_says_so(
    browser: Browser, machine: Machine
) -> None:
    served = Served(machine, "--self-signed")
    context = browser.new_context(ignore_https_errors=True, viewport=PHONE)
    try:
        page = context.new_page()
        page.goto(f"{served.address}/#token={served.token}")
        page.click("nav >> text=Machine")
        page.wait_for_selector("text=works without a service worker here")
        page.click("text=Pair a device")
        page.wait_for_selector(".card >> text=SHA-256")
        assert page.evaluate("navigator.serviceWorker.getRegistrations().then(all => all.length)") == 0
    finally:
        context.close()
        served.end()


def test_what_is_left_for_after_the_turn_is_said_then(visitor: Visitor, served: Served) -> None:
    wait = "while [ ! -e turn-may-end ]; do sleep 0.05; done"
    session = begin(served, call(wait), {"text": "first"}, {"text": "second"}, text="a turn that lasts")
    served.until(session, "CallStarted")
    page = visitor.enter()
    visitor.to(f"s/{session}")
    page.get_by_label("Say something").fill("and then this")
    page.click("text=After this turn")
    page.wait_for_selector(".unsaid >> text=and then this")
    page.get_by_label("Say something").fill("better not")
    page.click("text=After this turn")
    page.locator(".unsaid .card", has_text="better not").get_by_text("Take back").click()
    page.wait_for_selector(".unsaid >> text=better not", state="detached")
    (served.machine.workspace / "turn-may-end").touch()
    ended = served.until(session, "TurnEnded")[-1]["seq"]
    said = served.until(session, "TurnEnded", after=ended)
    assert [each["body"]["text"] for each in said if each["kind"] == "UserSaid"] == ["and then this"]
    page.wait_for_selector(".part.text >> text=second")
