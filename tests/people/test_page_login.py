"""Logging in at a server's page by a real issuer, in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from mainspring.app.operations.audit import audit_lines
from mainspring.people.audit import AuditLine
from mainspring.system import user_name
from tests.cli.conftest import Machine
from tests.npm import needs
from tests.people.issuers import PACKAGE, address, team_of
from tests.people.teams import Team
from tests.serve.browsers import Visitor, browser
from tests.serve.conftest import Served

__all__ = ["address", "browser"]
pytestmark = needs(PACKAGE)
POLICY = """
issuers = ["{issuer}"]
[roles]
developer = ["claim:engineers"]
admin = ["local:admin", "local:{user}"]
"""


@pytest.fixture
def team(tmp_path: Path, address: str) -> Team:
    return team_of(tmp_path, address, POLICY.format(issuer=address, user=user_name()))


@pytest.fixture
def served(team: Team) -> Iterator[Served]:
    served = Served(Machine(team.home.parent))
    yield served
    served.end()


@pytest.fixture
def visitor(browser: Browser, served: Served) -> Iterator[Visitor]:
    visitor = Visitor(browser, served)
    yield visitor
    visitor.context.close()


def log_of(team: Team) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        return [each async for each in audit_lines(team.config("admin"))]

    with ThreadPoolExecutor(1) as thread:  # here the browser has a loop
        return thread.submit(lambda: asyncio.run(read())).result()


def log_in(visitor: Visitor, name: str) -> Page:
    page = visitor.page
    page.goto(visitor.served.address)
    page.get_by_role("button", name="Log in at 127.0.0.1").click()
    page.locator("input[name=login]").fill(name)
    page.locator("input[name=password]").fill("any")
    page.locator("button[type=submit]").click()
    page.locator("button[type=submit]").click()  # agrees
    page.wait_for_url(f"{visitor.served.address}/")
    return page


def test_a_person_logs_in_at_the_page_is_held_to_the_policy_and_leaves(visitor: Visitor, team: Team) -> None:
    page = log_in(visitor, "eve")
    page.wait_for_selector("nav")
    assert page.evaluate("sessionStorage.length") == 0
    page.reload()
    page.wait_for_selector("nav")
    last = next(each.entry for each in reversed(log_of(team)) if each.entry.operation == "login")
    assert (last.origin.user, last.decision, last.rule) == (
        "eve@example.org",
        "allowed",
        "a login at the issuer",
    )
    key = page.evaluate("localStorage.getItem('mainspring-key')")
    ask = """async ([path, key]) => (await fetch('/api/v1' + path, {method: 'POST', body: '{}',
        headers: {'content-type': 'application/json', 'x-mainspring-key': key}})).status"""
    assert page.evaluate(ask, ["/devices/offer", key]) == 403
    assert page.evaluate(ask, ["/devices/offer", "another"]) == 401
    cookies = {each.get("name"): each.get("value", "") for each in visitor.context.cookies()}
    assert cookies["mainspring"].startswith("page-")
    page.goto(f"{visitor.served.address}/#/machine")
    page.get_by_role("button", name="Forget this device").click()
    expect(page.get_by_role("button", name="Log in at 127.0.0.1")).to_be_visible()
    headers = {"cookie": f"mainspring={cookies['mainspring']}", "x-mainspring-key": key}
    with visitor.served.client("", **headers) as client:
        assert client.get("/api/v1/about").status_code == 401


def test_who_is_refused_is_told_why_at_the_page(visitor: Visitor, team: Team) -> None:
    page = log_in(visitor, "mallory")
    expect(page.get_by_role("alert")).to_contain_text("the issuer did not verify its email")
    assert page.query_selector("nav") is None
    last = log_of(team)[-1].entry
    assert (last.operation, last.decision, last.rule) == ("login", "refused", "login")


def test_a_login_that_was_not_begun_here_or_is_finished_twice_is_none(visitor: Visitor, address: str) -> None:
    page = visitor.page
    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.goto(f"{visitor.served.address}/?state=guessed&code=stolen")
    expect(page.get_by_role("alert")).to_contain_text("was not begun here")
    assert page.url == f"{visitor.served.address}/"
    assert "/api/v1/login/finish" not in asked
    with visitor.served.client("") as client:
        assert client.post("/api/v1/login/begin", json={}).status_code == 400
        begun = client.post("/api/v1/login/begin", json={}, headers={"origin": visitor.served.address}).json()
        told = dict(parse_qsl(urlsplit(begun["address"]).query))
        assert (told["state"], told["redirect_uri"]) == (begun["state"], f"{visitor.served.address}/")
        given = {"given": {"state": begun["state"], "code": "stolen", "iss": address}}
        assert client.post("/api/v1/login/finish", json=given).status_code == 403
        again = client.post("/api/v1/login/finish", json=given)
        assert (again.status_code, "was finished" in again.text) == (400, True)
