"""Runs a program for as long as whoever started us lives: when our standard input ends, so does the program,
with all that it started in its group. Uses the standard library alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress


def main() -> None:
    program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def watch() -> None:
        while os.read(0, 4096):  # a buffered reader would hold its lock when we end first
            pass
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    sys.exit(program.wait())


if __name__ == "__main__":
    main()
