"""Servers of other machines that this one may use: their addresses and tokens, in one private file."""

from __future__ import annotations

import msgspec

from mainspring.disk.files import locked, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import ConfigError, UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.settings import Config

_FORMAT = 1


class _Servers(msgspec.Struct, frozen=True):
    tokens: dict[str, str] = {}
    format_version: int = _FORMAT


def known_token(config: Config, address: str) -> str:
    """The token for a server; `UsageError` when this machine has none."""
    token = _read(config).tokens.get(address)
    if token is None:
        raise UsageError(
            f"This machine is not paired with {address}.",
            remedy="Give the address once as `mainspring serve --pair` prints it there, in quotes.",
        )
    return token


def keep_token(config: Config, address: str, token: str) -> None:
    path = config.home / "web" / "servers.json"
    with locked(path):
        known = _read(config)
        if known.tokens.get(address) != token:
            kept = _Servers(tokens={**known.tokens, address: token})
            write_private(path, msgspec.json.encode(kept) + b"\n")


def _read(config: Config) -> _Servers:
    path = config.home / "web" / "servers.json"
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return _Servers()
    refuse_newer_json(path, data, _FORMAT)
    try:
        return msgspec.json.decode(data, type=_Servers)
    except DECODE_ERRORS as error:
        raise ConfigError(f"{path} is damaged: {error}.", remedy="Delete it, and pair again.") from error
