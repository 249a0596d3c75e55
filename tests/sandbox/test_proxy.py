"""A network that is a list of hosts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mainspring.sandbox import Command
from mainspring.sandbox.policy import Network, policy
from mainspring.sandbox.probe import build, probe
from mainspring.sandbox.proxy import Proxy, allows


@pytest.mark.parametrize(
    ("pattern", "host", "port", "is_allowed"),
    [
        ("site.org", "site.org", 443, True),
        ("site.org", "Site.org.", 443, True),
        ("site.org", "site.org", 22, False),
        ("site.org", "evilsite.org", 443, False),
        ("site.org", "site.org.evil.com", 443, False),
        ("*.pythonhosted.org", "files.pythonhosted.org", 443, True),
        ("*.pythonhosted.org", "pythonhosted.org", 443, False),
        ("localhost:8080", "localhost", 8080, True),
        ("localhost:8080", "localhost", 80, False),
    ],
)
def test_a_host_is_matched_whole_and_with_its_port(
    pattern: str, host: str, port: int, is_allowed: bool
) -> None:
    assert allows((pattern,), host, port) is is_allowed


async def origin() -> tuple[asyncio.Server, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1]
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nyou asked for " + path)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def ask(path: Path, request: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request.encode())
    writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    return answer


def test_the_proxy_connects_to_the_list_alone(tmp_path: Path) -> None:
    async def main() -> None:
        server, port = await origin()
        proxy = Proxy((f"127.0.0.1:{port}", "*.test"), tmp_path / "socket")
        await proxy.start()
        plain = await ask(proxy.path, f"GET http://127.0.0.1:{port}/x?y HTTP/1.1\r\nHost: a\r\n\r\n")
        assert plain.endswith(b"you asked for /x?y")
        tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\nGET /inner HTTP/1.1\r\n\r\n"
        assert (await ask(proxy.path, tunnel)).endswith(b"you asked for /inner")
        for request in (
            "CONNECT 127.0.0.1:1",
            "CONNECT example.com:443",
            "GET /",
            "GET ftp://x/",
            "CONNECT a:b",
        ):
            assert b"403" in await ask(proxy.path, f"{request} HTTP/1.1\r\n\r\n")
        server.close()
        await proxy.close()

    asyncio.run(main())


def test_a_name_on_the_list_does_not_open_private_addresses(tmp_path: Path) -> None:
    async def main() -> None:
        proxy = Proxy(("*:80", "*host*:80"), tmp_path / "socket")
        await proxy.start()
        assert b"private address" in await ask(proxy.path, "CONNECT localhost:80 HTTP/1.1\r\n\r\n")
        assert b"private address" in await ask(proxy.path, "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n")
        await proxy.close()

    asyncio.run(main())


def test_a_command_reaches_the_list_and_nothing_else(tmp_path: Path) -> None:
    script = """
import sys, urllib.request, urllib.error
for url in sys.argv[1:]:
    try: print(urllib.request.build_opener().open(url, timeout=60).read().decode())
    except (urllib.error.URLError, OSError) as error: print("refused")
"""

    async def main() -> None:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        if not (await probe(environment)).rung("bwrap").is_available:
            pytest.skip("bwrap is not available here; the report says so")
        server, port = await origin()
        network = Network("hosts", (f"127.0.0.1:{port}",))
        (tmp_path / "work").mkdir()
        sandbox = build("bwrap", policy(tmp_path / "work", home=tmp_path, network=network), environment)
        urls = (f"http://127.0.0.1:{port}/through", "http://127.0.0.1:1/", "http://192.0.2.1/")
        argv = ("env", "no_proxy=", "NO_PROXY=", "python3", "-c", script, *urls)
        done = await sandbox.run(Command(argv=argv, cwd=tmp_path / "work"))
        assert done.stdout.decode().splitlines() == ["you asked for /through", "refused", "refused"]
        failed = await sandbox.run(Command(argv=("bash", "-c", "exit 9"), cwd=tmp_path / "work"))
        assert failed.exit_code == 9
        server.close()
        await sandbox.close()

    asyncio.run(main())
