"""HTTP as servers speak it, well and badly; certificates and proxies with real sockets and processes."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import ssl
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mainspring import errors
from mainspring.models.failures import Endpoint
from mainspring.models.wires.http import Channel
from mainspring.models.wires.transport import Transport, TransportLimits

CERTIFICATE = Path(__file__).parent / "certificates" / "model.test.pem"
KEY = CERTIFICATE.with_suffix(".key")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
SAID = b'{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}'
JSON = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(SAID),
    SAID,
)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handle: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    gone: list[asyncio.Event] = []

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone.append(asyncio.Event())
        mine = gone[-1]
        with suppress(OSError, asyncio.IncompleteReadError):
            await handle(reader, writer)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        mine.set()

    async with await asyncio.start_server(handled, "127.0.0.1", 0, ssl=tls) as server:
        yield server.sockets[0].getsockname()[1]
        for event in gone:
            await event.wait()


class Answers:
    """Gives these bytes, one item a request, on as many connections as it takes; ends a connection after an
    item that is followed by None."""

    def __init__(self, *items: bytes | None) -> None:
        self._items = list(items)
        self.heads: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self._items:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((line for line in head.split(b"\r\n") if line.startswith(b"content-length")), b":0")
            await reader.readexactly(int(length.partition(b":")[2]))
            self.heads.append(head)
            item = self._items.pop(0)
            writer.write(item or b"")
            await writer.drain()
            if self._items and self._items[0] is None:
                self._items.pop(0)
                return


def transport(
    port: int, *, scheme: str = "http", proxy: str = "", bounds: TransportLimits | None = None
) -> Transport:
    endpoint = Endpoint("Test", f"{scheme}://127.0.0.1:{port}/v1", "m", is_local=True)
    return Transport(endpoint, {"x-key": "k"}, bounds or TransportLimits(), proxy)


async def body(asked: Transport, sent: bytes = b"{}") -> bytes:
    answer = await asked.ask("POST", "/x", sent)
    received = b""
    try:
        while (chunk := await answer.read()) is not None:
            received += chunk
    finally:
        answer.release()
    return received


def ask(*items: bytes | None, times: int = 1) -> tuple[list[bytes], Answers]:
    async def run() -> list[bytes]:
        async with serving(answers) as port:
            asked = transport(port)
            try:
                return [await body(asked) for _ in range(times)]
            finally:
                await asked.close()

    answers = Answers(*items)
    return asyncio.run(run()), answers


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nt: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + OK,
        b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
def test_an_answer_is_read_in_whatever_way_it_is_framed_and_the_connection_is_kept(answer: bytes) -> None:
    gave, answers = ask(answer, answer, times=2)
    assert gave == [b"hello", b"hello"]
    assert answers.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello",
    ],
)
def test_an_answer_may_end_with_its_connection(answer: bytes) -> None:
    gave, answers = ask(answer, None, answer, None, times=2)
    assert gave == [b"hello", b"hello"]
    assert answers.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\ncontent-length: nonsense\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 90_000,
    ],
)
def test_what_is_cut_short_or_no_http_is_a_fault_of_the_network(answer: bytes) -> None:
    with pytest.raises(errors.NetworkFailed):
        ask(answer, None)


@pytest.mark.parametrize("encoding", [b"br", b"gzip"])
def test_what_cannot_be_unpacked_is_said(encoding: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: %s\r\ncontent-length: 5\r\n\r\nhello" % encoding
    with pytest.raises(errors.NetworkFailed, match="cannot be unpacked"):
        ask(head)


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers(reader, writer)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async def run() -> list[bytes]:
        async with serving(once) as port:
            asked = transport(port)
            first = await body(asked)
            await closed.wait()
            while await asked._idle[0].is_fresh():  # until our side has heard of it
                pass
            second = await body(asked)
            await asked.close()
            return [first, second]

    answers = Answers(OK, None, OK, None)
    assert asyncio.run(run()) == [b"hello", b"hello"]
    assert answers.connections == 2


LATE = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


def test_what_a_server_says_to_a_connection_that_is_idle_is_not_the_next_answer() -> None:
    heard, closed = asyncio.Event(), asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers(reader, writer)
        await heard.wait()
        writer.write(LATE)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async def run() -> list[bytes]:
        async with serving(once) as port:
            asked = transport(port)
            first = await body(asked)
            heard.set()
            await closed.wait()
            second = await body(asked)
            await asked.close()
            return [first, second]

    answers = Answers(OK, None, OK, None)
    assert asyncio.run(run()) == [b"hello", b"hello"]
    assert answers.connections == 2


def test_what_follows_an_answer_is_not_the_next_one() -> None:
    gave, answers = ask(OK + LATE, OK, None, times=2)
    assert gave == [b"hello", b"hello"]
    assert answers.connections == 2


def _head_without_an_end() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nx: "
    while True:
        yield b"x"


def _chunk_without_an_end() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;x="
    while True:
        yield b"x"


def _only_hints() -> Iterator[bytes]:
    while True:
        yield b"HTTP/1.1 103 Early Hints\r\n\r\n"


@pytest.mark.parametrize("pieces", [_head_without_an_end, _chunk_without_an_end, _only_hints])
def test_an_answer_that_never_gets_anywhere_ends_in_time(pieces: Callable[[], Iterator[bytes]]) -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for piece in pieces():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async def run() -> None:
        async with serving(trickle) as port:
            asked = transport(port, bounds=TransportLimits(total_s=0.05))
            with pytest.raises(errors.ModelTimeout, match=r"within 0\.05 s"):
                await asyncio.wait_for(body(asked), 60)
            await asked.close()

    asyncio.run(run())


@pytest.mark.parametrize("size", [64_000, 50_000_000])
def test_a_refusal_before_everything_was_sent_is_heard(size: int) -> None:
    heard = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        await heard.wait()

    async def run() -> int:
        async with serving(refuse) as port:
            asked = transport(port, bounds=TransportLimits(silence_s=20))
            try:
                answer = await asked.ask("POST", "/x", b"x" * size)
                answer.release()
            finally:
                heard.set()
                await asked.close()
            return answer.status

    assert asyncio.run(run()) == 413


def packed(data: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%s" % (len(data), data)


def test_packed_answers_may_have_parts_and_something_behind_them() -> None:
    parts = gzip.compress(b"hello ") + gzip.compress(b"") + gzip.compress(b"there")
    gave, _ = ask(packed(parts), packed(parts + bytes(512)), packed(b""), times=3)
    assert gave == [b"hello there", b"hello there", b""]


def test_a_packed_answer_that_is_cut_short_is_not_taken_for_a_whole_one() -> None:
    with pytest.raises(errors.NetworkFailed, match="cannot be unpacked"):
        ask(packed(gzip.compress(b"hello there")[:-9]))


def test_a_small_answer_that_is_huge_when_unpacked_comes_in_pieces() -> None:
    async def run() -> list[int]:
        async with serving(Answers(packed(gzip.compress(bytes(50_000_000))))) as port:
            asked = transport(port)
            answer = await asked.ask("POST", "/x", b"")
            sizes: list[int] = []
            while (chunk := await answer.read()) is not None:
                sizes.append(len(chunk))
            answer.release()
            await asked.close()
            return sizes

    sizes = asyncio.run(run())
    assert sum(sizes) == 50_000_000
    assert max(sizes) <= 256 * 1024


@pytest.mark.parametrize(
    "refusal",
    [
        b"HTTP/1.1 401 No\r\ncontent-length: 100\r\n\r\n{",
        b"HTTP/1.1 401 No\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 401 No\r\ncontent-length: 8000000\r\n\r\n" + bytes(2_000_000),
    ],
    ids=["cut short", "packed", "endless"],
)
def test_a_refusal_stands_without_the_rest_of_its_reason(refusal: bytes) -> None:
    async def run() -> None:
        async with serving(Answers(refusal, None)) as port:
            endpoint = Endpoint("Test", f"http://127.0.0.1:{port}/v1", "m", is_local=True)
            channel = Channel(endpoint, {})
            with pytest.raises(errors.AuthFailed):
                await channel.read("/models")
            await channel.close()

    asyncio.run(run())


def test_an_address_may_have_any_characters_and_a_query() -> None:
    async def run() -> None:
        async with serving(answers) as port:
            endpoint = Endpoint("Test", f"http://127.0.0.1:{port}/v é%20?version=1", "m", is_local=True)
            asked = Transport(endpoint, {}, TransportLimits())
            for path in ("/x", "/x?alt=sse"):
                answer = await asked.ask("GET", path, b"")
                answer.release()
            await asked.close()

    answers = Answers(OK, OK)
    asyncio.run(run())
    assert [head.split()[1] for head in answers.heads] == [
        b"/v%20%C3%A9%20/x?version=1",
        b"/v%20%C3%A9%20/x?alt=sse&version=1",
    ]


def test_an_exchange_may_be_cancelled_at_any_moment_and_leaves_no_socket_open() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            await reader.readexactly(int(head.rpartition(b"content-length: ")[2]))
            writer.write(OK)
            await writer.drain()

    async def run() -> None:
        async with asyncio.timeout(60), serving(answer) as port:
            asked = transport(port)
            for turns in range(200):
                task = asyncio.ensure_future(body(asked))
                for _ in range(turns % 20):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
                if turns % 2:
                    await asked.close()
            await asked.close()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(run())
        gc.collect()
    assert [str(item.message) for item in caught] == []


def test_two_exchanges_at_once_have_a_connection_each() -> None:
    async def run() -> list[bytes]:
        async with serving(answers) as port:
            asked = transport(port)
            gave = await asyncio.gather(body(asked), body(asked))
            await asked.close()
            return list(gave)

    answers = Answers(OK, OK)
    assert asyncio.run(run()) == [b"hello", b"hello"]
    assert answers.connections == 2


def test_a_plain_proxy_gets_the_whole_address_and_its_password() -> None:
    async def run() -> bytes:
        async with serving(answers) as port:
            endpoint = Endpoint("Test", "http://model.test/v1", "m")
            asked = Transport(endpoint, {}, TransportLimits(), f"http://me:s%20t@127.0.0.1:{port}")
            gave = await body(asked)
            await asked.close()
            return gave

    answers = Answers(OK)
    assert asyncio.run(run()) == b"hello"
    assert answers.heads[0].startswith(b"POST http://model.test/v1/x HTTP/1.1\r\nhost: model.test\r\n")
    assert b"proxy-authorization: Basic bWU6cyB0\r\n" in answers.heads[0]


def test_a_host_may_have_a_name_in_any_script() -> None:
    async def run() -> bytes:
        async with serving(answers) as port:
            asked = Transport(
                Endpoint("Test", "http://bücher.test/v1", "m"),
                {},
                TransportLimits(),
                f"http://127.0.0.1:{port}",
            )
            gave = await body(asked)
            await asked.close()
            return gave

    answers = Answers(OK)
    assert asyncio.run(run()) == b"hello"
    assert b"\r\nhost: xn--bcher-kva.test\r\n" in answers.heads[0]


@pytest.mark.parametrize("refusal", [b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n", b""])
def test_a_proxy_that_refuses_is_named(refusal: bytes) -> None:
    async def run() -> None:
        async with serving(Answers(refusal, None)) as port:
            endpoint = Endpoint("Test", "https://model.test/v1", "m")
            await body(Transport(endpoint, {}, TransportLimits(), f"http://127.0.0.1:{port}"))

    with pytest.raises(errors.NetworkFailed, match=r"through the proxy 127\.0\.0\.1") as caught:
        asyncio.run(run())
    assert caught.value.remedy == "Check the network."


class Tunnel:
    """A proxy that connects everybody to one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.head = b""

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(reader, there_writer))
            group.create_task(_pass_on(there_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
    writer.close()


ASK = """
import asyncio, os, sys
from mainspring.errors import ModelError
from mainspring.models import Request, UserMessage
from mainspring.models.connect import connect

async def run():
    model = connect(f"openai-compatible@{sys.argv[1]}#m", dict(os.environ))
    try:
        async for item in model.stream(Request("s", (), [model.encode(UserMessage("hi"))])):
            print(getattr(item, "text", ""), end="")
    except ModelError as error:
        print(error.message, error.remedy)
    await model.close()

asyncio.run(run())
"""


async def printed(url: str, **environment: str) -> str:
    """What another process gets from that server: certificates are read once in a process."""
    usual = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", ASK, url), env=usual | environment, stdout=asyncio.subprocess.PIPE
    )
    return (await program.communicate())[0].decode()


def encrypted() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    return context


def test_a_certificate_is_trusted_when_the_user_says_so_and_refused_else() -> None:
    async def run() -> list[str]:
        async with serving(Answers(*[JSON] * 9), encrypted()) as port:
            url = f"https://localhost:{port}/v1"
            return [await printed(url, SSL_CERT_FILE=str(CERTIFICATE)), await printed(url, SSL_CERT_FILE="")]

    trusted, refused = asyncio.run(run())
    assert trusted == "hello"
    assert "certificate that is not trusted" in refused
    assert "SSL_CERT_FILE" in refused


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_an_encrypted_server_is_reached_through_a_proxy(scheme: str) -> None:
    async def run() -> tuple[str, bytes]:
        async with serving(Answers(JSON), encrypted()) as port:
            tunnel = Tunnel(port)
            async with serving(tunnel, encrypted() if scheme == "https" else None) as proxy:
                said = await printed(
                    "https://model.test/v1",
                    SSL_CERT_FILE=str(CERTIFICATE),
                    HTTPS_PROXY=f"{scheme}://me:it@localhost:{proxy}",
                )
            return said, tunnel.head

    said, head = asyncio.run(run())
    assert said == "hello"
    assert head.startswith(b"CONNECT model.test:443 HTTP/1.1\r\nhost: model.test:443\r\n")
    assert b"proxy-authorization: Basic bWU6aXQ=" in head
