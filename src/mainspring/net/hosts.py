"""What a host is by its name alone. Pure."""

from __future__ import annotations

import ipaddress


def is_address(host: str) -> bool:
    """Whether this is an address, and not a name that has some."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether this is the machine itself."""
    return host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
