"""What a collector makes of a request is told as it is: taken, refused for good, or not now."""

from __future__ import annotations

import asyncio
import json

import pytest

from mainspring.telemetry.sender import Collector, NotTaken, signal_url
from tests.notify.conftest import Receiver, receiver

__all__ = ["receiver"]


def send(url: str, **environment: str) -> str:
    collector = Collector(url=url, environment=environment, headers={"x-api-key": "word"})
    return asyncio.run(collector.send("traces", b"{}"))


def test_a_request_is_json_at_the_path_of_its_signal_with_the_headers_of_the_settings(
    receiver: Receiver,
) -> None:
    assert send(receiver.url) == ""
    (got,) = receiver.got
    assert (got["path"], got["body"]) == ("/v1/traces", {})
    assert got["headers"]["content-type"] == "application/json"
    assert got["headers"]["x-api-key"] == "word"


def test_a_collector_elsewhere_is_reached_through_the_proxy(receiver: Receiver) -> None:
    assert send("http://collector.example:4318", HTTP_PROXY=receiver.url) == ""
    assert receiver.got[0]["path"] == "http://collector.example:4318/v1/traces"
    with pytest.raises(NotTaken, match="cannot be reached"):
        send("http://collector.invalid:4318", HTTP_PROXY=receiver.url, NO_PROXY="collector.invalid")
    assert len(receiver.got) == 1


def test_what_was_rejected_of_a_request_is_told(receiver: Receiver) -> None:
    partial = {"partialSuccess": {"rejectedSpans": "3", "errorMessage": "too old"}}
    receiver.answers = [
        (200, {}, json.dumps(partial).encode()),
        (200, {}, b'{"partialSuccess": {}}'),
        (200, {}, b""),
    ]
    assert [send(receiver.url) for _ in range(3)] == ["3 were rejected: too old", "", ""]
    for count in ("many", "-", 1.5, None):
        receiver.answers = [(200, {}, json.dumps({"partialSuccess": {"rejectedSpans": count}}).encode())]
        assert send(receiver.url) == ""
    receiver.answers = [(200, {}, b'{"partialSuccess": {"more": ' + b"[" * 9_000)]
    assert send(receiver.url) == ""


def test_what_can_be_tried_again_is_told_from_what_cannot(receiver: Receiver) -> None:
    receiver.answers = [
        (503, {"retry-after": "7"}, b"busy"),
        429,
        400,
        401,
        (503, {"retry-after": "9" * 400}, b""),
    ]
    found: list[tuple[bool, float]] = []
    for _ in range(5):
        with pytest.raises(NotTaken) as error:
            send(receiver.url)
        found.append((error.value.is_lost, error.value.wait_s))
    assert found == [(False, 7.0), (False, 0.0), (True, 0.0), (False, 0.0), (False, 300.0)]


def test_an_address_is_told_without_what_may_be_a_secret_in_it(receiver: Receiver) -> None:
    receiver.answers = [400]
    place = receiver.url.replace("http://", "http://user:word@")
    with pytest.raises(NotTaken, match="400") as error:
        send(place)
    assert "word" not in error.value.message
    assert receiver.got[0]["headers"]["authorization"].startswith("Basic ")


@pytest.mark.parametrize("url", ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces"])
def test_the_address_of_a_collector_may_be_written_as_either(url: str) -> None:
    assert signal_url(url, "traces") == "http://c:4318/v1/traces"
    assert signal_url(url, "metrics") == "http://c:4318/v1/metrics"
