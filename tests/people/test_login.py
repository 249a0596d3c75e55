"""Logging in at a real issuer: in a browser and by a code, what a policy then lets somebody do, at the command
line and with a token at the server; that a login is renewed, ends, and cannot be forged in its file."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx2
import msgspec
import pytest

import mainspring
from mainspring.app.login import ID_TOKEN, REFRESH_TOKEN, Login, current_login, with_login
from mainspring.app.operations.audit import audit_lines
from mainspring.app.operations.login import log_in, log_in_by_code, log_out
from mainspring.app.operations.policy import show_policies
from mainspring.app.team import account_name
from mainspring.errors import AccessRefused
from mainspring.events import Origin
from mainspring.models.scripted import Script, ScriptedModel
from mainspring.people.audit import AuditLine
from mainspring.people.persons import person_on_record, recorded_name
from mainspring.people.settings import PolicySettings
from mainspring.secrets.key_store import change_keys, read_keys
from mainspring.serve.server import WebServer
from mainspring.settings import Config
from tests.npm import needs
from tests.people.issuers import PACKAGE, address, team_of, visit
from tests.people.teams import Team
from tests.stage import says

__all__ = ["address"]
pytestmark = needs(PACKAGE)
POLICY = """
issuers = ["{issuer}"]
[roles]
viewer = ["vic@example.org"]
developer = ["claim:engineers"]
admin = ["local:admin"]
"""


@pytest.fixture
def team(tmp_path: Path, address: str) -> Team:
    return team_of(tmp_path, address, POLICY.format(issuer=address))


def logs_in(config: Config, name: str) -> str:
    """Logs in as a person does; the name by which they are known then."""
    people = list[threading.Thread]()

    def there(url: str) -> None:
        people.append(threading.Thread(target=visit, args=(url, name)))
        people[-1].start()

    try:
        return asyncio.run(log_in(config, there)).person.name
    finally:
        for each in people:
            each.join()


def log_of(config: Config) -> list[AuditLine]:
    async def read() -> list[AuditLine]:
        return [each async for each in audit_lines(config)]

    return asyncio.run(read())


def an_hour_later() -> float:
    return time.time() + 3700


def command(team: Team, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MAINSPRING_HOME": str(team.home), "HOME": str(team.home)}
    return subprocess.run(
        [sys.executable, "-m", "mainspring", *words],
        cwd=team.workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_person_logs_in_at_the_command_line_and_is_who_the_policy_means(team: Team) -> None:
    refused = command(team, "exec", "--", "true")
    assert refused.returncode == 3
    assert "not logged in at http://127.0.0.1" in refused.stderr
    assert "mainspring login" in refused.stderr
    environment = {**os.environ, "MAINSPRING_HOME": str(team.home), "HOME": str(team.home)}
    with subprocess.Popen(
        [sys.executable, "-m", "mainspring", "login", "--no-browser"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = next(each for each in process.stderr if each.startswith("Visit: "))
        assert "go back to mainspring" in visit(line.removeprefix("Visit: ").strip(), "eve").text
        out, _ = process.communicate(timeout=300)
    assert out.startswith("logged in as eve@example.org, until ")
    assert "renewed by itself; kept in keys.json" in out
    assert (team.home / "keys.json").stat().st_mode & 0o777 == 0o600
    status = command(team, "login", "--status")
    assert status.returncode == 0
    assert "eve@example.org, logged in at" in status.stdout
    assert "groups: engineers" in status.stdout
    assert command(team, "exec", "--", "true").returncode == 0
    last = log_of(team.config("admin"))[-1].entry
    assert (last.operation, last.origin.user) == ("exec", "eve@example.org")
    assert (last.origin.issuer, last.origin.groups) == (read_issuer(team), ("engineers",))
    assert command(team, "logout").stdout == "logged out\n"
    assert command(team, "login", "--status").returncode == 1
    assert command(team, "exec", "--", "true").returncode == 3


def read_issuer(team: Team) -> str:
    return team.config("admin").settings.login.issuer


def test_a_person_logs_in_by_a_code(team: Team) -> None:
    config, waits = team.config("someone"), list[float]()
    shown = list[str]()

    async def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:  # the first answer is that nobody has entered the code yet
            await asyncio.to_thread(visit, shown[0], "eve")

    done = asyncio.run(log_in_by_code(config, lambda *told: shown.append(told[2]), pause))
    assert (done.person.name, len(waits)) == ("eve@example.org", 2)
    assert with_login(config).origin.user == "eve@example.org"


def test_an_unverified_address_is_nobody(team: Team) -> None:
    config = team.config("someone")
    with pytest.raises(AccessRefused, match="did not verify its email"):
        logs_in(config, "mallory")
    assert ID_TOKEN not in read_keys(config.folder).values


def test_a_login_that_has_ended_is_renewed_once_and_has_expired_after_a_logout(team: Team) -> None:
    config = team.config("someone")
    logs_in(config, "eve")
    before = read_keys(config.folder).values

    async def twice() -> tuple[Login, Login]:
        return await asyncio.gather(
            current_login(config, an_hour_later), current_login(config, an_hour_later)
        )

    for login in asyncio.run(twice()):
        assert login.person is not None
        assert (login.person.name, login.person.claims) == ("eve@example.org", ("engineers",))
    after = read_keys(config.folder).values
    assert after[ID_TOKEN] != before[ID_TOKEN]
    assert after[REFRESH_TOKEN] != before[REFRESH_TOKEN]
    assert asyncio.run(log_out(config)) == (True, "")
    change_keys(config.folder, {ID_TOKEN: before[ID_TOKEN], REFRESH_TOKEN: after[REFRESH_TOKEN]})
    expired = asyncio.run(current_login(config, an_hour_later))
    assert expired.person is None
    assert "has expired" in expired.problem


def test_a_login_is_not_renewed_for_somebody_else(team: Team) -> None:
    config = team.config("someone")
    logs_in(config, "vic")
    viewer = read_keys(config.folder).values[ID_TOKEN]
    logs_in(config, "eve")
    change_keys(config.folder, {ID_TOKEN: viewer})
    found = asyncio.run(current_login(config, an_hour_later))
    assert found.person is None
    assert "renewed for somebody else" in found.problem


def test_an_account_that_looks_like_an_address_is_not_who_has_the_address() -> None:
    account = Origin(user=account_name("vic@example.org"))
    assert account.user == "local:vic@example.org"
    for origin in (account, Origin(user="vic@example.org")):
        assert person_on_record(origin, "").name == "local:vic@example.org"
    person = person_on_record(Origin(user="vic@example.org", issuer="https://login.example.org"), "")
    assert (person.name, recorded_name(person)) == ("vic@example.org", "vic@example.org")


def test_who_does_not_log_in_does_not_wait_for_what_logging_in_loads() -> None:
    code = "import sys, mainspring.cli.config; print('mainspring.people.issuer' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"


def test_a_program_of_the_library_is_who_is_logged_in(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAINSPRING_HOME", str(team.home))
    monkeypatch.setenv("HOME", str(team.home))

    async def work() -> str:
        async with mainspring.open(team.workspace, model=ScriptedModel(Script((says("done"),)))) as session:
            await session.ask("do it")
            return session.id

    with pytest.raises(AccessRefused, match="not logged in"):
        asyncio.run(work())
    logs_in(team.config("someone"), "eve")
    session = asyncio.run(work())
    said = [each.entry for each in log_of(team.config("admin")) if each.entry.operation == "say"]
    assert [(each.session, each.origin.user) for each in said] == [(session, "eve@example.org")]


def test_what_is_stored_cannot_be_forged_or_come_from_another_issuer(team: Team) -> None:
    config = team.config("someone")
    logs_in(config, "vic")
    head, body, signature = read_keys(config.folder).values[ID_TOKEN].split(".")
    change_keys(config.folder, {ID_TOKEN: f"{head}.{body[:-4]}AAAA.{signature}"})
    found = with_login(config)
    assert found.person is not None
    assert "cannot be used" in found.person.known_by
    logs_in(config, "vic")
    team.signs(POLICY.format(issuer="https://elsewhere.example.org"))
    shown = show_policies(with_login(config), team.workspace)
    assert [each.role for each in shown.policies] == [None]


def test_a_token_of_the_issuer_is_its_person_at_the_server(team: Team) -> None:
    config = team.config("admin")
    logs_in(config, "vic")
    token = read_keys(config.folder).values[ID_TOKEN]
    change_keys(config.folder, {ID_TOKEN: "", REFRESH_TOKEN: ""})
    app = WebServer(config).app(frozenset({"test"}))

    async def ask(method: str, path: str, bearer: str) -> httpx2.Response:
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app),
            base_url="http://test",
            headers={"authorization": f"Bearer {bearer}"},
        ) as client:
            return await client.request(method, f"/api/v1{path}", json={} if method == "POST" else None)

    assert asyncio.run(ask("GET", "/sessions", token)).status_code == 200
    refused = asyncio.run(ask("POST", "/devices/offer", token))
    assert (refused.status_code, "vic@example.org may not change" in refused.text) == (403, True)
    last = log_of(config)[-1].entry
    assert (last.origin.user, last.origin.token, last.decision) == ("vic@example.org", "login", "refused")
    forged = asyncio.run(ask("GET", "/sessions", token[:-6] + "AAAAAA"))
    assert forged.status_code == 401
    assert "signature is not that of the issuer" in forged.text
    last = log_of(config)[-1].entry
    assert (last.operation, last.decision, last.rule) == ("login", "refused", "login")
    lawless = msgspec.structs.replace(config.settings, policy=PolicySettings())
    elsewhere = msgspec.structs.replace(config, settings=lawless, home=team.home / "elsewhere")
    app = WebServer(elsewhere).app(frozenset({"test"}))
    unruled = asyncio.run(ask("GET", "/sessions", token))
    assert (unruled.status_code, "No policy of a team says here" in unruled.text) == (401, True)
    assert token[:40] not in msgspec.json.encode(log_of(config)).decode()
