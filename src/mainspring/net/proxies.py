"""Which proxy a server is asked through, from the variables that all programs share. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit

from mainspring.errors import ConfigError
from mainspring.net.hosts import is_loopback
from mainspring.net.http import place

PROXY_VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
)
"""Variables that a program may see which must reach a server elsewhere."""


def proxy_for(base_url: str, environment: Mapping[str, str]) -> str:
    """The proxy's address, empty for none. A server on this machine is never behind one."""
    parts = urlsplit(base_url)
    host = (parts.hostname or "").lower()
    if not host or is_loopback(host) or _is_excepted(host, _variable(environment, "no_proxy")):
        return ""
    variable = f"{parts.scheme}_proxy"
    found = _variable(environment, variable) or _variable(environment, "all_proxy")
    if not found:
        return ""
    url = found if "://" in found else f"http://{found}"
    try:
        place(urlsplit(url))
    except ValueError as error:
        raise ConfigError(
            f"{variable.upper()} or ALL_PROXY names {found}, which is not the address of an HTTP proxy.",
            remedy=f"Set it to http://HOST:PORT, or put {host} into NO_PROXY.",
        ) from error
    return url


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper(), "")).strip()


def _is_excepted(host: str, exceptions: str) -> bool:
    return any(_matches(host, item.strip().lower()) for item in exceptions.split(",") if item.strip())


def _matches(host: str, exception: str) -> bool:
    if exception == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(exception, strict=False)
    except ValueError:
        name = exception.lstrip("*").lstrip(".")
        return host == name or host.endswith(f".{name}")
