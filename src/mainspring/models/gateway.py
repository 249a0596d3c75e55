"""A gateway: one server that all requests to models of other providers go through, with one key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import ConfigError
from mainspring.models.providers import PROVIDERS, ModelSpec, Provider
from mainspring.net.hosts import is_loopback

_PROVIDER = "{provider}"


class Gateway(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server that all model calls go through (`[gateway]` in `config.toml`), each in the protocol of its
    provider: turns, fallbacks, summaries and typed answers. Models on this machine, and models that are named
    with an address of their own, are asked directly."""

    url: str = ""
    """Address of the gateway; `{provider}` in it stands for the id of the provider, such as `anthropic`."""
    key_variable: str = ""
    """Name of the variable that holds the gateway's key; unset: the provider's own key is sent."""
    providers: tuple[str, ...] = ()
    """Ids of the providers that are asked there; empty: all."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Keys whose values have the right type and mean nothing, with what is wrong with each."""
        if said := self._url_problem():
            yield "url", said
        # The value is not shown: whoever writes the key itself there would have it in every message.
        if (name := self.key_variable) and not (name.isascii() and name.isidentifier()):
            yield (
                "key_variable",
                "must be the name of a variable, such as GATEWAY_KEY, not the key",
            )
        for name in self.providers:
            if name not in (known := [each.id for each in PROVIDERS]):
                yield "providers", f"must be of {', '.join(known)}, not {name}"

    def _url_problem(self) -> str:
        """What is wrong with the address; empty when nothing is."""
        if not self.url:
            return ""
        if not self.url.isprintable() or " " in self.url:
            return "holds a space or a character that cannot be seen"
        address = self.url.replace(_PROVIDER, "")
        if not address.startswith(("http://", "https://")):
            return "must begin with https:// or http://"
        if set(address) & set("{}#"):
            return f"may not hold braces but for {_PROVIDER}, and no #"
        try:
            url = urlsplit(address)
            return "" if url.hostname and url.port != 0 else "names no host"
        except ValueError:
            return "has a host or a port that cannot be"

    def is_for(self, provider: Provider, base_url: str) -> bool:
        """Whether a provider, which is asked at an address otherwise, is asked through this gateway."""
        is_here = provider.is_local or is_loopback(urlsplit(base_url).hostname or "")
        return bool(self.url) and not is_here and (not self.providers or provider.id in self.providers)

    def address(self, provider: Provider) -> str:
        url = self.url.replace(_PROVIDER, provider.id).rstrip("/")
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
