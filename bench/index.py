"""The index of a repository: of our own source, of one changed file, and of many small files."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import tree_sitter_python
from tree_sitter import Language, Parser

from bench.measure import median, row
from mainspring.app.index import RepositoryIndex, repository_index
from mainspring.settings import Config, load_config

OWN = Path(__file__).parent.parent / "src"
UPDATES = 20
MANY = int(os.environ.get("BENCH_INDEX_FILES", "5000"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(own(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(many(Path(folder)))


async def own(folder: Path) -> None:
    root = folder / "work"
    shutil.copytree(OWN, root, ignore=shutil.ignore_patterns("__pycache__"))
    async with repository_index(config_in(folder), root) as index:
        floor_s = parsed_s(sorted(root.rglob("*.py")))
        first_s, count = await updated(index)
        ratio = f"{first_s / floor_s:.1f} x parsing alone"
        name = f"index of our own source, {count} files"
        row(name, f"{first_s:.2f} s", ratio, "target 3 s", median_s=first_s, ratio=first_s / floor_s)
        again_s, _ = await updated(index)
        row("the same when nothing changed", f"{again_s * 1000:.0f} ms", "", "", median_s=again_s)
        path = "mainspring/settings.py"
        taken: list[float] = []
        for _ in range(UPDATES):
            with (root / path).open("a") as file:
                file.write("# another line\n")
            start = time.perf_counter()
            change = await index.update_files(path)
            taken.append(time.perf_counter() - start)
            assert change.read == 1
        floor_s = median([parsed_s([root / path]) for _ in range(UPDATES)])
        ratio = f"{median(taken) / floor_s:.1f} x parsing alone"
        name = "update of one file of 480 lines"
        row(name, f"{median(taken) * 1000:.1f} ms", ratio, "target 20 ms", median_s=median(taken))


async def many(folder: Path) -> None:
    root = folder / "work"
    for number in range(MANY):
        place = root / f"part{number // 100}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"module{number}.py").write_text(module(number))
    async with repository_index(config_in(folder), root) as index:
        taken_s, count = await updated(index)
    each_ms = taken_s / count * 1000
    row(
        f"index of {count} files of 60 lines",
        f"{taken_s:.1f} s",
        f"{each_ms:.2f} ms a file",
        "50,000: minutes",
    )


def parsed_s(files: list[Path]) -> float:
    """What reading them by the grammar takes, in this process."""
    parser = Parser(Language(tree_sitter_python.language()))
    start = time.perf_counter()
    for each in files:
        parser.parse(each.read_bytes())
    return time.perf_counter() - start


def module(number: int) -> str:
    used = f"from part{number // 200}.module{number // 2} import task_{number // 2}_0\n"
    text = "".join(
        f'def task_{number}_{each}(value: int) -> int:\n    """Does {each}."""\n'
        f"    other = value + {each}\n    return other * task_{number // 2}_0(other)\n\n\n"
        for each in range(10)
    )
    return f'"""Part {number}."""\n\n{used}\n\n{text}'


async def updated(index: RepositoryIndex) -> tuple[float, int]:
    start = time.perf_counter()
    change = await index.update()
    return time.perf_counter() - start, change.files


def config_in(folder: Path) -> Config:
    path = f"{Path(sys.prefix, 'bin')}:{os.environ.get('PATH', os.defpath)}"
    return load_config({"MAINSPRING_HOME": str(folder / "home"), "PATH": path})
