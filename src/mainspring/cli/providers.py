"""The providers that `models` lists: which of them have a key, and what the servers on this machine serve. A
key itself is never shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import click
import msgspec

from mainspring.approvals.screen import plain
from mainspring.config import load_config
from mainspring.errors import ModelError
from mainspring.models.connect import address, is_here
from mainspring.models.probe import ServedModel, probe_server
from mainspring.models.providers import COMPATIBLE, PROVIDERS, Provider, WireName, find_key

_PATIENCE_S = 2.0


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is set up here. `serves` is None when it is not here, or did not answer."""

    provider: str
    title: str
    wire: WireName
    base_url: str
    key_variables: tuple[str, ...]
    has_key: bool
    is_local: bool
    serves: tuple[ServedModel, ...] | None = None


def list_providers(*, is_json: bool) -> None:
    for listed in asyncio.run(_listed(load_config().environment)):
        click.echo(msgspec.json.encode(listed) if is_json else plain(_line(listed)))


async def _listed(environment: Mapping[str, str]) -> list[Listed]:
    # What is asked for from OpenAI goes to the server that OPENAI_BASE_URL names.
    instead = "openai" if address(COMPATIBLE, environment) else ""
    known = [each for each in PROVIDERS if address(each, environment) and each.id != instead]
    return await asyncio.gather(*(_look(provider, environment) for provider in known))


async def _look(provider: Provider, environment: Mapping[str, str]) -> Listed:
    base_url, api_key = address(provider, environment), find_key(provider, environment)
    is_local = provider.is_local or is_here(base_url)
    models = None
    if is_local:
        with suppress(ModelError):
            models = await probe_server(base_url, api_key, timeout_s=_PATIENCE_S)
    return Listed(
        provider=provider.id,
        title="OPENAI_BASE_URL" if provider is COMPATIBLE else provider.title,
        wire=provider.wire,
        base_url=_without_login(base_url),
        key_variables=provider.key_variables,
        has_key=bool(api_key),
        is_local=is_local,
        serves=models,
    )


def _line(listed: Listed) -> str:
    if listed.is_local:
        status = "does not answer" if listed.serves is None else f"serves {len(listed.serves)}"
    else:
        status = "key set" if listed.has_key else f"no key: set {' or '.join(listed.key_variables)}"
    head = f"{listed.provider:<18} {listed.wire:<10} {listed.base_url}  {status}"
    return "\n".join([head, *(f"  {_name(listed, model)}" for model in listed.serves or ())])


def _name(listed: Listed, model: ServedModel) -> str:
    is_plain = listed.provider == COMPATIBLE.id
    size = f"  {model.context_tokens:,} tokens" if model.context_tokens else ""
    return f"{model.id if is_plain else f'{listed.provider}/{model.id}'}{size}"


def _without_login(base_url: str) -> str:
    parts = urlsplit(base_url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
