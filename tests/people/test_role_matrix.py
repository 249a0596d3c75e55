"""Every operation with every role: by the command line, and by every route and tool of the server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import httpx2
import pytest

import mainspring
from mainspring.app.operations.device_roles import Role
from mainspring.app.operations.devices import Access
from mainspring.cli.dispatch import logged
from mainspring.errors import AccessRefused
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.people.operations import OF_A_MACHINE, OPERATIONS
from mainspring.serve.api import ROUTES
from mainspring.serve.mcp.tools import TOOLS
from mainspring.serve.server import WebServer
from mainspring.settings import Config, load_config
from mainspring.system import user_name
from tests.people.teams import PEOPLE, ROLES, Team
from tests.stage import says

LEAST = {"see": "viewer", "approve": "reviewer", "start": "developer", "own": "developer", "manage": "admin"}
"""The least role for each right, written down once more, so that a slip in the code is one against this."""
SAMPLES = {
    "see": {"show", "sessions", "cost", "usage", "diff", "export", "verify", "fleet"},
    "approve": {"approve", "docs approve", "docs reject", "reviews dismiss"},
    "start": {"run", "resume", "say", "stop", "undo", "fork", "goal start", "exec", "worker", "land", "mode"},
    "own": {"config set", "keys add", "login", "policy sign", "trust add", "plugins add"},
    "manage": {
        "policy set",
        "audit",
        "audit prune",
        "devices pair",
        "devices token",
        "sessions delete",
        "store copy",
    },
}


def may(role: str, operation: str) -> bool:
    return role != "nobody" and ROLES.index(role) >= ROLES.index(LEAST[OPERATIONS[operation]])


def test_what_an_operation_takes_is_what_it_says_here() -> None:
    for right, operations in SAMPLES.items():
        assert {each: OPERATIONS[each] for each in operations} == dict.fromkeys(operations, right)


@pytest.mark.parametrize("role", ROLES)
def test_every_command_of_the_command_line(
    tmp_path: Path, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = Team(tmp_path)
    me = f'["local:{user_name()}"]'
    team.signs(
        f'[roles]\nadmin = ["local:admin"]\n{role} = {me}\n' if role not in ("nobody", "admin") else ""
    )
    if role == "admin":
        team.signs(f"[roles]\nadmin = {me}\n")
    monkeypatch.setenv("MAINSPRING_HOME", str(team.home))
    monkeypatch.chdir(team.workspace)
    done, refused = list[str](), list[AccessRefused]()
    for name in OPERATIONS:
        command = logged(click.Command(name, callback=lambda name=name: done.append(name)), name)
        try:
            command.main([], standalone_mode=False)
        except AccessRefused as error:
            refused.append(error)
    assert all(each.rule and each.message.startswith(f"local:{user_name()}") for each in refused)
    assert set(done) == {name for name in OPERATIONS if name in OF_A_MACHINE or may(role, name)}


async def _session(config: Config, folder: Path) -> str:
    model = ScriptedModel(Script((says("done"),)))
    async with mainspring.open(folder, model=model, config=config) as session:
        await session.ask("do it")
        return session.id


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("paired", ["owner", "answer"])
def test_every_route_of_the_server(tmp_path: Path, role: str, paired: Role) -> None:
    """A program has a token of a role, and the policy gives it a role: it does what both let it do."""
    team = Team(tmp_path)
    project = f'[[project]]\nname = "work"\npaths = ["{team.workspace}"]\nclosed = true\n'
    team.signs(PEOPLE + project + "\n".join(f'roles.{each} = ["service:{each}"]' for each in ROLES[1:-1]))
    config = load_config({"MAINSPRING_HOME": str(team.home), "HOME": str(team.home)})
    token = Access(config).add_service(role, paired, 60_000_000).token
    host = "mainspring.test"
    refused_by_token = {"owner": set[str](), "answer": {"start", "own", "manage"}}[paired]

    async def crawl() -> None:
        session = await _session(team.config("admin"), team.workspace)
        server = WebServer(config)
        app: Any = server.app(frozenset({host}))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {token}", "host": host}
        async with httpx2.AsyncClient(
            transport=transport, base_url=f"http://{host}", headers=headers
        ) as client:
            for route in ROUTES:
                if route.operation == "daemon stop":
                    continue
                path = route.path.replace("{session}", session)
                place = {"workspace": str(team.workspace), "folder": str(team.workspace), "session": session}
                given = {**place, "text": "", "template": "none", "argv": []}
                body = {name: given[name] for name in route.takes.__struct_fields__ if name in given}
                sent: dict[str, Any] = {"json": body} if route.method == "POST" else {"params": body}
                answer = await client.request(route.method, f"/api/v1{path}", **sent)
                is_allowed = (
                    may(role, route.operation) and OPERATIONS[route.operation] not in refused_by_token
                )
                told = (route.method, path, answer.status_code, answer.text)
                if role == "nobody" and ("{session}" in route.path or "session" in body):
                    assert answer.status_code in (403, 404), told
                else:
                    assert (answer.status_code != 403) == is_allowed, told

    asyncio.run(crawl())


def test_every_tool_of_mcp_is_an_operation_with_a_right() -> None:
    assert {tool.operation for tool in TOOLS} <= set(OPERATIONS)
    assert all(LEAST[OPERATIONS[tool.operation]] != "admin" for tool in TOOLS)


def test_what_a_request_names_in_its_body_or_query_is_asked_about(tmp_path: Path) -> None:
    """Who may do everything elsewhere does not thereby look at, or steer, what is in a closed project."""
    team = Team(tmp_path)
    project = f'[[project]]\nname = "work"\npaths = ["{team.workspace}"]\nclosed = true\n'
    team.signs(PEOPLE + project + 'roles.viewer = ["service:viewer"]\n')
    config = load_config({"MAINSPRING_HOME": str(team.home), "HOME": str(team.home)})
    host = "mainspring.test"

    async def asked(role: str, *requests: tuple[str, str, dict[str, str]]) -> list[int]:
        access = Access(config)
        if any(each.name == role for each in access.devices()):
            access.revoke(role)
        token = access.add_service(role, "owner", 60_000_000).token
        app: Any = WebServer(config).app(frozenset({host}))
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        headers = {"authorization": f"Bearer {token}", "host": host}
        base = f"http://{host}"
        async with httpx2.AsyncClient(transport=transport, base_url=base, headers=headers) as client:
            return [
                (
                    await client.request(
                        method,
                        path,
                        json=given if method == "POST" else None,
                        params=given if method == "GET" else None,
                    )
                ).status_code
                for method, path, given in requests
            ]

    async def crawl() -> None:
        session = await _session(team.config("admin"), team.workspace)
        here = {"folder": str(team.workspace)}
        looks = [("GET", f"/api/v1/{path}", here) for path in ("settings", "engines", "agents", "impact")]
        assert await asked("developer", *looks, ("GET", "/api/v1/settings", {})) == [403, 403, 403, 403, 200]
        unseen = [("GET", f"/api/v1/sessions/{name}", {}) for name in (session, "nosuchname")]
        assert await asked("developer", ("GET", "/metrics", {}), *unseen) == [403, 404, 404]
        assert await asked("nobody", ("GET", "/metrics", {})) == [403]
        assert await asked("admin", ("GET", "/metrics", {})) == [200]
        moved = ("POST", "/api/v1/fleet/retry", {"session": session})
        assert await asked("viewer", *looks, moved) == [200, 200, 200, 403, 403]

    asyncio.run(crawl())
