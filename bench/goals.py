"""What looking at a goal's artifacts costs: the first look, the next one, and the first of a new process."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from bench.measure import ms, row
from bench.workspace import keep as forget
from bench.workspace import make
from mainspring.events import Blob
from mainspring.goals.artifacts import Artifacts
from mainspring.goals.looking import GoalFolder
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy

FILES = 20_000
LOOKS = 7
IGNORED = "*.log\n*.pyc\nbuild/\ndist/\n.cache/\n*.tmp\n*.swp\n/secret\ncoverage.*\n!keep.log\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "repository"
        make(root, FILES, in_git=False)
        (root / ".gitignore").write_text(IGNORED)
        asyncio.run(measure(root, Path(folder) / "cache"))


async def measure(root: Path, cache: Path) -> None:
    files = Files(policy(root, home=root.parent))
    artifacts = Artifacts()
    folder = GoalFolder(files, root, cache)
    kept: list[bytes] = []

    async def keep(data: bytes, media_type: str) -> Blob:
        kept.append(data)
        return Blob(sha256="", size=len(data), media_type=media_type)

    start = time.perf_counter()
    event = await folder.look({}, 0, {}, keep)
    row(f"{FILES:,} files: first look, all hashed", ms(time.perf_counter() - start))
    assert event is not None
    artifacts.apply(event, kept[0])
    same = [await _look(folder, artifacts) for _ in range(LOOKS)]
    row(f"{FILES:,} unchanged files: a look", ms(min(same)), "", "target 150 ms")
    again = [await _look(GoalFolder(files, root, cache), artifacts) for _ in range(LOOKS)]
    row(f"{FILES:,} unchanged files: first look of a process", ms(min(again)), "", "target 150 ms")


async def _look(folder: GoalFolder, artifacts: Artifacts) -> float:
    start = time.perf_counter()
    event = await folder.look(artifacts.present, 1, {}, forget)
    assert event is None
    return time.perf_counter() - start
