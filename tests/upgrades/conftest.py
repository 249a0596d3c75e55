"""An installation that an old version left behind, at the path where it was made."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.upgrades.installation import ROOT, Installation, locked

VERSIONS = sorted(path.name.removesuffix(".tar.xz") for path in Path(__file__).parent.glob("v*.tar.xz"))


@pytest.fixture(params=VERSIONS)
def old(request: pytest.FixtureRequest) -> Iterator[Installation]:
    with locked():
        with tarfile.open(Path(__file__).parent / f"{request.param}.tar.xz") as archive:
            # Python before 3.11.4, as Debian has it, knows no filters.
            if hasattr(tarfile, "data_filter"):
                archive.extractall(ROOT, filter="data")
            else:
                archive.extractall(ROOT)  # our own archive
        here = Installation()
        yield here
        here.close()
