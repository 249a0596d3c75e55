"""A disk that is full at any moment of a run: a sentence, no empty session, nothing lost that was said to be done."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.cli.conftest import Machine, lines

Limit = Callable[[int], Callable[[], None] | None]


@pytest.fixture
def tmpfs(machine: Machine) -> Iterator[Limit | None]:
    """Makes the data folder a file system of a size; None where only an administrator may."""
    mounted = ["umount", str(machine.home)]
    machine.home.mkdir()

    def limit(kib: int) -> None:
        subprocess.run(mounted, check=False, capture_output=True)
        options = ["-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(machine.home)]
        subprocess.run(["mount", *options], check=True, capture_output=True)

    try:
        limit(64)
    except (OSError, subprocess.CalledProcessError):
        yield None
        return
    yield limit
    subprocess.run(mounted, check=False, capture_output=True)


def file_size(kib: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (kib * 1024, kib * 1024))


def run(machine: Machine, model: str, before: Callable[[], None] | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mainspring", "run", "--model", model, "say hello"],
        cwd=machine.workspace,
        env=machine.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=before,
    )


def check(machine: Machine, ran: subprocess.CompletedProcess[str]) -> None:
    """Whatever happened, the list and the journal say the same as the exit code."""
    assert "Traceback" not in ran.stderr, ran.stderr
    rows = lines(machine.run("sessions", "--json").stdout)
    if ran.returncode == 0:
        assert rows[0]["state"] == "done"
        assert machine.run("verify", rows[0]["id"]).returncode == 0
        return
    assert ran.returncode == 1
    assert "mainspring: " in ran.stderr
    for row in rows:
        assert row["started_us"], "an empty session"
    for path in (machine.home / "sessions").glob("*"):
        assert not path.name.startswith(".new-")


def test_a_disk_that_is_full_at_any_moment(machine: Machine, tmpfs: Limit | None) -> None:
    model = machine.serve(*[{"text": "Hello."}] * 40)
    codes = set[int]()
    for kib in (20, 36, 60, 68, 76, 84, 100, 120, 400):
        ran = run(machine, model, tmpfs(kib) if tmpfs else file_size(kib))
        check(machine, ran)
        codes.add(ran.returncode)
    assert codes == {0, 1}


def test_a_file_that_may_not_grow(machine: Machine) -> None:
    model = machine.serve(*[{"text": "Hello."}] * 10)
    codes = set[int]()
    for kib in (0, 4, 12, 20, 36, 1000):
        ran = run(machine, model, file_size(kib))
        check(machine, ran)
        codes.add(ran.returncode)
    assert codes == {0, 1}
