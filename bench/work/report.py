"""Records of attempts, and the table made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

_Z = 1.96


@dataclass(frozen=True, kw_only=True)
class Record:
    """One attempt of one harness at one task. `largest` is the prompt of its largest request."""

    task: str
    harness: str
    model: str
    repeat: int
    solved: bool
    ending: str
    detail: str
    steps: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    largest: int
    estimated: int
    seconds: float
    skipped: str = ""

    @property
    def key(self) -> tuple[str, str, str, int]:
        return self.task, self.harness, self.model, self.repeat


def append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record), ensure_ascii=False) + "\n")


def read(paths: Iterable[Path]) -> list[Record]:
    return [Record(**json.loads(line)) for path in paths for line in path.read_text("utf-8").splitlines()]


def wilson(solved: int, total: int) -> tuple[float, float]:
    """Where the true share lies with 95 % confidence; holds for few attempts and for shares near 0 and 1."""
    if total == 0:
        return 0.0, 1.0
    share, spread = solved / total, _Z**2 / total
    middle = (share + spread / 2) / (1 + spread)
    width = _Z / (1 + spread) * math.sqrt(share * (1 - share) / total + spread / (4 * total))
    return max(0.0, middle - width), min(1.0, middle + width)


def table(records: Sequence[Record]) -> str:
    """A line for each harness and model: means over attempts, the median of seconds. Skipped tasks are named
    below and counted nowhere."""
    lines = [
        "| harness | model | solved | 95 % | steps | in | cached | out | largest in | per solved | s |",
        "|---|---|--:|:-:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if not record.skipped:
            groups.setdefault((record.harness, record.model), []).append(record)
    lines += [_row(harness, model, group) for (harness, model), group in groups.items()]
    skipped = sorted({f"{record.task}: {record.skipped}" for record in records if record.skipped})
    return "\n".join([*lines, *(["", "Skipped:", *(f"- {each}" for each in skipped)] if skipped else [])])


def by_task(records: Sequence[Record]) -> str:
    """A line for each task, a column for each harness: solved of attempts."""
    done = [record for record in records if not record.skipped]
    harnesses = list(dict.fromkeys(record.harness for record in done))
    lines = [f"| task | {' | '.join(harnesses)} |", "|---" * (len(harnesses) + 1) + "|"]
    for task in sorted({record.task for record in done}):
        tried = {name: [r.solved for r in done if r.task == task and r.harness == name] for name in harnesses}
        cells = [f"{sum(each)}/{len(each)}" if each else "" for each in tried.values()]
        lines.append(f"| {task} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _row(harness: str, model: str, group: Sequence[Record]) -> str:
    solved, total = sum(record.solved for record in group), len(group)
    low, high = wilson(solved, total)
    spent = sum(record.tokens_in + record.tokens_out for record in group)
    cells = [
        harness,
        model,
        f"{solved}/{total} ({solved / total:.0%})",
        f"{low:.0%}–{high:.0%}",
        f"{sum(record.steps for record in group) / total:.1f}",
        f"{sum(record.tokens_in for record in group) / total:,.0f}",
        f"{sum(record.tokens_cached for record in group) / total:,.0f}",
        f"{sum(record.tokens_out for record in group) / total:,.0f}",
        f"{max(record.largest for record in group):,}",
        f"{spent / solved:,.0f}" if solved else "–",
        f"{median(record.seconds for record in group):.0f}",
    ]
    return f"| {' | '.join(cells)} |"
