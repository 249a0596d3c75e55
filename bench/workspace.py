"""What the time machine costs: the first look at a repository, and each look after it when little changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.measure import ms, row, timing
from mainspring.events import Blob
from mainspring.workspace.snapshots import Snapshots

SIZES = (1_000, 10_000, 50_000)
CALLS = 7
WRITING_S = 0.5
"""A model takes longer to write a call."""


def main() -> None:
    for files in SIZES:
        for in_git in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                repository = Path(folder) / "repository"
                make(repository, files, in_git=in_git)
                asyncio.run(measure(Path(folder), repository, files, in_git=in_git))


def make(repository: Path, files: int, *, in_git: bool) -> None:
    for number in range(files):
        folder = repository / f"a{number % 25}" / f"b{number // 500}"
        if number % 500 < 25:
            folder.mkdir(parents=True)
        (folder / f"file{number}.py").write_text(f"value = {number}\n" * 150)
    if in_git:
        who = ("-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "commit.gpgsign=false")
        for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "all")):
            subprocess.run(["git", "-C", str(repository), *command], check=True)


async def keep(data: bytes, media_type: str) -> Blob:
    return Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)


async def keep_all(contents: Sequence[tuple[bytes, str]]) -> list[Blob]:
    return [await keep(*each) for each in contents]


async def measure(folder: Path, repository: Path, files: int, *, in_git: bool) -> None:
    kind = "in git" if in_git else "without git"
    machine = Snapshots(repository, folder / "cache", environment=dict(os.environ))
    start = time.perf_counter()
    await machine.prepare()
    cached = sum(path.stat().st_size for path in (folder / "cache").rglob("*") if path.is_file())
    row(
        f"{files:,} files {kind}: first look",
        ms(time.perf_counter() - start),
        f"{cached / 1e6:.0f} MB cached",
    )
    before: list[float] = []
    after: list[float] = []
    early: list[float] = []
    cpu: list[float] = []
    for number in range(CALLS):
        start, used = time.perf_counter(), time.process_time()
        await machine.begin(f"c{number}")
        before.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
        (repository / "a1" / "b0" / "file1.py").write_text(f"changed {number}\n")
        (repository / f"new{number}.txt").write_text("new\n")
        start = time.perf_counter()
        changed = await machine.end((f"c{number}",), keep_all)
        after.append(time.perf_counter() - start)
        assert changed is not None
        assert len(changed.changes) == 2
        machine.expect()
        await asyncio.sleep(WRITING_S)
        start = time.perf_counter()
        await machine.begin(f"e{number}")
        early.append(time.perf_counter() - start)
        await machine.end((f"e{number}",), keep_all)
    target = "target 150 ms" if files == SIZES[-1] else ""
    timing(f"{files:,} files {kind}: before a call", before)
    timing(f"{files:,} files {kind}: the same, looked at while it was written", early)
    timing(f"{files:,} files {kind}: before a call, processor", cpu)
    timing(f"{files:,} files {kind}: after a call, 2 changes", after)
    step = [each + behind for each, behind in zip(early, after, strict=True)]
    timing(f"{files:,} files {kind}: a step over its command", step, target=target)
    await machine.close()
