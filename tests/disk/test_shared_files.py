"""Small files that processes and machines share, wherever they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from mainspring.disk.shared_files import LocalFiles, SharedFiles
from mainspring.errors import ConfigError
from mainspring.journal.postgres.files import PostgresFiles
from mainspring.secrets.sealed_files import SealedFiles, adopt_key, is_key_wanted
from mainspring.testing import shared_files
from tests.postgres import postgres

KEY = Fernet.generate_key().decode()
Views = tuple[SharedFiles, SharedFiles]


def in_folder(folder: Path) -> Views:
    return LocalFiles(folder / "files"), LocalFiles(folder / "files")


def in_postgres(folder: Path) -> Views:
    address = asyncio.run(postgres().new_store())
    return PostgresFiles(address, folder.name), PostgresFiles(address, folder.name)


def sealed(folder: Path) -> Views:
    one, other = in_folder(folder)
    return SealedFiles(one, KEY), SealedFiles(other, KEY)


@pytest.mark.parametrize("check", shared_files.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("views", [in_folder, in_postgres, sealed], ids=lambda views: views.__name__)
def test_shared_files_do_what_the_port_says(
    views: Callable[[Path], Views], check: Callable[[SharedFiles, SharedFiles], None], tmp_path: Path
) -> None:
    check(*views(tmp_path))


def test_who_has_another_key_or_none_reads_nothing(tmp_path: Path) -> None:
    files, _ = in_folder(tmp_path)
    SealedFiles(files, KEY).write("secrets.json", b"xyzzy-plugh")
    assert b"xyzzy" not in (files.read("secrets.json") or b"")
    with pytest.raises(ConfigError, match="another key"):
        SealedFiles(files, Fernet.generate_key().decode()).read("secrets.json")
    with pytest.raises(ConfigError, match="not valid"):
        SealedFiles(files, "mistyped").read("secrets.json")


def test_the_first_key_is_that_of_the_store(tmp_path: Path) -> None:
    files, _ = in_folder(tmp_path)
    assert is_key_wanted(files)
    adopt_key(files, KEY)
    adopt_key(files, KEY)
    assert not is_key_wanted(files)
    with pytest.raises(ConfigError, match="another key"):
        adopt_key(files, Fernet.generate_key().decode())
