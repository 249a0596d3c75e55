"""Writes `docs/speed.md` from the newest run of each measurement in `bench/results.jsonl`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
HEAD = """# Speed

Measured by `make bench` on a machine with {cpus} processors and Python {python} (load {load} at the start),
at commit `{commit}` on {day}. A time is the median, and in brackets where eight of ten values lie. A floor is
the same work with as little as possible around it (a bare loop, a bare bubblewrap, a bare read), measured in
turn with ours; what counts is the ratio. `make speed` writes this page from your own run.
"""


def main() -> None:
    lines = (ROOT / "bench/results.jsonl").read_text().splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    newest = {record["bench"]: record["run"] for record in records}
    shown = [record for record in records if record["run"] == newest[record["bench"]]]
    about = max(shown, key=lambda record: record["run"])
    text = [HEAD.format(**{**about, "day": about["run"][:10]})]
    for bench in dict.fromkeys(record["bench"] for record in shown):
        text += [f"## {bench}\n", "| what | measured | against | target |", "|---|---|---|---|"]
        of_bench = [record for record in shown if record["bench"] == bench]
        text += ["| {what} | {value} | {against} | {target} |".format(**record) for record in of_bench]
        text.append("")
    (ROOT / "docs/speed.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
