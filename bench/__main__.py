"""Runs the measurements named on the command line, or all of them, and appends what they found to
`bench/results.jsonl`: a line for each row, with the commit, the time and how busy the machine was."""

from __future__ import annotations

import compileall
import importlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mainspring
from bench.measure import RECORDED

NAMES = [
    "start",
    "turn",
    "resume",
    "wires",
    "sandbox",
    "workspace",
    "context",
    "goals",
    "waits",
    "mcp",
    "checks",
    "index",
    "hooks",
    "plugins",
    "tokens",
    "chat",
    "serve",
    "cluster",
]
RESULTS = Path(__file__).parent / "results.jsonl"
_TASKS = re.compile("/bench/work/tasks/")


def main() -> None:
    # Where Python may write no compiled modules, each start would compile all that is new.
    for folder in (Path(__file__).parent, Path(mainspring.__file__).parent):
        compileall.compile_dir(folder, quiet=1, rx=_TASKS)  # tasks stay as they were written
    about = about_this_run()
    for name in sys.argv[1:] or NAMES:
        print(f"== {name}")
        before = len(RECORDED)
        importlib.import_module(f"bench.{name}").main()
        with RESULTS.open("a") as file:
            for record in RECORDED[before:]:
                file.write(json.dumps({**about, "bench": name, **record}, ensure_ascii=False) + "\n")


def about_this_run() -> dict[str, Any]:
    git = ["git", "-C", str(RESULTS.parent), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    return {
        "run": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": commit,
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    main()
