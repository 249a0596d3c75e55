"""Fetching: only from the public internet, also after a redirect, bounded in bytes and time."""

import asyncio
import ipaddress
from contextlib import asynccontextmanager, suppress

import pytest

from mainspring.net.web import FetchFailed, Web, host_of, is_public

HERE = ipaddress.ip_address("127.0.0.1")


def answer(status=200, body=b"hello", **headers: str):
    lines = [
        f"HTTP/1.1 {status} X",
        *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "connection: close", "", ""]).encode() + body


@asynccontextmanager
async def serving(answers, seen):
    async def handle(reader, writer):
        handling.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            seen.append(head)
            given = answers[head.split()[1]]
            if given is None:
                await reader.read()
            else:
                writer.write(given)
        except asyncio.IncompleteReadError:
            pass  # the client went away before it asked
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    handling = set()
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await asyncio.sleep(0)
            if handling:
                await asyncio.wait(handling)


def fetch(url, answers, *, addresses=("127.0.0.1",), **options):
    seen = []

    async def resolve(host, port):
        return list(addresses) if host == "site.test" else [host]

    async def run():
        async with serving(answers, seen) as port:
            web = Web(is_allowed=lambda address: address == HERE, resolve=resolve, **options)
            return await web.fetch(url.replace("PORT", str(port)))

    return asyncio.run(run()), seen


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.9.9.9",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "2002:7f00:1::",
        "64:ff9b::a00:1",
        "2001:0:53aa:64c::1",
    ],
)
def test_addresses_of_the_machine_and_its_network_are_not_public(text):
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_of_the_internet_are_public(text):
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://localhost/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::ffff:10.0.0.1]/",
    ],
)
def test_this_machine_is_refused_however_it_is_written(url):
    with pytest.raises(FetchFailed, match=r"not on the public internet|cannot be found"):
        asyncio.run(Web().fetch(url))


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://a.b/",
        "gopher://x/",
        "nonsense",
        "http://",
        "http://u:p@a.b/",
        "http://[x/",
    ],
)
def test_only_plain_web_addresses_are_fetched(url):
    with pytest.raises(FetchFailed):
        host_of(url)


def test_the_connection_goes_to_the_checked_address_and_names_the_host():
    page, seen = fetch(
        "http://site.test:PORT/a?b=c#d", {"/a?b=c": answer(content_type="text/plain; charset=utf-8")}
    )
    assert (page.status, page.data, page.media_type, page.charset) == (200, b"hello", "text/plain", "utf-8")
    assert "\nhost: site.test:" in seen[0].lower()


def test_one_forbidden_address_among_several_is_enough_to_refuse():
    with pytest.raises(FetchFailed, match=r"10\.0\.0\.1"):
        fetch("http://site.test:PORT/", {}, addresses=("127.0.0.1", "10.0.0.1"))


def test_a_redirect_is_followed_and_checked_again():
    answers = {
        "/": answer(302, location="/next"),
        "/next": answer(301, location="http://10.0.0.1/secret"),
        "/good": answer(307, location="/end"),
        "/end": answer(body=b"done"),
    }
    page, _ = fetch("http://site.test:PORT/good", answers)
    assert page.data == b"done"
    assert page.url.endswith("/end")
    with pytest.raises(FetchFailed, match=r"10\.0\.0\.1"):
        fetch("http://site.test:PORT/", answers)


def test_a_redirect_to_a_file_is_refused():
    with pytest.raises(FetchFailed, match="not a web address"):
        fetch("http://site.test:PORT/", {"/": answer(302, location="file:///etc/passwd")})


def test_endless_redirects_end():
    with pytest.raises(FetchFailed, match="redirects more than 5 times"):
        fetch("http://site.test:PORT/", {"/": answer(302, location="/")})


def test_a_page_is_cut_at_its_limit():
    page, _ = fetch("http://site.test:PORT/", {"/": answer(body=b"x" * 5000)}, max_bytes=1000)
    assert (len(page.data), page.is_cut) == (1000, True)


def test_a_server_that_says_nothing_is_left():
    with pytest.raises(FetchFailed, match=r"did not answer within 0\.2 s"):
        fetch("http://site.test:PORT/", {"/": None}, timeout_s=0.2)


def test_a_server_that_is_not_there_is_told():
    with pytest.raises(FetchFailed, match="could not be fetched"):
        fetch("http://site.test:1/", {})
