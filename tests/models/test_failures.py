import time
from email.utils import formatdate
from typing import Any

import msgspec
import pytest

from mainspring import errors
from mainspring.errors import ModelError
from mainspring.models.failures import Endpoint, not_the_protocol, refused
from mainspring.testing.refusals import overflows
from tests.models.every_wire import WIRES, build

ENDPOINT = Endpoint("OpenAI", "https://api.example/v1", "gpt-x", "OPENAI_API_KEY")


def error(status: int, body: Any = None, headers: dict[str, str] | None = None) -> errors.ModelError:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body or {})
    return refused(ENDPOINT, status, data, headers)


def named(code: str | None = None, message: str = "No.", kind: str | None = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "code": code, "param": None}}


def anthropic(kind: str, message: str = "No.") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize("provider", sorted(overflows()))
def test_a_request_that_is_too_large_is_known_in_every_providers_words(provider: str) -> None:
    refusal = overflows()[provider]
    assert type(error(refusal.status, bytes(refusal.body))) is errors.ContextOverflow


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (401, named("invalid_api_key"), errors.AuthFailed),
        (403, named(), errors.AuthFailed),
        (400, {"error": {"code": 400, "message": "Bad key.", "status": "INVALID_ARGUMENT",
                         "details": [{"reason": "API_KEY_INVALID"}]}}, errors.AuthFailed),
        (400, {"code": "Client error", "error": "Incorrect API key provided: xx."}, errors.AuthFailed),
        (402, named(), errors.NoCredit),
        (429, named("insufficient_quota", kind="insufficient_quota"), errors.NoCredit),
        (400, anthropic("invalid_request_error", "Your credit balance is too low."), errors.NoCredit),
        (404, named("model_not_found"), errors.ModelUnknown),
        (404, b"<html>nothing</html>", errors.ModelUnknown),
        (404, {"error": "model 'x' not found"}, errors.ModelUnknown),
        (400, {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"},
         errors.ModelUnknown),
        (400, {"error": {"message": "x is not a valid model ID", "code": 400}}, errors.ModelUnknown),
        (400, named("content_policy_violation"), errors.ContentRefused),
        (400, named("content_filter"), errors.ContentRefused),
        (403, {"error": {"code": 403, "message": "Flagged", "metadata": {"reasons": ["violence"]}}},
         errors.ContentRefused),
        (408, b"", errors.ModelTimeout),
        (429, named("rate_limit_exceeded"), errors.RateLimited),
        (429, b"slow down", errors.RateLimited),
        (400, named("unsupported_parameter"), errors.BadRequest),
        (422, {"detail": [{"msg": "field required"}]}, errors.BadRequest),
        (307, b"", errors.BadRequest),
        (500, b"", errors.Overloaded),
        (500, b'{"error": "\xff"}', errors.Overloaded),
        (500, b"[" * 9999, errors.Overloaded),
        (502, b"<html>Bad gateway</html>", errors.Overloaded),
        (503, named(message="Loading model", kind="unavailable_error"), errors.Overloaded),
        (529, anthropic("overloaded_error"), errors.Overloaded),
        (0, {"error": {"code": 502, "message": "Provider returned error"}}, errors.Overloaded),
        (0, anthropic("overloaded_error"), errors.Overloaded),
    ],
)  # fmt: skip
def test_a_refusal_is_mapped_by_its_status_and_codes(
    status: int, body: Any, expected: type[Exception]
) -> None:
    found = error(status, body)
    assert type(found) is expected
    assert found.message.endswith(".")
    assert found.remedy


def test_a_number_in_the_message_decides_nothing() -> None:
    assert type(error(400, named(message="Your 429th answer was a 500 error."))) is errors.BadRequest


def test_the_message_says_who_and_what_and_the_remedy_names_the_variable() -> None:
    found = error(401, named("invalid_api_key", "Incorrect API key provided."))
    assert found.message == "OpenAI did not accept the key (401: Incorrect API key provided)."
    assert found.remedy == "Set OPENAI_API_KEY to a valid key."


def test_a_page_of_html_is_not_quoted() -> None:
    assert "<html" not in error(502, b"<html>long page</html>").message


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"retry-after": "7"}, None, 7.0),
        ({"retry-after": "0.5"}, None, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, None, 1.5),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, None, 360.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "120ms"}, None, 0.12),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "1h"}, None, None),
        ({}, {"error": {"status": "RESOURCE_EXHAUSTED", "details": [{"retryDelay": "38s"}]}}, 38.0),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after": "99999999999999"}, None, None),
        ({"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"}, None, None),
        ({"retry-after-ms": "1e14", "retry-after": "7"}, None, 7.0),
        ({}, {"error": {"details": [{"retryDelay": "99999999999999s"}]}}, None),
        ({}, None, None),
    ],
)
def test_how_long_to_wait_is_read_from_headers_or_body(
    headers: dict[str, str], body: Any, expected: float | None
) -> None:
    assert error(429, body, headers).retry_after_s == expected


@pytest.mark.parametrize("form", ["date", "iso", "epoch_ms"])
def test_a_moment_to_wait_for_becomes_seconds(form: str) -> None:
    moment = time.time() + 100
    text = {
        "date": formatdate(moment, usegmt=True),
        "iso": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment)),
        "epoch_ms": str(int(moment * 1000)),
    }[form]
    wait = error(429, None, {"retry-after": text}).retry_after_s
    assert wait is not None
    assert 95 < wait < 101


@pytest.mark.parametrize("provider", ["OpenAI", "The server"])
@pytest.mark.parametrize("body", [b"", b"<html>Bad gateway</html>", b"no.", b'{"error":{"message":"No."}}'])
@pytest.mark.parametrize("status", [0, 307, 400, 401, 402, 404, 408, 413, 429, 500])
def test_every_refusal_is_told_in_one_sentence(provider: str, body: bytes, status: int) -> None:
    told = refused(Endpoint(provider, "https://api.example/v1", "gpt-x", "KEY"), status, body).message
    assert told.endswith(".")
    assert not told.endswith("..")
    assert ": )" not in told
    assert "The server" not in told[1:]


@pytest.mark.parametrize(
    "said",
    [
        "The image data you provided does not represent a valid image. Please check your input and try again.",
        "Animated image files are not supported.",
        "Image is too large: 60000x60000.",
        "At least one of the image dimensions exceed max allowed size: 8000 pixels",
    ],
)
def test_a_refused_image_is_known_by_its_words(said: str) -> None:
    assert isinstance(error(400, {"error": {"message": said}}), errors.MediaRefused)


def test_no_control_character_of_a_server_stands_in_an_error() -> None:
    said = "\x1b[31mred\0 \u202eback\x07"
    body = msgspec.json.encode({"error": {"message": said}})
    assert "(400: [31mred   back)" in refused(ENDPOINT, 400, body).message


def test_something_that_is_no_reply_is_quoted_in_a_sentence() -> None:
    told = not_the_protocol(ENDPOINT, "<html>\n hello").message
    assert told == "OpenAI sent an invalid reply (<html> hello)."


@pytest.mark.parametrize(
    ("location", "said"),
    [
        (
            "https://me:pw@there.example/v1/chat?key=1",
            "wants the request at https://there.example/v1/chat (307).",
        ),
        ("/v2/", "wants the request at /v2/ (307)."),
        ("", "wants the request at another address, which it does not name (307)."),
        ("//there.example/v1", "wants the request at //there.example/v1 (307)."),
        ("http://[::1/x", "wants the request at an address that is none (307)."),
    ],
)
def test_a_redirection_says_where_it_points_without_secrets(location: str, said: str) -> None:
    error = refused(ENDPOINT, 307, b"", {"location": location})
    assert error.message.endswith(said)


@pytest.mark.parametrize("wire", WIRES)
def test_an_error_that_comes_with_status_200_is_told_in_its_words(wire: str) -> None:
    reader = build(wire)._reader()  # pyright: ignore[reportPrivateUsage] - what a server sends, without one
    with pytest.raises(ModelError, match="plain words"):
        reader.feed(b'{"error": {"message": "plain words"}}')


@pytest.mark.parametrize("code", [-1, 0, 1302, 10**20, True])
def test_a_code_that_is_no_status_leaves_an_error_inside_a_reply_worth_another_try(code: int) -> None:
    body = msgspec.json.encode({"error": {"message": "busy just now", "code": code}})
    assert isinstance(refused(ENDPOINT, 0, body), errors.Overloaded)


_FORBIDDEN = {
    "type": "extra_forbidden",
    "loc": ["body", "stream_options"],
    "msg": "Extra inputs are not permitted",
}


@pytest.mark.parametrize(
    "body",
    [
        {"detail": [_FORBIDDEN]},
        {"message": {"detail": [_FORBIDDEN]}, "type": "invalid_request_error"},
        {"message": f"[{_FORBIDDEN | {'loc': ('body', 'stream_options', 'include_usage')}}]", "code": 400},
        {"error": {"message": msgspec.json.encode([_FORBIDDEN]).decode()}},
        {
            "error": {
                "message": "1 validation error for ChatCompletionRequest\nstream_options\n  Extra inputs are not"
                " permitted [type=extra_forbidden, input_value={'include_usage': True}, input_type=dict]"
            }
        },
        {"error": {"message": "Unrecognized request argument supplied: stream_options"}},
        {"detail": "Unsupported parameter: stream_options"},
    ],
)
def test_a_field_that_is_refused_is_found_in_the_words_of_each_server(body: dict[str, object]) -> None:
    error = refused(ENDPOINT, 422, msgspec.json.encode(body))
    assert isinstance(error, errors.BadRequest)
    assert (error.cause, error.param) == ("parameter", "stream_options")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            '{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}',
            errors.ContextOverflow,
        ),
        ('{"error":{"message":"Could not process image"}}', errors.MediaRefused),
        ("Could not process image", errors.MediaRefused),
        ('{"error":{"message":"max_tokens: 64000 > 8192, which is the maximum"}}', errors.BadRequest),
        ("", errors.BadRequest),
    ],
)
def test_what_the_provider_behind_a_router_said_decides(said: str, kind: type[ModelError]) -> None:
    metadata = {"raw": said, "provider_name": "Anthropic"}
    body = {"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}}
    error = refused(ENDPOINT, 400, msgspec.json.encode(body))
    assert type(error) is kind
    assert not isinstance(error, errors.BadRequest) or error.param == ("8192" if said else "")
