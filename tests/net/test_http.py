import asyncio
from contextlib import aclosing, suppress
from typing import Any

import pytest

from mainspring import errors
from mainspring.events import TextDelta
from mainspring.models import ReplyFinished, Request, StreamItem
from mainspring.models.scripted import Fault, Script, ScriptedCall, ScriptedReply
from mainspring.models.wires.chat import ChatModel
from mainspring.models.wires.transport import TransportLimits
from mainspring.testing.server import ModelServer, SeenRequest

REPLY = ScriptedReply(text="hello there", calls=(ScriptedCall("read", {"path": "a"}),), chunk_size=2)
REQUEST = Request("system", (), [])


def ask(
    *faults: Fault, times: int = 1, bounds: TransportLimits | None = None
) -> tuple[list[Any], list[SeenRequest]]:
    """What each of several requests over one model gave: its text, or the error."""

    async def run() -> tuple[list[Any], list[SeenRequest]]:
        gave: list[Any] = []
        async with ModelServer(Script((REPLY,), faults)) as server:
            model = ChatModel("test/m", server.url, "key", "m", provider="Test", bounds=bounds, is_local=True)
            for _ in range(times):
                try:
                    gave.append(text([item async for item in model.stream(REQUEST)]))
                except errors.ModelError as error:
                    gave.append(error)
            await model.close()
            return gave, server.seen

    return asyncio.run(run())


def text(items: list[StreamItem]) -> str:
    assert isinstance(items[-1], ReplyFinished)
    return "".join(item.text for item in items if isinstance(item, TextDelta))


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(kind="status", status=400), errors.BadRequest),
        (Fault(kind="status", status=401), errors.AuthFailed),
        (Fault(kind="status", status=402), errors.NoCredit),
        (Fault(kind="status", status=404), errors.ModelUnknown),
        (Fault(kind="status", status=429), errors.RateLimited),
        (Fault(kind="status", status=500), errors.Overloaded),
        (Fault(kind="status", status=502, body="<html>bad</html>"), errors.Overloaded),
        (Fault(kind="status", status=503), errors.Overloaded),
        (Fault(kind="status", status=529), errors.Overloaded),
        (Fault(kind="status", status=200, body="<html>a login page</html>"), errors.NetworkFailed),
        (Fault(kind="overflow"), errors.ContextOverflow),
        (Fault(kind="drop"), errors.NetworkFailed),
        (Fault(kind="drop", at="text"), errors.NetworkFailed),
        (Fault(kind="drop", at="call"), errors.NetworkFailed),
        (Fault(kind="reset"), errors.NetworkFailed),
        (Fault(kind="garbage"), errors.NetworkFailed),
        (Fault(kind="malformed"), errors.NetworkFailed),
        (Fault(kind="error_in_stream"), errors.Overloaded),
    ],
    ids=lambda value: f"{value.kind}-{value.status}-{value.at}" if isinstance(value, Fault) else "",
)
def test_each_fault_is_one_request_and_one_typed_error_and_the_next_request_works(
    fault: Fault, expected: type[errors.ModelError]
) -> None:
    (first, second), seen = ask(fault, times=2)
    assert type(first) is expected
    assert first.remedy
    assert second == "hello there"
    assert len(seen) == 2


def test_the_time_to_wait_is_kept() -> None:
    (error,), _ = ask(Fault(kind="status", status=429, retry_after=30))
    assert error.retry_after_s == 30


def test_a_silent_server_times_out() -> None:
    (error,), _ = ask(Fault(kind="slow", seconds=60), bounds=TransportLimits(silence_s=0.5))
    assert type(error) is errors.ModelTimeout


def test_an_endless_reply_ends_at_the_bound_of_time_or_size() -> None:
    (error,), _ = ask(Fault(kind="endless"), bounds=TransportLimits(total_s=0.05))
    assert type(error) is errors.ModelTimeout
    (error,), _ = ask(Fault(kind="endless"), bounds=TransportLimits(max_bytes=100_000))
    assert type(error) is errors.NetworkFailed


def test_a_compressed_reply_is_read() -> None:
    assert ask(Fault(kind="gzip"))[0] == ["hello there"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            b'data: {"choices":[{"delta":{"content":"a\xff\xfeb"},"finish_reason":"stop"}]}\n\n',
            "a\ufffd\ufffdb",
        ),
        (
            b'data: {"choices":[{"delta":{"content":"\\ud83d \\ude00 \\ud83d\\ude00"},"finish_reason":"stop"}]}\n\n',
            "\ufffd \ufffd \U0001f600",
        ),
        (b'data: {"choices":[{"delta":{"content":"x"}}],"error":' + b"[" * 9999 + b"\n\n", None),
        (b"data: [[[[\n\n", None),
        (b"data: 7\n\n", None),
    ],
)
def test_bytes_that_are_not_the_protocol_never_escape_as_foreign_errors(
    body: bytes, text: str | None
) -> None:
    """A server of one answer, written out by hand."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + body
        )
        writer.close()
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []

    async def run() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            model = ChatModel("test/m", f"http://127.0.0.1:{port}/v1", "key", "m")
            if text is None:
                with pytest.raises(errors.NetworkFailed):
                    [item async for item in model.stream(REQUEST)]
            else:
                items = [item async for item in model.stream(REQUEST)]
                assert items[0] == TextDelta(text=text)
            await model.close()
            for writer in writers:
                with suppress(ConnectionError):
                    await writer.wait_closed()

    asyncio.run(run())


@pytest.mark.parametrize("end", [b"zz\r\n", b"%x\r\ndata: [[[[\n\n\r\n0\r\n\r\n" % 12, b""])
def test_what_came_together_with_a_fault_is_given_before_it(end: bytes) -> None:
    """What a model said is paid for, also when the rest of it cannot be read."""
    said = b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n'
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(said % word), said % word) for word in (b"one", b"two"))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + end)
        writer.close()
        await writer.wait_closed()

    async def run() -> list[StreamItem]:
        items: list[StreamItem] = []
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            model = ChatModel("test/m", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "k", "m")
            with pytest.raises(errors.NetworkFailed):
                async for item in model.stream(REQUEST):
                    items.append(item)  # noqa: PERF401 - what came before the error counts
            await model.close()
        return items

    assert asyncio.run(run()) == [TextDelta(text="one"), TextDelta(text="two")]


def test_a_key_that_cannot_be_sent_is_a_matter_of_the_key() -> None:
    async def run() -> None:
        model = ChatModel("test/m", "http://127.0.0.1:9/v1", "sk-…", "m", key_variable="THE_KEY")
        with pytest.raises(errors.AuthFailed) as caught:
            await anext(aiter(model.stream(REQUEST)))
        assert caught.value.remedy == "Set THE_KEY again."

    asyncio.run(run())


def test_a_late_reply_is_read() -> None:
    assert ask(Fault(kind="slow", seconds=0.02))[0] == ["hello there"]


def test_requests_share_a_connection() -> None:
    gave, seen = ask(times=3)
    assert gave == ["hello there"] * 3
    assert {request.connection for request in seen} == {1}


def test_a_server_that_is_not_there_is_named_with_what_to_do() -> None:
    async def run() -> None:
        async with ModelServer(Script()) as server:
            url = server.url
        model = ChatModel("test/m", url, "key", "m", provider="Test", is_local=True)
        with pytest.raises(errors.NetworkFailed, match="cannot be reached at http") as caught:
            await anext(aiter(model.stream(REQUEST)))
        assert caught.value.remedy == "Start the server there."
        await model.close()

    asyncio.run(run())


def test_an_address_that_is_no_address_is_a_bad_request() -> None:
    async def run() -> None:
        model = ChatModel("test/m", "ftp//nonsense", "key", "m")
        with pytest.raises(errors.BadRequest):
            await anext(aiter(model.stream(REQUEST)))
        await model.close()

    asyncio.run(run())


def test_a_reader_that_leaves_early_leaves_nothing_behind() -> None:
    async def run() -> None:
        async with ModelServer(Script((REPLY,), (Fault(kind="endless"),))) as server:
            model = ChatModel("test/m", server.url, "key", "m")
            async with aclosing(model.stream(REQUEST)) as stream:  # type: ignore[type-var]
                assert await anext(stream) == TextDelta(text="he")
            assert text([item async for item in model.stream(REQUEST)]) == "hello there"
            await model.close()

    asyncio.run(run())


def test_a_stream_that_is_cancelled_stops_at_once() -> None:
    async def run() -> None:
        async with ModelServer(Script((REPLY,), (Fault(kind="slow", seconds=60),))) as server:
            model = ChatModel("test/m", server.url, "key", "m")

            async def read() -> None:
                async for _ in model.stream(REQUEST):
                    pass

            task = asyncio.ensure_future(read())
            while not server.seen:
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await model.close()

    asyncio.run(run())
