"""What a user can say about plugins: `[plugins]` in `config.toml`."""

from __future__ import annotations

import msgspec


class PluginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which plugins are used (`[plugins]` in `config.toml`)."""

    enabled: bool = True
    """Use plugins; false: none of them is loaded."""
    disabled: tuple[str, ...] = ()
    """Names of plugins that are not loaded."""
