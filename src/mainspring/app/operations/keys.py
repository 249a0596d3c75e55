"""Keys of providers: which there are and where they come from, storing one, removing one. No key is shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from mainspring.errors import UsageError
from mainspring.models.providers import COMPATIBLE, PROVIDERS, find_provider
from mainspring.secrets.key_store import KeyPlace, read_keys, stored_keys
from mainspring.secrets.key_store import add_key as store_key
from mainspring.secrets.key_store import remove_key as forget_key
from mainspring.settings import Config

KeyOrigin = Literal["", "environment", "keyring", "file"]
"""Where a key that is used comes from; empty when there is none."""
GATEWAY = "gateway"


class KeyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a provider, or of the gateway. `stored` is where one lies that was stored, whether or not it
    is the one that is used; `problem` says why that cannot be read."""

    name: str
    title: str
    variables: tuple[str, ...]
    origin: KeyOrigin
    stored: KeyPlace | None = None
    problem: str = ""
    key_page: str = ""


def list_keys(config: Config) -> tuple[KeyStatus, ...]:
    """Every provider that takes a key, and the gateway when it has one of its own."""
    stored, problems = stored_keys(config.folder), read_keys(config.folder).problems

    def status(name: str, title: str, variables: tuple[str, ...], page: str) -> KeyStatus:
        place = stored.get(variables[0])
        return KeyStatus(
            name=name,
            title=title,
            variables=variables,
            origin=key_origin(config, variables),
            stored=place.place if place else None,
            problem=problems.get(variables[0], ""),
            key_page=page,
        )

    return tuple(status(*each) for each in _known(config))


def key_origin(config: Config, variables: tuple[str, ...]) -> KeyOrigin:
    """Where the key comes from that any of these variables would hold."""
    if any(map(config.variable, variables)):
        return "environment"
    stored, read = stored_keys(config.folder), read_keys(config.folder).values
    for each in variables:
        if each in read:
            return stored[each].place
    return ""


def add_key(config: Config, name: str, key: str) -> KeyStatus:
    """Stores the key of a provider, in place of an earlier one."""
    status = find_status(config, name)
    store_key(config.folder, status.variables[0], key)
    return find_status(config, name)


def remove_key(config: Config, name: str) -> KeyPlace:
    """Removes the stored key of a provider; says where it was."""
    status = find_status(config, name)
    place = forget_key(config.folder, status.variables[0])
    if place is None:
        remedy = f"Unset {status.variables[0]}." if status.origin else "See mainspring keys list."
        raise UsageError(f"No key of {status.title} is stored.", remedy=remedy)
    return place


def keyring_keys(config: Config) -> tuple[str, ...]:
    """The variables whose stored keys lie outside of our folders."""
    return tuple(name for name, each in stored_keys(config.folder).items() if each.place == "keyring")


def remove_keyring_keys(config: Config) -> None:
    """Removes every key that lies outside of our folders."""
    for name in keyring_keys(config):
        forget_key(config.folder, name)


def find_status(config: Config, name: str) -> KeyStatus:
    """The key of a provider by its name, `UsageError` when it takes none."""
    known = find_provider(name)
    wanted = known.id if known else name
    for each in list_keys(config):
        if each.name == wanted:
            return each
    if name == GATEWAY:
        raise UsageError(
            "The gateway has no key of its own.", remedy="Set `key_variable` under [gateway] in config.toml."
        )
    names = ", ".join(each for each, *_ in _known(config))
    raise UsageError(f"There is no provider {name!r} that takes a key.", remedy=f"Choose one of {names}.")


def _known(config: Config) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    for each in PROVIDERS:
        if each.key_variables and each is not COMPATIBLE:
            yield each.id, each.title, each.key_variables, each.key_page
    if variable := config.settings.gateway.key_variable:
        yield GATEWAY, "the gateway", (variable,), ""
