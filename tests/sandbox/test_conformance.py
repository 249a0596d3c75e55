"""Every rung that stands here, against the whole table of attacks."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from mainspring.sandbox.probe import SandboxReport, build, probe
from mainspring.sandbox.programs import REPLACED
from mainspring.testing.sandboxes import ATTACKS, Attack, broken, ground, is_listed

RUNGS = ("bwrap", "landlock", "container")


@cache
def report() -> SandboxReport:
    return asyncio.run(probe({"PATH": os.environ["PATH"], "HOME": str(Path.home())}))


def place() -> Path:
    """Not below /tmp, where a private /tmp would hide it and nothing would be tried; and a path that the attacks,
    which are shell scripts, need not quote."""
    possible = [
        place for place in (Path(__file__).parent.resolve(), Path.home()) if os.access(place, os.W_OK)
    ]
    open_ones = [place for place in possible if not any(place.is_relative_to(each) for each in REPLACED)]
    return next(
        (place for place in open_ones if re.fullmatch(r"[\w/.-]+", str(place), re.ASCII)), possible[0]
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix=".ground-", dir=place()))
    yield made
    # A copy of a mask is as unreadable as the mask.
    subprocess.run(["chmod", "-R", "u+rwX", made], check=True)
    shutil.rmtree(made)


def test_at_least_one_rung_stands_here() -> None:
    assert report().best().name in RUNGS


def test_the_table_is_long_and_its_names_are_unique() -> None:
    names = [attack.name for attack in ATTACKS]
    assert len(names) == len(set(names)) >= 60


def in_proof(name: str, attack: Attack) -> tuple[pytest.MarkDecorator, ...]:
    """CI tries all attacks on the first rung, and every second one, always the same, on the others."""
    return (pytest.mark.proof,) if name != RUNGS[0] and zlib.crc32(attack.name.encode()) % 2 else ()


@pytest.mark.parametrize(
    ("name", "attack"),
    [
        pytest.param(name, attack, id=f"{name}-{attack.name}", marks=in_proof(name, attack))
        for name in RUNGS
        for attack in ATTACKS
    ],
)
def test_a_rung_holds_or_says_that_it_does_not(name: str, attack: Attack, folder: Path) -> None:
    rung = report().rung(name)
    if not rung.is_available:
        pytest.skip(f"{name} is not available: {rung.why_not}")

    async def main() -> str:
        with ground(folder, os.environ["PATH"]) as here:
            sandbox = build(name, here.policy, here.environment)
            try:
                return await broken(attack, sandbox, here)
            finally:
                await sandbox.close()

    found = asyncio.run(main())
    assert not found or is_listed(attack, rung), found
