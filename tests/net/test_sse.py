from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.net.sse import EventParser, EventTooLarge

STREAM = (
    'data: {"text":"größer 😀"}\n\n: a comment\nevent: x\nid: 7\ndata:two\ndata: lines\n\ndata: [DONE]\n\n'
)
EVENTS = ['{"text":"größer 😀"}'.encode(), b"two\nlines", b"[DONE]"]


def fed(pieces: list[bytes]) -> list[bytes]:
    parser = EventParser()
    events = [event for piece in pieces for event in parser.feed(piece)]
    return events + parser.flush()


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@given(cuts=st.lists(st.integers(0, 120), max_size=30))
def test_a_stream_cut_anywhere_gives_the_same_events_with_every_line_ending(
    ending: str, cuts: list[int]
) -> None:
    stream = STREAM.replace("\n", ending).encode()
    places = [0, *sorted(cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(places)]
    assert fed(pieces) == EVENTS


def test_a_byte_order_mark_at_the_start_is_not_data() -> None:
    assert fed([b"\xef\xbb", b"\xbfdata: 1\n\n"]) == [b"1"]


def test_an_event_without_its_last_blank_line_is_given_at_the_end() -> None:
    assert fed([b"data: 1\n\ndata: 2"]) == [b"1", b"2"]


def test_an_event_without_data_is_no_event() -> None:
    assert fed([b"event: ping\n\n\n\n: keep-alive\n\n"]) == []


def test_an_event_that_never_ends_is_refused() -> None:
    parser = EventParser(max_bytes=1000)
    with pytest.raises(EventTooLarge):
        for _ in range(100):
            parser.feed(b"x" * 100)


def test_data_lines_that_never_end_are_refused() -> None:
    parser = EventParser(max_bytes=1000)
    with pytest.raises(EventTooLarge):
        for _ in range(100):
            parser.feed(b"data: " + b"x" * 100 + b"\n")
