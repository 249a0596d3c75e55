"""What a goal costs by itself: an iteration beside its engine's own time, and looking at its artifacts."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from bench.measure import ms, row, timing
from bench.workspace import keep as forget
from bench.workspace import make
from mainspring.app.goals import GoalOptions, start_goal
from mainspring.events import Blob, EngineEnded, IterationEnded
from mainspring.evidence.artifact_scan import GoalFolder
from mainspring.evidence.artifacts import Artifacts
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.settings import load_config

FILES = 20_000
LOOKS = 7
ITERATIONS = 40
IGNORED = "*.log\n*.pyc\nbuild/\ndist/\n.cache/\n*.tmp\n*.swp\n/secret\ncoverage.*\n!keep.log\n"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "repository"
        make(root, FILES, in_git=False)
        (root / ".gitignore").write_text(IGNORED)
        asyncio.run(measure(root, Path(folder) / "cache"))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure_iterations(Path(folder).resolve()))


async def measure_iterations(folder: Path) -> None:
    """A goal whose engine does nothing: what passes between two ends of iterations, without the engine."""
    workspace = folder / "workspace"
    workspace.mkdir()
    config = load_config({**os.environ, "MAINSPRING_HOME": str(folder / "home")})
    rules = {"max_iterations": ITERATIONS, "max_idle_iterations": 0}
    options = GoalOptions(folder=workspace, engine="exec:true", rules=rules)
    async with start_goal("nothing", options, config=config) as pursuit:
        await pursuit.run()
        journal = pursuit.session.journal
        recorded = await journal.read(kinds=("IterationEnded", "EngineEnded"), limit=3 * ITERATIONS)
    ends = [item.time_us / 1e6 for item in recorded if isinstance(item.event, IterationEnded)]
    engines = [item.event.duration_s for item in recorded if isinstance(item.event, EngineEnded)]
    whole = [after - before for before, after in pairwise(ends)]
    over = [took - engine for took, engine in zip(whole, engines[1:], strict=True)]
    timing("an iteration with an engine that does nothing", whole, floor=engines)
    timing("an iteration over its engine's own time", over, target="target 15 ms")


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
    timing(f"{FILES:,} unchanged files: a look", same, target="target 150 ms")
    again = [await _look(GoalFolder(files, root, cache), artifacts) for _ in range(LOOKS)]
    timing(f"{FILES:,} unchanged files: first look of a process", again, target="target 150 ms")


async def _look(folder: GoalFolder, artifacts: Artifacts) -> float:
    start = time.perf_counter()
    event = await folder.look(artifacts.present, 1, {}, forget)
    assert event is None
    return time.perf_counter() - start
