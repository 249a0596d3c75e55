"""What a model server on a URL says about itself: which models it serves, and how much they take.

llama.cpp, Ollama, vLLM and LM Studio list their models alike and tell their context sizes each in a place of
its own. What a server does not say is None; a server that does not answer is a `NetworkFailed`.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from mainspring.errors import ModelError, NetworkFailed
from mainspring.models.failures import Endpoint
from mainspring.models.wires.http import Channel
from mainspring.models.wires.transport import TransportLimits

_T = TypeVar("_T")
TIMEOUT_S = 5.0


class ServedModel(msgspec.Struct, frozen=True):
    """`has_tools` says whether the model was taught to make calls, `billions` how many parameters it has."""

    id: str
    context_tokens: int | None = None
    has_tools: bool | None = None
    billions: float | None = None
    has_images: bool | None = None


class _Meta(msgspec.Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None
    n_params: float | None = None


class _Listed(msgspec.Struct):
    """Each kind of server has its own word for how much context a model takes."""

    id: str
    max_model_len: int | None = None
    context_length: int | None = None
    context_window: int | None = None
    loaded_context_length: int | None = None
    max_context_length: int | None = None
    meta: _Meta | None = None

    @property
    def sizes(self) -> tuple[int | None, ...]:
        """What it is said to take: as it runs first, as it could be run last."""
        meta = self.meta or _Meta()
        possible = (self.context_length, self.context_window, self.max_context_length, meta.n_ctx_train)
        return (self.max_model_len, meta.n_ctx, *possible)


class _Models(msgspec.Struct):
    data: list[_Listed] = []


class _Generation(msgspec.Struct):
    n_ctx: int | None = None


class _Props(msgspec.Struct):
    default_generation_settings: _Generation | None = None
    chat_template_caps: dict[str, Any] | None = None
    modalities: dict[str, Any] | None = None


class _Details(msgspec.Struct, frozen=True):
    parameter_size: str = ""


class _Loaded(msgspec.Struct):
    name: str = ""
    context_length: int | None = None
    details: _Details = _Details()


class _Processes(msgspec.Struct):
    models: list[_Loaded] = []


async def probe_server(
    url: str, api_key: str = "", *, timeout_s: float = TIMEOUT_S
) -> tuple[ServedModel, ...]:
    """The models at a server, by its base URL, with `/v1` or without."""
    root = url.rstrip("/").removesuffix("/v1")
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    bounds = TransportLimits(connect_s=timeout_s, silence_s=timeout_s, total_s=timeout_s)
    channel = Channel(Endpoint(provider=url, base_url=root, model=""), headers, bounds)
    try:
        listed = await _get(channel, "/v1/models", _Models)
        if listed is None:
            raise NetworkFailed(
                f"{url} does not answer with a list of models.",
                remedy="Start the server there, or check the URL.",
            )
        props = await _get(channel, "/props", _Props)
        studio = None if props else await _get(channel, "/api/v0/models", _Models)
        ollama = None if props or studio else await _get(channel, "/api/ps", _Processes)
        kept = await _get(channel, "/api/tags", _Processes) if ollama else None
    finally:
        await channel.close()
    sizes = {model.id: model.loaded_context_length for model in (studio or _Models()).data}
    sizes |= {model.name: model.context_length for model in (ollama or _Processes()).models}
    weights = {model.name: model.details.parameter_size for model in (kept or _Processes()).models}
    return tuple(_served(model, props or _Props(), sizes, weights.get(model.id, "")) for model in listed.data)


def _served(model: _Listed, props: _Props, sizes: dict[str, int | None], weight: str) -> ServedModel:
    running = props.default_generation_settings.n_ctx if props.default_generation_settings else None
    told = (running, sizes.get(model.id), *model.sizes)
    caps = props.chat_template_caps
    return ServedModel(
        id=model.id,
        context_tokens=next((size for size in told if size), None),
        has_tools=bool(caps.get("supports_tools")) if caps else None,
        billions=model.meta.n_params / 1e9 if model.meta and model.meta.n_params else _billions(weight),
        has_images=bool(props.modalities.get("vision")) if props.modalities else None,
    )


def _billions(weight: str) -> float | None:
    """As Ollama writes it: `7.6B`, `494.03M`."""
    number, unit = weight[:-1], weight[-1:].upper()
    try:
        return float(number) / {"B": 1, "M": 1000}[unit]
    except (ValueError, KeyError):
        return None


async def _get(channel: Channel, path: str, kind: type[_T]) -> _T | None:
    """What stands there, None when there is nothing, or nothing of this kind."""
    try:
        return msgspec.json.decode(await channel.get(path), type=kind)
    except (ModelError, msgspec.MsgspecError):
        return None
