"""What a model server on a URL says about itself: which models it serves, and what they can do.

llama.cpp (`/props`), LM Studio (`/api/v0/models`), Ollama (`/api/ps`, `/api/tags`, `/api/show`) and vLLM list
their models alike and tell the rest each in a place of its own. What a server does not say is None; a server
that does not answer is a `NetworkFailed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from mainspring.errors import ModelError, NetworkFailed
from mainspring.models.failures import Endpoint
from mainspring.models.served import Listed, ListPage, ServedModel, as_served
from mainspring.models.wires.http import Channel
from mainspring.models.wires.transport import TransportLimits

_T = TypeVar("_T")
TIMEOUT_S = 5.0
_UNITS = {"B": 1, "M": 1000}


class _Sampling(msgspec.Struct):
    temperature: float | None = None
    top_p: float | None = None


class _Generation(msgspec.Struct):
    n_ctx: int | None = None
    params: _Sampling | None = None


class _Props(msgspec.Struct):
    """llama.cpp."""

    default_generation_settings: _Generation = msgspec.field(default_factory=_Generation)
    chat_template_caps: dict[str, Any] | None = None
    modalities: dict[str, Any] | None = None

    def facts(self) -> dict[str, Any]:
        running = self.default_generation_settings
        sampling = running.params or _Sampling()
        caps, modalities = self.chat_template_caps, self.modalities
        return {
            "context_tokens": running.n_ctx,
            "has_tools": bool(caps.get("supports_tools")) if caps else None,
            "has_parallel_calls": caps.get("supports_parallel_tool_calls") if caps else None,
            "has_images": bool(modalities.get("vision")) if modalities else None,
            "has_thinking_cap": True,
            "temperature": _rounded(sampling.temperature),
            "top_p": _rounded(sampling.top_p),
        }


class _Studio(msgspec.Struct):
    """A model of LM Studio."""

    id: str = ""
    type: str = ""
    loaded_context_length: int | None = None
    capabilities: list[str] | None = None

    def facts(self) -> dict[str, Any]:
        return {
            "context_tokens": self.loaded_context_length,
            "has_tools": "tool_use" in self.capabilities if self.capabilities is not None else None,
            "has_images": self.type == "vlm" if self.type else None,
        }


class _StudioModels(msgspec.Struct):
    data: list[_Studio]


class _Details(msgspec.Struct, frozen=True):
    parameter_size: str = ""


class _Loaded(msgspec.Struct):
    name: str = ""
    context_length: int | None = None
    details: _Details = _Details()


class _OllamaModels(msgspec.Struct):
    models: list[_Loaded]


class _OllamaModel(msgspec.Struct):
    """What Ollama shows of one model. `parameters` are lines of its Modelfile. How much context it was
    trained for is left out: Ollama runs it with less unless it is told."""

    capabilities: list[str] | None = None
    parameters: str | None = None
    model_info: dict[str, Any] | None = None
    details: _Details = _Details()

    def facts(self) -> dict[str, Any]:
        able = self.capabilities
        lines = (line.split(maxsplit=1) for line in (self.parameters or "").splitlines())
        said = {line[0]: line[1].strip() for line in lines if len(line) == 2}
        count = (self.model_info or {}).get("general.parameter_count")
        window = _number(said.get("num_ctx"))
        return {
            "context_tokens": int(window) if window else None,
            "has_tools": "tools" in able if able is not None else None,
            "has_images": "vision" in able if able is not None else None,
            "has_thinking": "thinking" in able if able is not None else None,
            "billions": count / 1e9
            if isinstance(count, int | float)
            else _billions(self.details.parameter_size),
            "temperature": _number(said.get("temperature")),
            "top_p": _number(said.get("top_p")),
        }


async def probe_server(
    url: str, api_key: str = "", *, model: str = "", timeout_s: float = TIMEOUT_S, proxy: str = ""
) -> tuple[ServedModel, ...]:
    """The models at a server, by its base URL, with `/v1` or without. Of `model` more may be asked."""
    root = url.rstrip("/").removesuffix("/v1")
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    bounds = TransportLimits(connect_s=timeout_s, silence_s=timeout_s, total_s=timeout_s)
    channel = Channel(Endpoint(provider=url, base_url=root, model=""), headers, bounds, proxy)
    try:
        listed = await _get(channel, "/v1/models", ListPage)
        # An old Ollama has no other list.
        kept = await _get(channel, "/api/tags", _OllamaModels) if not (listed and listed.data) else None
        if listed is None and kept is None:
            raise NetworkFailed(
                f"{url} does not answer with a list of models.",
                remedy="Start the server there, or check the URL.",
            )
        names = [Listed(id=each.name) for each in kept.models] if kept else (listed and listed.data) or []
        said = await _said(channel, model)
    finally:
        await channel.close()
    return tuple(_with(served, said.get(served.id, said.get("", {}))) for served in as_served(names))


async def _said(channel: Channel, model: str) -> dict[str, dict[str, Any]]:
    """What else a server says of its models by name; under an empty name what it says of any."""
    if props := await _get(channel, "/props", _Props):
        return {"": props.facts()}
    if studio := await _get(channel, "/api/v0/models", _StudioModels):
        return {each.id: each.facts() for each in studio.data}
    running = await _get(channel, "/api/ps", _OllamaModels)
    if running is None:
        return {}
    kept = await _get(channel, "/api/tags", _OllamaModels)
    said: dict[str, dict[str, Any]] = {
        each.name: {"billions": _billions(each.details.parameter_size)}
        for each in (kept.models if kept else ())
    }
    if model and (shown := await _get(channel, "/api/show", _OllamaModel, {"model": model})):
        for name in (model, f"{model}:latest"):
            said[name] = _merged(shown.facts(), said.get(name, {}))
    for each in running.models:
        said[each.name] = _merged({"context_tokens": each.context_length}, said.get(each.name, {}))
    return said


def _merged(first: Mapping[str, Any], then: Mapping[str, Any]) -> dict[str, Any]:
    return {**then, **{name: value for name, value in first.items() if value is not None}}


def _with(served: ServedModel, said: Mapping[str, Any]) -> ServedModel:
    """What the server says of a model as it runs comes before what it lists."""
    found = {name: value for name, value in said.items() if value is not None}
    return msgspec.structs.replace(served, **found)


def _billions(weight: str) -> float | None:
    """As Ollama writes it: `7.6B`, `494.03M`."""
    number = _number(weight[:-1])
    unit = _UNITS.get(weight[-1:].upper())
    return number / unit if number is not None and unit else None


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


def _rounded(number: float | None) -> float | None:
    """Single precision, as llama.cpp has it, without its tail."""
    return None if number is None else round(number, 4)


async def _get(channel: Channel, path: str, kind: type[_T], asked: dict[str, str] | None = None) -> _T | None:
    """What stands there, None when there is nothing, or nothing of this kind."""
    try:
        body = msgspec.json.encode(asked) if asked else b""
        found = await channel.find(path, body)
        return None if found is None else msgspec.json.decode(found, type=kind)
    except (ModelError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
