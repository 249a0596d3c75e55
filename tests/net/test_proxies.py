"""Which proxy a server is asked through."""

from __future__ import annotations

import pytest

from mainspring.errors import ConfigError
from mainspring.net.proxies import proxy_for

PROXY = "http://proxy.test:3128"


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("https://api.test/v1", {}, ""),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY}, PROXY),
        ("https://api.test/v1", {"https_proxy": PROXY}, PROXY),
        ("https://api.test/v1", {"HTTP_PROXY": PROXY}, ""),
        ("http://api.test/v1", {"HTTP_PROXY": PROXY}, PROXY),
        ("http://api.test/v1", {"ALL_PROXY": PROXY}, PROXY),
        ("https://api.test/v1", {"HTTPS_PROXY": "proxy.test:3128"}, PROXY),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "*"}, ""),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "other.test, api.test"}, ""),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": ".test"}, ""),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "test"}, ""),
        ("https://api.test/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "pi.test"}, PROXY),
        ("https://10.1.2.3/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, ""),
        ("https://11.1.2.3/v1", {"HTTPS_PROXY": PROXY, "NO_PROXY": "10.0.0.0/8"}, PROXY),
        ("http://127.0.0.1:8080/v1", {"HTTP_PROXY": PROXY}, ""),
        ("http://localhost:8080/v1", {"ALL_PROXY": PROXY}, ""),
        ("", {"ALL_PROXY": PROXY}, ""),
    ],
)
def test_the_proxy_of_a_server_comes_from_the_variables(
    url: str, environment: dict[str, str], expected: str
) -> None:
    assert proxy_for(url, environment) == expected


@pytest.mark.parametrize("proxy", ["socks5://proxy.test:1080", "http://", "http://[::1", "proxy.test:port"])
def test_a_proxy_that_cannot_be_used_is_said_with_what_to_do(proxy: str) -> None:
    with pytest.raises(ConfigError, match="not the address of an HTTP proxy") as caught:
        proxy_for("https://api.test/v1", {"HTTPS_PROXY": proxy})
    assert "NO_PROXY" in caught.value.remedy
