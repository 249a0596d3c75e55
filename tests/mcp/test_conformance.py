"""A sample of the protocol's own conformance suite, for our client and our server. `make proof` runs all of it,
for both versions of the protocol."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.npm import MODULES, NODE, ROOT, needs

SUITE = MODULES / "@modelcontextprotocol/conformance/dist/index.js"
CLIENT = f"{sys.executable} {Path(__file__).with_name('conformance.py')}"
VERSIONS = ("2025-11-25", "2026-07-28")
FOUND = re.compile(r"^(✓|✗) (\S+): ", re.MULTILINE)
UNSCORED = re.compile(r"^  . (\S+) \((?:extension|pending|added-after-release)", re.MULTILINE)

pytestmark = needs(SUITE)


def suite(folder: Path, *words: str) -> str:
    ran = subprocess.run(
        [NODE, SUITE, *words, "-o", folder / "results"],
        cwd=folder,
        env={**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    return ran.stdout + ran.stderr


@contextmanager
def fixture() -> Iterator[str]:
    """The address of the server that the suite wants to see."""
    words = [sys.executable, str(Path(__file__).with_name("conformance_server.py"))]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def scored(output: str) -> tuple[int, list[str]]:
    """How many scored scenarios there were, and those that failed."""
    unscored = set(UNSCORED.findall(output))
    found = {name: mark for mark, name in FOUND.findall(output) if name not in unscored}
    return len(found), [name for name, mark in found.items() if mark == "✗"]


@pytest.mark.parametrize("version", VERSIONS)
def test_our_server_passes_a_scenario_of_each_version(tmp_path: Path, version: str) -> None:
    scenario = "input-required-result-multi-round" if version == VERSIONS[1] else "tools-call-elicitation"
    with fixture() as url:
        for name in (scenario, "dns-rebinding-protection"):
            told = suite(tmp_path, "server", "--url", url, "--scenario", name, "--spec-version", version)
            assert re.search(r"Passed: (\d+)/\1, 0 failed", told), told


def test_our_client_logs_in_as_the_suite_wants(tmp_path: Path) -> None:
    words = ("client", "--command", CLIENT, "--timeout", "200000", "--spec-version", VERSIONS[1])
    told = suite(tmp_path, *words, "--scenario", "auth/scope-step-up")
    assert "OVERALL: PASSED" in told, told


@pytest.mark.proof
@pytest.mark.parametrize(("version", "scenarios"), [(VERSIONS[0], 30), (VERSIONS[1], 37)])
def test_our_server_passes_all_that_a_version_requires(tmp_path: Path, version: str, scenarios: int) -> None:
    with fixture() as url:
        told = suite(tmp_path, "server", "--url", url, "--requirements", version, "--timeout", "200000")
    assert scored(told) == (scenarios, []), told[-5000:]


@pytest.mark.proof
@pytest.mark.parametrize(("version", "scenarios"), [(VERSIONS[0], 18), (VERSIONS[1], 32)])
def test_our_client_passes_all_that_a_version_requires(tmp_path: Path, version: str, scenarios: int) -> None:
    words = ("client", "--command", CLIENT, "--requirements", version, "--timeout", "500000")
    told = suite(tmp_path, *words)
    assert scored(told) == (scenarios, []), told[-5000:]
