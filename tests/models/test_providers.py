import pytest

from mainspring.errors import UsageError
from mainspring.models.providers import PROVIDERS, Provider, parse_model


@pytest.mark.parametrize(
    ("spec", "provider", "model", "base_url"),
    [
        ("openai/gpt-5.2", "openai", "gpt-5.2", ""),
        ("anthropic/claude-opus-5", "anthropic", "claude-opus-5", ""),
        ("openrouter/anthropic/claude-opus-5", "openrouter", "anthropic/claude-opus-5", ""),
        ("huggingface/Qwen/Qwen3:together", "huggingface", "Qwen/Qwen3:together", ""),
        ("google/gemini-3-pro", "gemini", "gemini-3-pro", ""),
        ("grok/grok-4", "xai", "grok-4", ""),
        ("ollama/qwen3:8b", "ollama", "qwen3:8b", ""),
        ("gpt-5.2", "openai", "gpt-5.2", ""),
        ("o3", "openai", "o3", ""),
        ("claude-opus-5", "anthropic", "claude-opus-5", ""),
        ("gemini-3-pro", "gemini", "gemini-3-pro", ""),
        ("deepseek-chat", "deepseek", "deepseek-chat", ""),
        ("devstral-latest", "mistral", "devstral-latest", ""),
        ("openai-compatible@http://h:1/v1#m", "openai-compatible", "m", "http://h:1/v1"),
        ("openai-compatible@http://h:1/v1/#a/b#c", "openai-compatible", "a/b#c", "http://h:1/v1"),
        ("ollama@https://gpu.example/v1#qwen3", "ollama", "qwen3", "https://gpu.example/v1"),
        (
            "anthropic@http://127.0.0.1:4000#claude-opus-5",
            "anthropic",
            "claude-opus-5",
            "http://127.0.0.1:4000",
        ),
    ],
)
def test_a_name_says_who_offers_which_model_where(
    spec: str, provider: str, model: str, base_url: str
) -> None:
    found = parse_model(spec)
    assert (found.provider.id, found.model, found.base_url) == (provider, model, base_url)


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "nobody/x",
        "llama-3",
        "openai/",
        "openai-compatible/x",
        "nobody@http://h#m",
        "openai-compatible@h:1/v1#m",
        "openai-compatible@http://h:1/v1",
    ],
)
def test_a_name_that_cannot_be_understood_comes_back_with_what_to_write(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_model(spec)
    assert caught.value.remedy


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.id)
def test_every_provider_says_what_its_user_needs(provider: Provider) -> None:
    assert provider.title
    if provider.id == "openai-compatible":
        return
    assert provider.base_url.startswith("http://127.0.0.1" if provider.is_local else "https://")
    assert not provider.base_url.endswith("/")
    assert provider.is_local or (provider.key_variable and provider.key_page and provider.price_id)


def test_ids_are_unique() -> None:
    assert len({provider.id for provider in PROVIDERS}) == len(PROVIDERS)
