"""Keys that a person stored: in the keyring of the operating system where one works, else in a private file.

`keys.json` in the settings folder says where each lies, by the variable that would hold it. Only what lies in
the keyring loads the package `keyring`, which is optional. A key that cannot be read is a problem with a
sentence and not an error, because a command may do without it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from mainspring.disk.files import close_to_others, locked, make_folder, write_private
from mainspring.disk.formats import refuse_newer_json
from mainspring.errors import ConfigError, UsageError
from mainspring.events.decoding import DECODE_ERRORS

KeyPlace = Literal["keyring", "file"]
KEYS_FILE = "keys.json"
_FORMAT = 1
_SERVICE = "mainspring"
_MIN_CHARS = 8
_MAX_CHARS = 8192
_GOOD_PRIORITY = 1
_PATIENCE_S = 30.0
"""A locked keyring asks its owner on the screen; a process without one must not wait for ever."""
_Answer = TypeVar("_Answer")


class StoredKey(msgspec.Struct, frozen=True, kw_only=True):
    """Where a key lies: in the keyring under an account, or here as itself."""

    place: KeyPlace
    account: str = ""
    key: str = ""
    added_us: int = 0


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True):
    keys: dict[str, StoredKey] = {}
    format_version: int = _FORMAT


class ReadKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys that could be read, by variable, and why the others could not."""

    values: Mapping[str, str] = {}
    problems: Mapping[str, str] = {}


class _KeyringFailed(Exception):
    """The keyring did not do what was asked of it; the text says why."""


def stored_keys(folder: Path) -> dict[str, StoredKey]:
    """What is stored, by variable; keys in the keyring are not read."""
    path = folder / KEYS_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", remedy="Check its permissions."
        ) from error
    refuse_newer_json(path, data, _FORMAT)
    close_to_others(path)
    try:
        return msgspec.json.decode(data, type=_KeyFile).keys
    except DECODE_ERRORS as error:
        raise ConfigError(
            f"The keys in {path} cannot be read: {error}.", remedy="Delete that file, and add the keys again."
        ) from error


def read_keys(folder: Path) -> ReadKeys:
    """All stored keys. The keyring is asked once, until another key is stored."""
    try:
        changed_ns = (folder / KEYS_FILE).stat().st_mtime_ns
    except OSError:
        return ReadKeys()
    return _read(folder, changed_ns)


def add_key(folder: Path, variable: str, key: str) -> KeyPlace:
    """Stores a key, in place of an earlier one, and says where."""
    return change_keys(folder, {variable: check_key(key)})[variable].place


def change_keys(folder: Path, keys: Mapping[str, str]) -> dict[str, StoredKey]:
    """Stores what belongs together in place of what was there, where an empty text is none: who reads finds
    all of it or nothing. Says what is stored then."""
    make_folder(folder)
    with locked(folder / KEYS_FILE):
        before = stored_keys(folder)
        kept = {name: each for name, each in before.items() if name not in keys}
        after = {**kept, **{name: _kept(name, key) for name, key in keys.items() if key}}
        _write(folder, after)
        for name in keys:
            _forget(before.get(name))
    return after


def remove_key(folder: Path, variable: str) -> KeyPlace | None:
    """Removes a stored key from wherever it lies, and says where that was; None when there was none."""
    with locked(folder / KEYS_FILE):
        before = stored_keys(folder)
        gone = before.pop(variable, None)
        if gone is None:
            return None
        _forget(gone)
        _write(folder, before)
    return gone.place


def check_key(key: str) -> str:
    """The key as it is sent; `UsageError` for what no provider would have given out."""
    key = key.strip()
    if not key:
        raise UsageError("The key is empty.", remedy="Paste the key that the provider shows.")
    is_word = key.isascii() and key.isprintable() and " " not in key
    if not is_word or not _MIN_CHARS <= len(key) <= _MAX_CHARS:
        raise UsageError(
            "This is not a key: a key is one word of ASCII characters, at least eight of them.",
            remedy="Copy it again, without quotes or spaces.",
        )
    return key


@lru_cache(maxsize=8)
def _read(folder: Path, changed_ns: int) -> ReadKeys:  # noqa: ARG001 - when the file changed, it is read again
    values, problems = dict[str, str](), dict[str, str]()
    for variable, stored in stored_keys(folder).items():
        if stored.place == "file":
            values[variable] = stored.key
            continue
        try:
            found = _ask(lambda keyring, stored=stored: keyring.get_password(_SERVICE, stored.account))
        except _KeyringFailed as error:
            problems[variable] = f"the keyring cannot be read ({error})"
            continue
        if found:
            values[variable] = found
        else:
            problems[variable] = "the keyring does not have it any more"
    return ReadKeys(values=values, problems=problems)


def _kept(variable: str, key: str) -> StoredKey:
    account, now_us = f"{variable}-{secrets.token_hex(4)}", time.time_ns() // 1000
    if _keep_in_keyring(account, key):
        return StoredKey(place="keyring", account=account, added_us=now_us)
    return StoredKey(place="file", key=key, added_us=now_us)


def _keep_in_keyring(account: str, key: str) -> bool:
    """Whether the keyring has the key now; one that cannot give it back is not used."""

    def keep(keyring: Any) -> bool:
        if keyring.get_keyring().priority < _GOOD_PRIORITY:
            return False  # none at all, or one that keeps what it is given in the open
        keyring.set_password(_SERVICE, account, key)
        return keyring.get_password(_SERVICE, account) == key

    try:
        return _ask(keep)
    except _KeyringFailed:
        return False


def _forget(stored: StoredKey | None) -> None:
    if stored is None or stored.place != "keyring":
        return
    try:
        _ask(lambda keyring: keyring.delete_password(_SERVICE, stored.account))
    except _KeyringFailed as error:
        raise ConfigError(
            f"The key {stored.account} could not be removed from the keyring: {error}.",
            remedy=f"Unlock the keyring and try again, or remove {_SERVICE}/{stored.account} there by hand.",
        ) from error


def _write(folder: Path, keys: dict[str, StoredKey]) -> None:
    if keys:
        write_private(folder / KEYS_FILE, msgspec.json.encode(_KeyFile(keys=keys)))
    else:
        (folder / KEYS_FILE).unlink(missing_ok=True)


def _ask(question: Callable[[Any], _Answer]) -> _Answer:
    """Asks the keyring, for a bounded time."""
    if find_spec("keyring") is None:
        raise _KeyringFailed('the package is not installed: pip install "mainspring[keyring]"')
    answers, failures = list[_Answer](), list[Exception]()

    def ask() -> None:
        try:
            answers.append(question(import_module("keyring")))
        except Exception as error:  # noqa: BLE001 - every backend has errors of its own
            failures.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    if failures:
        raise _KeyringFailed(type(failures[0]).__name__) from failures[0]
    if not answers:
        raise _KeyringFailed(f"no answer in {_PATIENCE_S:.0f} s")
    return answers[0]
