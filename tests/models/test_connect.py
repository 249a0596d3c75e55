import asyncio

import pytest

from mainspring.errors import ConfigError, UsageError
from mainspring.events import TextDelta
from mainspring.models import Price, ReplyFinished, Request, Retrying, UserMessage
from mainspring.models.connect import connect, resolve
from mainspring.models.prices import FREE, PriceBook
from mainspring.models.retry import RetryPolicy
from mainspring.models.scripted import Fault, Script, ScriptedReply
from mainspring.testing.server import ModelServer

KEYS = {"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "GOOGLE_API_KEY": "g", "MISTRAL_API_KEY": "m"}


@pytest.mark.parametrize(
    ("name", "path", "header"),
    [
        ("openai-compatible@{url}/v1#m", "/v1/chat/completions", "authorization"),
        ("mistral@{url}/v1#mistral-large-latest", "/v1/chat/completions", "authorization"),
        ("openai@{url}/v1#gpt-5.2", "/v1/responses", "authorization"),
        ("anthropic@{url}#claude-opus-5", "/v1/messages", "x-api-key"),
        (
            "gemini@{url}/v1beta#gemini-3-pro",
            "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
            "x-goog-api-key",
        ),
    ],
)
def test_a_named_model_answers_over_its_wire_with_its_key_and_is_retried(
    name: str, path: str, header: str
) -> None:
    async def run() -> None:
        script = Script((ScriptedReply("hello"),), (Fault(kind="status", status=503),))
        async with ModelServer(script) as server:
            model = connect(name.format(url=server.address), KEYS, policy=RetryPolicy(waits_s=(0.0,)))
            request = Request("s", (), [model.encode(UserMessage("hi"))])
            items = [item async for item in model.stream(request)]
            await model.close()
            assert isinstance(items[0], Retrying)
            assert TextDelta(text="hello") in items
            assert isinstance(items[-1], ReplyFinished)
            assert [seen.path for seen in server.seen] == [path, path]
            assert server.seen[0].headers[header].split()[-1] in "oagm"
            assert model.name == name.format(url=server.address)

    asyncio.run(run())


def test_a_missing_key_is_named_with_where_to_get_it() -> None:
    with pytest.raises(ConfigError) as caught:
        connect("anthropic/claude-opus-5", {"OPENAI_API_KEY": "x"})
    assert caught.value.message == "There is no key for Anthropic."
    assert "ANTHROPIC_API_KEY" in caught.value.remedy


@pytest.mark.parametrize("name", ["ollama/qwen3", "openai-compatible@http://h.example/v1#m"])
def test_a_server_that_needs_no_key_gets_none(name: str) -> None:
    assert connect(name, {}).name == name


@pytest.mark.parametrize(
    ("name", "environment", "expected"),
    [
        ("gpt-5.2", {}, ("openai", "gpt-5.2", "https://api.openai.com/v1")),
        ("gpt-5.2", {"OPENAI_BASE_URL": "http://h/v1/"}, ("openai-compatible", "gpt-5.2", "http://h/v1")),
        (
            "openai/gpt-5.2",
            {"OPENAI_BASE_URL": "http://h/v1"},
            ("openai-compatible", "gpt-5.2", "http://h/v1"),
        ),
        ("my-model", {"OPENAI_BASE_URL": "http://h/v1"}, ("openai-compatible", "my-model", "http://h/v1")),
        (
            "org/my-model",
            {"OPENAI_BASE_URL": "http://h/v1"},
            ("openai-compatible", "org/my-model", "http://h/v1"),
        ),
        ("claude-x", {"ANTHROPIC_BASE_URL": "http://p"}, ("anthropic", "claude-x", "http://p")),
        ("ollama/q", {"OLLAMA_BASE_URL": "http://gpu/v1"}, ("ollama", "q", "http://gpu/v1")),
    ],
)
def test_the_environment_may_say_where_a_provider_is(
    name: str, environment: dict[str, str], expected: tuple[str, str, str]
) -> None:
    spec = resolve(name, environment)
    assert (spec.provider.id, spec.model, spec.base_url) == expected


def test_a_name_that_nobody_offers_is_refused() -> None:
    with pytest.raises(UsageError):
        connect("my-model", {})


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("openai-compatible@http://[::1/v1#m", {}),
        ("openai-compatible@http://127.0.0.1:99999/v1#m", {}),
        ("m", {"OPENAI_BASE_URL": "localhost:8080/v1"}),
        ("ollama/m", {"OLLAMA_BASE_URL": "gpu"}),
    ],
)
def test_an_address_that_is_none_is_said_before_anything_is_asked(
    name: str, environment: dict[str, str]
) -> None:
    with pytest.raises(ConfigError, match="is not the address of a server") as caught:
        connect(name, environment)
    assert "http://127.0.0.1:8080/v1" in caught.value.remedy


def test_prices_come_with_the_model() -> None:
    own = PriceBook({"openai-compatible@https://h.example/v1#m": Price(input=2.0)})
    assert connect("openai-compatible@https://h.example/v1#m", {}).price is None
    assert connect("openai-compatible@https://h.example/v1#m", {}, prices=own).price == Price(input=2.0)
    assert connect("openai-compatible@http://127.0.0.1:8080/v1#m", {}).price is None
    assert connect("llamacpp/m", {}).price == FREE
    assert connect("anthropic/claude-sonnet-4-6", KEYS).context_tokens == 1_000_000
