"""What a user can say about traces and metrics: `[telemetry]` in `config.toml`."""

from __future__ import annotations

from typing import Annotated

import msgspec


class TelemetrySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Traces and metrics for a collector of OpenTelemetry (`[telemetry]` in `config.toml`). Without an
    address nothing is sent."""

    otlp_url: str = ""
    """Where the daemon sends them as OTLP/HTTP JSON, such as http://localhost:4318: `/v1/traces` and
    `/v1/metrics` are added. Empty: nowhere."""
    headers: dict[str, str] = {}
    """Headers of these requests; `${VAR}` stands for a variable of the environment, or a stored key."""
    content: bool = False
    """Send texts as well: what people and models say, arguments and results of calls."""
    every_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 15.0
    """Seconds between two looks at what is new."""

    def __post_init__(self) -> None:
        if self.otlp_url and not self.otlp_url.startswith(("http://", "https://")):
            raise ValueError("otlp_url begins with http:// or https://")
