"""Every stream in `tests/streams` is read as its neighbour says, however it is cut into pieces."""

from pathlib import Path

import msgspec
import pytest

from mainspring.events import Part, Stop, Usage
from mainspring.models import ReplyFinished, StreamItem
from mainspring.models.reply import ReplyBuilder
from mainspring.models.wires.http import _Intake
from tests import TESTS
from tests.models.every_wire import build

STREAMS = sorted((TESTS / "streams").glob("*.sse"))


class Expected(msgspec.Struct):
    wire: str
    parts: tuple[Part, ...]
    stop: Stop
    usage: Usage


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("stream", STREAMS, ids=lambda path: path.stem)
def test_a_stream_gives_what_stands_beside_it(stream: Path, size: int) -> None:
    expected = msgspec.json.decode(stream.with_suffix(".json").read_bytes(), type=Expected)
    model = build(expected.wire)
    intake = _Intake(model._reader(), model._endpoint, "text/event-stream")
    received = stream.read_bytes()
    items: list[StreamItem] = []
    for start in range(0, len(received), size):
        items += intake.take(received[start : start + size])
    items += intake.end()
    reply = ReplyBuilder()
    for item in items[:-1]:
        reply.add(item)  # type: ignore[arg-type]
    assert reply.parts(1) == expected.parts
    finished = items[-1]
    assert isinstance(finished, ReplyFinished)
    assert (finished.stop, finished.usage) == (expected.stop, expected.usage)


def test_there_are_streams() -> None:
    assert len(STREAMS) >= 12
