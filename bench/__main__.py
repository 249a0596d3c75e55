"""Runs the measurements named on the command line, or all of them."""

from __future__ import annotations

import importlib
import sys

NAMES = ["start", "turn", "resume", "wires", "sandbox", "workspace", "context", "goals", "waits"]


def main() -> None:
    for name in sys.argv[1:] or NAMES:
        print(f"== {name}")
        importlib.import_module(f"bench.{name}").main()


if __name__ == "__main__":
    main()
