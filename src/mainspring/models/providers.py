"""Who offers models, as data: where, over which wire, with which key, and how each differs from its wire.

`parse_model` turns what a user wrote into a provider, a model and perhaps an address:
`provider/model`, `provider@URL#model`, `openai-compatible@URL#model`, or a model's own well-known name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from mainspring.errors import UsageError

WireName = Literal["chat", "responses", "anthropic", "gemini"]


class ChatQuirks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where servers of chat completions differ. `thinking_field` is where one wants earlier reasoning back,
    `effort` how it wants to be told how hard to think (empty: not at all), `max_effort` its word for most,
    `needs_bridge` whether a reply must stand between results and what a user says, `has_schema` whether
    it can be told the schema of a reply, `has_cache_marks` whether it takes marks for the cache with Claude,
    and `more` what else is sent with each request."""

    max_tokens_field: str = "max_tokens"
    thinking_field: str = ""
    has_stream_options: bool = True
    effort: Literal["", "reasoning_effort", "reasoning"] = "reasoning_effort"
    max_effort: str = "high"
    needs_bridge: bool = False
    has_schema: bool = True
    has_cache_marks: bool = False
    more: dict[str, float] = {}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """`price_id` is its name in the price list, and `starts` how names begin that are plainly its own."""

    id: str
    title: str
    base_url: str = ""
    wire: WireName = "chat"
    key_variables: tuple[str, ...] = ()
    base_url_variable: str = ""
    key_page: str = ""
    is_local: bool = False
    price_id: str = ""
    starts: tuple[str, ...] = ()
    quirks: ChatQuirks = ChatQuirks()

    @property
    def key_variable(self) -> str:
        return self.key_variables[0] if self.key_variables else ""


COMPATIBLE = Provider(
    id="openai-compatible",
    title="The server",
    key_variables=("OPENAI_API_KEY",),
    quirks=ChatQuirks(has_cache_marks=True),
)

PROVIDERS: tuple[Provider, ...] = (
    Provider(
        id="openai",
        title="OpenAI",
        base_url="https://api.openai.com/v1",
        wire="responses",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        key_page="https://platform.openai.com/api-keys",
        price_id="openai",
        starts=("gpt-", "o1", "o3", "o4", "chatgpt-", "codex-"),
    ),
    Provider(
        id="anthropic",
        title="Anthropic",
        base_url="https://api.anthropic.com",
        wire="anthropic",
        key_variables=("ANTHROPIC_API_KEY",),
        base_url_variable="ANTHROPIC_BASE_URL",
        key_page="https://platform.claude.com/settings/keys",
        price_id="anthropic",
        starts=("claude-",),
    ),
    Provider(
        id="gemini",
        title="Gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        wire="gemini",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        base_url_variable="GEMINI_BASE_URL",
        key_page="https://aistudio.google.com/apikey",
        price_id="google",
        starts=("gemini-", "gemma-"),
    ),
    Provider(
        id="openrouter",
        title="OpenRouter",
        base_url="https://openrouter.ai/api/v1",
        key_variables=("OPENROUTER_API_KEY",),
        key_page="https://openrouter.ai/keys",
        price_id="openrouter",
        quirks=ChatQuirks(
            thinking_field="reasoning_details",
            effort="reasoning",
            max_effort="xhigh",
            has_cache_marks=True,
        ),
    ),
    Provider(
        id="deepseek",
        title="DeepSeek",
        base_url="https://api.deepseek.com/v1",
        key_variables=("DEEPSEEK_API_KEY",),
        key_page="https://platform.deepseek.com/api_keys",
        price_id="deepseek",
        starts=("deepseek-",),
        quirks=ChatQuirks(thinking_field="reasoning_content", max_effort="max", has_schema=False),
    ),
    Provider(
        id="xai",
        title="xAI",
        base_url="https://api.x.ai/v1",
        key_variables=("XAI_API_KEY",),
        key_page="https://console.x.ai",
        price_id="x-ai",
        starts=("grok-",),
        quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
    ),
    Provider(
        id="groq",
        title="Groq",
        base_url="https://api.groq.com/openai/v1",
        key_variables=("GROQ_API_KEY",),
        key_page="https://console.groq.com/keys",
        price_id="groq",
        quirks=ChatQuirks(max_tokens_field="max_completion_tokens"),
    ),
    Provider(
        id="mistral",
        title="Mistral",
        base_url="https://api.mistral.ai/v1",
        key_variables=("MISTRAL_API_KEY",),
        key_page="https://console.mistral.ai/api-keys",
        price_id="mistral",
        starts=("mistral-", "magistral-", "codestral-", "devstral-", "ministral-"),
        quirks=ChatQuirks(has_stream_options=False, needs_bridge=True),
    ),
    Provider(
        id="huggingface",
        title="Hugging Face",
        base_url="https://router.huggingface.co/v1",
        key_variables=("HF_TOKEN",),
        key_page="https://huggingface.co/settings/tokens",
        price_id="huggingface",
    ),
    Provider(
        id="ollama",
        title="Ollama",
        base_url="http://127.0.0.1:11434/v1",
        base_url_variable="OLLAMA_BASE_URL",
        is_local=True,
    ),
    Provider(id="lmstudio", title="LM Studio", base_url="http://127.0.0.1:1234/v1", is_local=True),
    Provider(
        id="llamacpp",
        title="llama.cpp",
        base_url="http://127.0.0.1:8080/v1",
        key_variables=("LLAMA_API_KEY",),
        is_local=True,
        quirks=ChatQuirks(thinking_field="reasoning_content", effort=""),
    ),
    Provider(
        id="vllm",
        title="vLLM",
        base_url="http://127.0.0.1:8000/v1",
        key_variables=("VLLM_API_KEY",),
        is_local=True,
    ),
    COMPATIBLE,
)

_BY_ID = {provider.id: provider for provider in PROVIDERS}
_ALSO = {"google": "gemini", "grok": "xai", "hf": "huggingface", "llama.cpp": "llamacpp"}


class ModelSpec(msgspec.Struct, frozen=True):
    """A model that a user named; `base_url` is empty when the provider's own is meant."""

    provider: Provider
    model: str
    base_url: str = ""


def find_provider(name: str) -> Provider | None:
    return _BY_ID.get(_ALSO.get(name, name))


def find_key(provider: Provider, environment: Mapping[str, str]) -> str:
    """The key that is set for a provider, or nothing."""
    values = (environment.get(variable, "").strip() for variable in provider.key_variables)
    return next(filter(None, values), "")


def parse_model(spec: str) -> ModelSpec:
    if not spec:
        raise UsageError(
            "No model is set.",
            remedy="Choose one with mainspring setup, or name it with --model or MAINSPRING_MODEL.",
        )
    if "@" in spec.partition("/")[0]:
        return _at_address(spec)
    name, slash, model = spec.partition("/")
    provider = find_provider(name)
    if slash and provider is not None and provider is not COMPATIBLE:
        if not model:
            raise UsageError(f"{provider.title} has many models.", remedy=f"Name one: {provider.id}/MODEL.")
        return ModelSpec(provider, model)
    for provider in PROVIDERS:
        if provider.starts and spec.startswith(provider.starts):
            return ModelSpec(provider, spec)
    raise UsageError(
        f"The provider of the model {spec} is unknown.",
        remedy=f"Write PROVIDER/MODEL with one of {_listed()}, or openai-compatible@URL#MODEL.",
    )


def provider_of(name: str) -> str:
    """The id of a model's provider, however the model is named; empty when nobody is known to offer it."""
    try:
        return parse_model(name).provider.id
    except UsageError:
        return ""


def _at_address(spec: str) -> ModelSpec:
    name, _, address = spec.partition("@")
    base_url, _, model = address.partition("#")
    provider = find_provider(name)
    if provider is None:
        raise UsageError(f"There is no provider {name!r}.", remedy=f"Choose one of {_listed()}.")
    if not model or not base_url.startswith(("http://", "https://")):
        raise UsageError(
            f"The model {spec} is not written in a known form.",
            remedy=f"Write it as {name}@http://127.0.0.1:8080/v1#MODEL.",
        )
    return ModelSpec(provider, model, base_url.rstrip("/"))


def _listed() -> str:
    return ", ".join(provider.id for provider in PROVIDERS)
