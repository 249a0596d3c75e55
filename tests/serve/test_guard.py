"""Nobody gets in without a token, from another site, or beyond the role of their device."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from mainspring.app.operations.devices import Access
from mainspring.errors import UsageError
from mainspring.serve import run
from mainspring.settings import load_config
from tests.serve.conftest import Served


def operations(served: Served) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Every operation of the OpenAPI document, with a session that does not exist."""
    for path, methods in served.get("/openapi.json")["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path.replace("{session}", "nosuch"), operation


def pair(served: Served, role: str) -> str:
    code = served.post("/devices/offer", {"role": role, "name": f"my {role}"})["code"]
    return served.post("/pair", {"code": code}, token="")["token"]


def test_every_route_needs_a_token_and_our_own_host_and_origin(served: Served) -> None:
    routes = list(operations(served))
    assert len(routes) > 25
    with served.client() as known, served.client("") as stranger:
        for method, path, _ in (*routes, ("GET", "/healthz", {}), ("GET", "/metrics", {}), ("GET", "/x", {})):
            body: dict[str, Any] = {"json": {}} if method == "POST" else {}
            assert stranger.request(method, path, **body).status_code == 401, path
            wrong = stranger.request(method, path, headers={"authorization": "Bearer x"}, **body)
            assert wrong.status_code == 401, path
            for header in (
                {"host": "evil.example"},
                {"host": f"evil.example:{served.port}"},
                {"host": "127.0.0.1"},
                {"origin": "http://evil.example"},
                {"origin": "null"},
                {"origin": served.address.replace("http:", "https:")},
                {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"},
                {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"},
            ):
                answer = known.request(method, path, headers=header, **body)
                assert answer.status_code == 403, (path, header)


def test_a_device_does_what_its_role_allows_and_no_more(served: Served) -> None:
    allowed = {"watch": {"watch"}, "answer": {"watch", "answer"}, "steer": {"watch", "answer", "steer"}}
    routes = [each for each in operations(served) if not each[1].endswith("/stream")]
    for role, may in allowed.items():
        token = pair(served, role)
        with served.client(token) as device:
            for method, path, operation in routes:
                body: dict[str, Any] = {"json": {}} if method == "POST" else {}
                answer = device.request(method, path, **body)
                is_allowed = operation["x-role"] in may
                assert (answer.status_code != 403) == is_allowed, (role, path, answer.text)
    names = {device["name"]: device["role"] for device in served.get("/devices")}
    assert names == {f"my {role}": role for role in allowed}


def test_a_code_pairs_one_device_and_guessing_is_slowed_down(served: Served) -> None:
    code = served.post("/devices/offer", {"role": "watch"})["code"]
    assert served.post("/pair", {"code": code, "name": "phone"}, token="")["role"] == "watch"
    with served.client("") as stranger:
        answers = [stranger.post("/api/v1/pair", json={"code": code}) for _ in range(4)]
        assert stranger.post("/api/v1/login", content="{").status_code == 400  # forgives nothing
        answers += [stranger.post("/api/v1/pair", json={"code": code}) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [401] * 8 + [429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 61


def test_a_login_sets_a_cookie_that_pages_of_other_sites_cannot_send_or_read(served: Served) -> None:
    with served.client("") as page:
        entered = page.post("/api/v1/login", json={"token": served.token}, headers={"origin": served.address})
        assert entered.status_code == 200
        cookie = entered.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/"} <= {part.strip() for part in cookie.split(";")}
        stolen = page.get("/api/v1/about")  # every server of this machine is sent the cookie
        assert stolen.status_code == 401
        page.headers["x-mainspring-key"] = entered.json()["key"]
        assert page.get("/api/v1/about").json()["role"] == "owner"
        assert page.get("/api/v1/about").headers["content-security-policy"].startswith("default-src 'none'")
        page.post("/api/v1/logout", json={})
        assert page.get("/api/v1/about").status_code == 401


def test_revoking_a_device_ends_its_streams_at_once(served: Served) -> None:
    token = pair(served, "watch")
    is_open, rows = threading.Event(), list[Any]()

    def watch() -> None:
        for row in served.stream("/stream", token=token):
            rows.append(row)
            is_open.set()

    model = served.machine.serve({"text": "hello"})
    body = {"text": "begin", "workspace": str(served.machine.workspace), "model": model}
    served.post("/sessions", body)
    watcher = threading.Thread(target=watch)
    watcher.start()
    assert is_open.wait(30)
    assert served.machine.run("devices", "revoke", "my watch").returncode == 0
    watcher.join(10)
    assert not watcher.is_alive()
    with served.client(token) as revoked:
        assert revoked.get("/api/v1/sessions").status_code == 401


def test_bodies_are_bounded_with_and_without_a_length(served: Served) -> None:
    with served.client() as client:
        large = client.post("/api/v1/sessions", content=b"x" * 2_000_000)
        assert large.status_code == 413
    host, port = "127.0.0.1", int(served.port)
    with socket.create_connection((host, port), timeout=30) as raw:
        head = f"POST /api/v1/sessions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {served.token}\r\n"
        raw.sendall((head + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").encode())
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        answer = b""
        try:
            for _ in range(40):
                raw.sendall(chunk)
            answer = raw.recv(1000)
        except OSError:
            answer = answer or b"HTTP/1.1 413 closed"
        assert b" 413 " in answer.split(b"\r\n")[0]


def test_bad_requests_are_told_what_is_wrong(served: Served) -> None:
    with served.client() as client:
        for body, status in (
            ({"text": "x", "workspace": "relative"}, 400),
            ({"text": "", "workspace": "/tmp"}, 400),
            ({"text": "x", "workspace": "/tmp", "sudo": True}, 400),
            ({"text": 5, "workspace": "/tmp"}, 400),
        ):
            answer = client.post("/api/v1/sessions", json=body)
            assert (answer.status_code, bool(answer.json()["error"]["message"])) == (status, True)
        assert (
            client.post("/api/v1/sessions", content=b"{}", headers={"content-type": "text/plain"}).status_code
            == 400
        )
        assert (
            client.post(
                "/api/v1/sessions", content=b"[" * 5000, headers={"content-type": "application/json"}
            ).status_code
            == 400
        )
        assert client.get("/api/v1/sessions/nosuch").status_code == 404
        assert client.get("/api/v1/sessions", params={"limit": "many"}).status_code == 400
        assert client.delete("/api/v1/sessions").status_code == 405


def test_numbers_and_hashes_that_cannot_be_are_refused_and_break_nothing(served: Served) -> None:
    model = served.machine.serve({"text": "hello"})
    body = {"text": "begin", "workspace": str(served.machine.workspace), "model": model}
    session = served.post("/sessions", body)["session"]
    asked = 0
    with served.client() as client:
        for path, methods in served.get("/openapi.json")["paths"].items():
            given = {each["name"]: each["schema"] for each in methods.get("get", {}).get("parameters", ())}
            numbers = [name for name, kind in given.items() if "integer" in str(kind)]
            for name, value in [(name, value) for name in numbers for value in ("-1", "9" * 30)]:
                wanted = dict.fromkeys(given, "x") | dict.fromkeys(numbers, "1") | {name: value}
                answer = client.get(path.replace("{session}", session), params=wanted)
                assert answer.status_code == 400, (path, name, answer.text)
                asked += 1
        blob = client.get(f"/api/v1/sessions/{session}/blob", params={"sha256": "../../x", "size": 1})
    assert (blob.status_code, asked > 10) == (400, True)


def test_who_sends_a_request_little_by_little_is_given_up_and_who_waits_for_an_answer_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "REQUEST_WITHIN_S", 0.2)

    async def work() -> None:
        may_answer = asyncio.Event()

        async def app(_: Any, __: Any, send: Any) -> None:
            await may_answer.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        config, state = uvicorn.Config(app, lifespan="off", log_config=None), ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: run.Impatient(config, state, {}), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        patient, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        for part in (
            b"",
            b"GET / HTTP/1.1\r\nHo",
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n123",
        ):
            reader, slow = await asyncio.open_connection("127.0.0.1", port)
            slow.write(part)
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            slow.close()
        may_answer.set()
        assert b" 204 " in await patient.readline()
        writer.close()
        server.close()

    asyncio.run(work())


def test_only_what_a_flag_opens_is_answered_without_a_token(served: Served) -> None:
    served.end()
    served.start("--open-metrics")
    with served.client("") as stranger:
        assert stranger.get("/healthz").status_code == 200
        assert "mainspring_sessions_here 0" in stranger.get("/metrics").text
        assert stranger.get("/api/v1/sessions").status_code == 401


def test_tokens_are_private_and_codes_end(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    config = load_config({"MAINSPRING_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)})
    access = Access(config, lambda: now[0])
    assert access.token == access.token
    file = tmp_path / "home" / "web" / "access.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    code = access.offer("watch", "phone")
    paired = access.pair(code, "other")
    assert paired is not None
    assert (paired.device.name, access.pair(code, "again")) == ("phone", None)
    text = file.read_text()
    assert code not in text
    assert paired.token not in text
    holder = access.holder(paired.token)
    assert holder is not None
    assert (holder.name, access.holder("wrong"), access.holder("")) == ("phone", None, None)
    old = access.token
    assert access.renew() != old
    assert access.holder(old) is None
    with pytest.raises(UsageError):
        access.offer("owner")
    late = access.offer("steer")
    now[0] += 91
    assert access.pair(late, "late") is None
    early = access.offer("steer")
    now[0] -= 86400
    assert access.pair(early, "early") is None


def test_commands_refusals_and_wrong_tokens_are_in_the_audit_log(served: Served) -> None:
    token = pair(served, "watch")
    with served.client(token) as device, served.client("wrong") as stranger:
        assert device.post("/api/v1/sessions/nosuch/stop", json={}).status_code == 403
        assert device.get("/api/v1/sessions").status_code == 200
        assert stranger.get("/api/v1/sessions").status_code == 401
    shown = served.machine.run("audit", "show", "--json").stdout
    found = [json.loads(line)["entry"] for line in shown.splitlines()]
    web = [
        (each["operation"], each.get("decision", "allowed"), each["origin"].get("device", ""))
        for each in found
        if each["origin"]["face"] == "web"
    ]
    assert web == [
        ("devices pair", "allowed", "this machine"),
        ("devices pair", "allowed", "my watch"),
        ("stop", "refused", "my watch"),
        ("login", "refused", ""),
    ]
    assert all(each["address"] == "127.0.0.1" for each in found if each["origin"]["face"] == "web")
    assert token not in shown
