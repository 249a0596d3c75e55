"""What a command may use when nobody said how much, and what configuration adds to that."""

from __future__ import annotations

import asyncio
import os
from functools import cache
from pathlib import Path

import msgspec
import pytest

from mainspring.sandbox import Command, CommandResult
from mainspring.sandbox.cgroups import MAX_FILES, Cgroups, find_parents
from mainspring.sandbox.limits import LEAST_MEMORY_BYTES, MIB, ProcessLimits, share_of_machine
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.policy import policy as make_policy
from mainspring.sandbox.probe import build, probe

FILLS_MEMORY = "x = bytearray(600 << 20); print('ESCAPED')"
NEEDS_CGROUP = pytest.mark.skipif("memory" not in find_parents(), reason="no memory cgroup can be made here")


@pytest.fixture
def rules(tmp_path: Path) -> Confinement:
    (tmp_path / "work").mkdir()
    return make_policy(tmp_path / "work", home=tmp_path)


@cache
def standing() -> frozenset[str]:
    report = asyncio.run(probe({"PATH": os.environ["PATH"], "HOME": str(Path.home())}))
    return frozenset(rung.name for rung in report.rungs if rung.is_available)


def run(rung: str, rules: Confinement, script: str, **limits: int) -> CommandResult:
    if rung not in standing():
        pytest.skip(f"{rung} is not available here")

    async def main() -> CommandResult:
        sandbox = build(rung, rules, {"PATH": os.environ["PATH"], "HOME": str(rules.workspace.parent)})
        try:
            command = Command(
                argv=("bash", "-c", script),
                cwd=rules.workspace,
                timeout_s=100,
                limits=ProcessLimits(**limits),
            )
            return await sandbox.run(command)
        finally:
            await sandbox.close()

    return asyncio.run(main())


def test_the_share_of_a_machine_is_most_of_it_and_never_tiny() -> None:
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert LEAST_MEMORY_BYTES <= share_of_machine() <= max(physical, LEAST_MEMORY_BYTES)
    assert share_of_machine(8 << 30) == max(int(0.75 * min(8 << 30, physical)), LEAST_MEMORY_BYTES)
    assert share_of_machine(64 * MIB) == LEAST_MEMORY_BYTES


@NEEDS_CGROUP
@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_a_command_without_a_limit_of_its_own_has_one(rung: str, rules: Confinement) -> None:
    parent = find_parents()["memory"]
    file = MAX_FILES["memory", parent.version]
    done = run(rung, rules, f"cat {parent.path}/mainspring-*/{file}")
    assert str(Cgroups().memory_share() // 4096 * 4096) in done.stdout.decode().split()


@NEEDS_CGROUP
@pytest.mark.parametrize("rung", ["bwrap", "landlock"])
def test_a_configured_limit_holds_for_each_command_but_not_over_its_own(
    rung: str, rules: Confinement
) -> None:
    small = msgspec.structs.replace(rules, memory_bytes=200 * MIB)
    done = run(rung, small, f'python3 -c "{FILLS_MEMORY}"')
    assert b"ESCAPED" not in done.stdout
    assert done.stopped == "memory limit of 200 MiB"
    assert b"ESCAPED" in run(rung, small, f'python3 -c "{FILLS_MEMORY}"', memory_bytes=2000 * MIB).stdout


def cgroups_with(memory_bytes: int) -> set[Path]:
    parent = find_parents()["memory"]
    file = MAX_FILES["memory", parent.version]
    found = parent.path.glob("mainspring-*")
    return {
        each for each in found if (each / file).exists() and int((each / file).read_text()) == memory_bytes
    }


@NEEDS_CGROUP
def test_the_cgroup_of_the_next_command_is_made_ahead_and_leaves_nothing() -> None:
    async def main() -> None:
        cgroups = Cgroups()
        limits = ProcessLimits(memory_bytes=123 * MIB)
        used: set[Path] = set()
        for number in range(4):
            ahead = cgroups_with(123 * MIB)
            assert len(ahead) == (number > 0)
            if number == 2:  # as another mainspring does with what looks abandoned
                for folder in ahead:
                    folder.rmdir()
                    ahead = set()
            with cgroups.enter(limits) as made:
                assert ahead <= set(made.folders)
                assert used.isdisjoint(made.folders)
                assert cgroups_with(123 * MIB) <= set(made.folders)
                used.update(made.folders)
            await asyncio.sleep(0)
        with cgroups.enter(ProcessLimits(memory_bytes=124 * MIB)) as made:
            assert cgroups_with(124 * MIB) <= set(made.folders)
        await asyncio.sleep(0)
        assert not cgroups_with(123 * MIB)
        assert cgroups.close()
        with cgroups.enter(limits):  # a command that ends after us
            pass
        await asyncio.sleep(0)
        assert not cgroups_with(123 * MIB) | cgroups_with(124 * MIB)

    asyncio.run(main())


@pytest.mark.parametrize("folder", ["/tmp", "/var/tmp", "/run", "/dev/shm"])
def test_files_in_memory_have_room_only_for_their_share(folder: str, rules: Confinement) -> None:
    small = msgspec.structs.replace(rules, memory_bytes=200 * MIB)
    done = run("bwrap", small, f"head -c 150M /dev/zero > {folder}/x && echo ESCAPED")
    assert b"ESCAPED" not in done.stdout
    assert run("bwrap", small, f"head -c 5M /dev/zero > {folder}/x && echo fits").stdout == b"fits\n"


def test_shared_memory_still_serves_semaphores(rules: Confinement) -> None:
    script = "python3 -c 'import multiprocessing as m; s = m.Semaphore(); s.acquire(); print(1)'"
    assert run("bwrap", rules, script).stdout == b"1\n"


def test_a_person_may_take_the_limit_away(rules: Confinement) -> None:
    free = msgspec.structs.replace(rules, memory_bytes=0)
    sizes = "df --output=size -B1 /tmp | tail -1"
    limited, unlimited = (int(run("bwrap", each, sizes).stdout) for each in (rules, free))
    share = Cgroups().memory_share() or share_of_machine()
    assert limited == pytest.approx(share / 2, rel=0.01)
    assert unlimited != limited


@pytest.mark.parametrize("rung", ["bwrap", "landlock", "none"])
def test_a_command_that_fills_the_disk_is_ended(rung: str, rules: Confinement) -> None:
    bounded = msgspec.structs.replace(rules, disk_bytes=20 * MIB)
    script = "while :; do head -c 4M /dev/zero >> big; sleep 0.05; done"
    limits = {} if rung != "none" else {"disk_bytes": 20 * MIB}
    done = run(rung, bounded, script, **limits)
    assert done.stopped == "limit of 20 MiB written to disk"


def test_a_command_that_makes_many_files_is_ended(rules: Confinement) -> None:
    if not os.statvfs(rules.workspace).f_favail:
        pytest.skip("this file system does not count its files")
    bounded = msgspec.structs.replace(rules, new_files=500)
    script = "i=0; while :; do mkdir d$i; (cd d$i; touch $(seq 200)); i=$((i+1)); done"
    assert run("bwrap", bounded, script).stopped == "limit of 500 new files"


def test_the_disk_that_is_watched_is_the_one_of_the_workspace(rules: Confinement) -> None:
    shm = Path("/dev/shm")
    if not os.access(shm, os.W_OK) or os.statvfs(shm).f_bavail == os.statvfs("/").f_bavail:
        pytest.skip("there is no other disk here")
    free = {place: os.statvfs(place).f_bavail * os.statvfs(place).f_frsize for place in ("/", str(shm))}
    between = sum(free.values()) // 2
    fuller = min(free, key=lambda place: free[place])
    work = Path(fuller) / f"mainspring-test-{os.getpid()}" if fuller == str(shm) else rules.workspace
    work.mkdir(exist_ok=True)
    try:
        elsewhere = msgspec.structs.replace(rules, workspace=work)
        done = run("bwrap", elsewhere, "exec sleep 100", disk_reserve_bytes=between)
        assert done.stopped.startswith("disk reserve of")
    finally:
        if work.parent == shm:
            work.rmdir()
