"""Where the output of a command that failed points to: lines of stack traces and messages of compilers, as
far as they are files of the workspace. Pure, but for a way to ask whether a file is there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from pathlib import PurePosixPath

from mainspring.events import FaultPlace
from mainspring.patterns import lazy_pattern
from mainspring.workspace.affected import is_test

_MAX_PLACES = 8
_MAX_CHARS = 400_000
_PLACES = lazy_pattern(
    r"""File\ "(?P<python>[^"\n]+)",\ line\ (?P<python_line>\d+)
    |(?<![\w/.-])(?:file://)?(?P<path>/?(?:[\w.@+-]+/)*[\w@+-][\w.@+-]*\.[A-Za-z][A-Za-z0-9]{0,4})
     (?::|\((?=\d+,\d+\))|:?\ line\ )(?P<line>\d+)\b""",
    re.VERBOSE,
)
_FOREIGN = lazy_pattern(r"(?:^|/)(?:\.venv|venv|site-packages|dist-packages|node_modules|\.git|vendor)/")


def fault_places(
    output: str, workspace: str, is_file: Callable[[str], bool], recent: Collection[str] = ()
) -> tuple[FaultPlace, ...]:
    """The lines, the most telling first: code before tests, what was changed lately before the rest, and what
    a trace names last before what it names first."""
    found: dict[tuple[str, int], None] = {}
    known: dict[str, str] = {}
    for match in _PLACES.finditer(output[-_MAX_CHARS:]):
        written = match["python"] or match["path"]
        if written not in known:
            path = _inside(written, workspace)
            known[written] = path if path and is_file(path) else ""
        if path := known[written]:
            place = (path, int(match["python_line"] or match["line"]))
            found.pop(place, None)
            found[place] = None  # the last time that it is named counts
    places = [FaultPlace(path=path, line=line, is_recent=path in recent) for path, line in reversed(found)]
    places.sort(key=lambda each: (is_test(each.path), not each.is_recent))
    return tuple(places[:_MAX_PLACES])


def _inside(written: str, workspace: str) -> str:
    """The path below the workspace; empty for one outside, or of code that others wrote."""
    path = PurePosixPath(written)
    if path.is_absolute():
        if not path.is_relative_to(workspace):
            return ""
        path = path.relative_to(workspace)
    text = str(path)
    is_ours = ".." not in path.parts and not _FOREIGN.search(text) and text != "."
    return text if is_ours else ""
