"""A gateway: one server that all requests to models of other providers go through, with one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import ConfigError
from mainspring.models.providers import PROVIDERS, ModelSpec, Provider
from mainspring.net.hosts import is_loopback


class Gateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server that all model calls go through (`[gateway]` in `config.toml`), each in the protocol of its
    provider: turns, fallbacks, summaries and typed answers. Models on this machine, and models that are named
    with an address of their own, are asked directly."""

    url: Annotated[str, msgspec.Meta(pattern=r"^(https?://\S+)?$")] = ""
    """Address of the gateway; `{provider}` in it stands for the id of the provider, such as `anthropic`."""
    key_variable: str = ""
    """Variable that holds the gateway's key; unset: the provider's own key is sent."""
    providers: tuple[str, ...] = ()
    """Ids of the providers that are asked there; empty: all."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Keys whose values have the right type and mean nothing, with what is wrong with each."""
        try:
            host = urlsplit(self.url).hostname
        except ValueError:
            host = None
        if self.url and not host:
            yield "url", "names no host"
        for name in self.providers:
            if name not in (known := [each.id for each in PROVIDERS]):
                yield "providers", f"must be of {', '.join(known)}, not {name}"

    def is_for(self, provider: Provider, base_url: str) -> bool:
        """Whether a provider, which is asked at an address otherwise, is asked through this gateway."""
        is_here = provider.is_local or is_loopback(urlsplit(base_url).hostname or "")
        return bool(self.url) and not is_here and (not self.providers or provider.id in self.providers)

    def address(self, provider: Provider) -> str:
        url = self.url.replace("{provider}", provider.id).rstrip("/")
        # The Messages protocol has its version in its path, the others have it in the address.
        return url.removesuffix("/v1") if provider.wire == "anthropic" else url

    def through(self, spec: ModelSpec) -> ModelSpec:
        """The same model, asked at the gateway with its key."""
        provider = spec.provider
        variables = (self.key_variable,) if self.key_variable else provider.key_variables
        replaced = msgspec.structs.replace(provider, key_variables=variables)
        return ModelSpec(replaced, spec.model, self.address(provider))

    def check_key(self, environment: Mapping[str, str]) -> None:
        """`ConfigError` when the gateway has a variable for its key and that is empty."""
        if self.key_variable and not environment.get(self.key_variable, "").strip():
            raise ConfigError(
                "There is no key for the gateway.",
                remedy=f"Store one (mainspring keys add gateway), set {self.key_variable}, or run with"
                " --no-gateway.",
            )
