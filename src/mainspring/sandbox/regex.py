"""Matches a regular expression that somebody else wrote: in a child process, for a limited time.

Python's own matching can take for ever on a few characters, holds every thread while it does, and cannot be
interrupted. The child ends by its CPU limit, also when we are gone.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module

from mainspring.errors import UsageError

LIMIT_S = 5
_CHILD = """
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]),) * 2)
pattern, flags, lines = json.load(sys.stdin)
search = re.compile(pattern, flags).search
json.dump([number for number, line in enumerate(lines) if search(line)], sys.stdout)
"""


def check_pattern(pattern: str) -> None:
    """Raises `UsageError` with what is wrong in it."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"The pattern {pattern[:200]!r} is not valid: {error}.") from error


def matching(pattern: str, lines: Sequence[str], *, is_case_ignored: bool = False) -> list[int]:
    """The numbers of the lines in which it matches. Raises `TimeoutError` when that takes too long. For a
    thread."""
    if not lines:
        return []
    json = import_module("json")
    given = json.dumps([pattern, int(re.IGNORECASE) if is_case_ignored else 0, lines])
    argv = (sys.executable, "-I", "-S", "-c", _CHILD, str(LIMIT_S))
    try:
        done = subprocess.run(
            argv, input=given.encode(), capture_output=True, timeout=4 * LIMIT_S, check=False, env={}
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError from error
    if done.returncode < 0:
        raise TimeoutError
    if done.returncode:
        raise ChildProcessError(done.stderr[-500:].decode(errors="replace"))
    return json.loads(done.stdout)
