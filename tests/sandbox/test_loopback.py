"""A server that one command starts in the background is reached by the next, and by nothing else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.policy import Network, policy
from mainspring.sandbox.rungs.bwrap import BwrapSandbox

SERVE = "echo hello > index.html; exec python3 -m http.server 8123 --bind 127.0.0.1"
ASK = """
import time, urllib.request
for _ in range(1000):
    try:
        print(urllib.request.urlopen("http://127.0.0.1:8123/index.html", timeout=5).read().decode())
        break
    except OSError:
        time.sleep(0.05)
else:
    raise SystemExit("nobody answers")
"""
HURRIED = ASK.replace("range(1000)", "range(3)")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


async def asked(sandbox: BwrapSandbox, work: Path, script: str = ASK, **options: object) -> CommandResult:
    return await sandbox.run(Command(argv=("python3", "-c", script), cwd=work, **options))  # type: ignore[arg-type]


def confined(work: Path) -> BwrapSandbox:
    return BwrapSandbox(policy(work, home=work.parent), environment=dict(os.environ))


def test_a_background_server_is_reached_by_later_commands(work: Path, tmp_path: Path) -> None:
    async def main() -> CommandResult:
        sandbox = confined(work)
        server = await sandbox.start(
            Command(argv=("bash", "-c", SERVE), cwd=work, timeout_s=0), tmp_path / "p1"
        )
        try:
            assert sandbox.is_loopback_shared
            return await asked(sandbox, work)
        finally:
            await server.stop()
            await sandbox.close()

    finished = asyncio.run(main())
    assert finished.stdout.startswith(b"hello"), finished.stderr


def test_neither_another_session_nor_another_grant_of_the_network_reaches_it(
    work: Path, tmp_path: Path
) -> None:
    async def main() -> list[int]:
        sandbox, other = confined(work), confined(work)
        server = await sandbox.start(
            Command(argv=("bash", "-c", SERVE), cwd=work, timeout_s=0), tmp_path / "p1"
        )
        try:
            await asked(sandbox, work)
            network = Network("hosts", ("example.org",))
            granted = policy(work, home=tmp_path, network=network)
            tries = [await asked(other, work, HURRIED), await asked(sandbox, work, HURRIED, policy=granted)]
            return [finished.exit_code for finished in tries]
        finally:
            await server.stop()
            await sandbox.close()
            await other.close()

    assert asyncio.run(main()) == [1, 1]


def test_the_shared_network_has_nothing_but_a_loopback(work: Path) -> None:
    async def main() -> bytes:
        sandbox = confined(work)
        try:
            listed = "import socket; print(sorted(name for _, name in socket.if_nameindex()))"
            return (await asked(sandbox, work, listed)).stdout
        finally:
            await sandbox.close()

    assert asyncio.run(main()).strip() == b"['lo']"
