"""Files that are encrypted where machines share them. The key is never kept there: each machine has it in a
variable, or in a private file of its settings folder.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from mainspring.disk.files import make_folder, write_private
from mainspring.disk.shared_files import SharedFiles
from mainspring.errors import ConfigError, UsageError

KEY_FILE = "store.key"
KEY_VARIABLE = "MAINSPRING_STORE_KEY"
_CHECK = "store-key-check"
_CHECKED = b"mainspring"


class SealedFiles:
    """Other files, read and written through a key."""

    def __init__(self, files: SharedFiles, key: str) -> None:
        self._files, self._key = files, key

    def shown(self, name: str) -> str:
        return self._files.shown(name)

    def names(self, folder: str) -> list[str]:
        return self._files.names(folder)

    def read(self, name: str) -> bytes | None:
        return self._opened(name, self._files.read(name))

    def write(self, name: str, content: bytes) -> None:
        self._files.write(name, self._sealed(content))

    def change(self, name: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        def changed(before: bytes | None) -> bytes | None:
            after = edit(self._opened(name, before))
            return None if after is None else self._sealed(after)

        self._files.change(name, changed)

    def rename(self, name: str, to: str) -> bool:
        return self._files.rename(name, to)

    def remove(self, name: str) -> bool:
        return self._files.remove(name)

    async def is_filled(self, folder: str) -> bool:
        return await self._files.is_filled(folder)

    def _sealed(self, content: bytes) -> bytes:
        return _cipher(self._key).encrypt(content)

    def _opened(self, name: str, content: bytes | None) -> bytes | None:
        if content is None:
            return None
        try:
            return _cipher(self._key).decrypt(content)
        except import_module("cryptography.fernet").InvalidToken as error:
            raise ConfigError(
                f"{self.shown(name)} was encrypted with another key than this machine has.",
                remedy=f"Take {KEY_FILE} over from the machine that made the store, or set {KEY_VARIABLE}.",
            ) from error


def find_key(folder: Path, variable: str) -> str:
    """The key of this machine; empty when it has none."""
    if variable:
        return variable.strip()
    try:
        return (folder / KEY_FILE).read_text("ascii").strip()
    except FileNotFoundError:
        return ""


def make_key(folder: Path) -> Path:
    """Makes a key in a private file, and gives that."""
    make_folder(folder)
    write_private(folder / KEY_FILE, _fernet().generate_key() + b"\n")
    return folder / KEY_FILE


def is_key_wanted(files: SharedFiles) -> bool:
    """Whether nobody has given these files a key yet."""
    return files.read(_CHECK) is None


def adopt_key(files: SharedFiles, key: str) -> None:
    """Makes a key that of these files, or finds out that it is; `ConfigError` when they have another."""
    sealed = SealedFiles(files, key)
    sealed.change(_CHECK, lambda before: before or _CHECKED)


def _cipher(key: str) -> Any:
    try:
        return _fernet()(key)
    except (ValueError, TypeError) as error:
        raise ConfigError(
            "The key of the store is not valid.",
            remedy=f"Take {KEY_FILE} over from the machine that made the store.",
        ) from error


def _fernet() -> Any:
    try:
        return import_module("cryptography.fernet").Fernet
    except ModuleNotFoundError as error:
        raise UsageError(
            "Secrets in a store need the package cryptography.", remedy="pip install 'mainspring[cluster]'"
        ) from error
