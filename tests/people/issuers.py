"""A real issuer of OpenID Connect (npm's oidc-provider) on loopback, and a person with a plain HTTP client
at its pages."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest

from tests.npm import MODULES, NODE
from tests.people.teams import Team

PACKAGE = MODULES / "oidc-provider/lib/index.js"
_SCRIPT = Path(__file__).with_name("issuer.mjs")
_FIELD = re.compile(r'<input[^>]*type="hidden"[^>]*name="(\w+)"[^>]*value="([^"]*)"')
_FORM = re.compile(r'<form[^>]*action="([^"]+)"')


@contextmanager
def issuer(folder: Path) -> Generator[str]:
    """The address of an issuer, which ends with the block."""
    script = folder / "issuer.mjs"
    script.write_text(_SCRIPT.read_text().replace("'oidc-provider'", f"'{PACKAGE}'"))
    with subprocess.Popen(
        [str(NODE), str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with issuer(tmp_path_factory.mktemp("issuer")) as found:
        yield found


def team_of(folder: Path, address: str, policy: str) -> Team:
    """A team whose people log in at the issuer, under this policy."""
    made = Team(folder)
    with (made.home / "config.toml").open("a") as file:
        file.write(f'[login]\nissuer = "{address}"\nclient_id = "mainspring"\n')
    made.signs(policy)
    return made


def visit(url: str, name: str) -> httpx2.Response:
    """What a person with this name sees at the end, who logs in and agrees to everything."""
    with httpx2.Client(follow_redirects=False, timeout=60) as client:
        answer = client.get(url)
        while True:
            if answer.is_redirect:
                answer = client.get(urljoin(str(answer.url), answer.headers["location"]))
                continue
            form = _FORM.search(answer.text)
            if form is None or urlsplit(str(answer.url)).path == "/callback":
                return answer
            fields = dict(_FIELD.findall(answer.text))
            if fields.get("prompt") == "login":
                fields |= {"login": name, "password": "any"}
            answer = client.post(urljoin(str(answer.url), form[1]), data=fields)
