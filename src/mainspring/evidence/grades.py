"""What evidence is worth: a chain of checks is as strong as its weakest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mainspring.events import CheckEnded, Grade

_ORDER: tuple[Grade, ...] = ("verified", "checked", "", "claimed")
_SHOWN = 5


def weakest(grades: Iterable[Grade]) -> Grade:
    """The grade of a goal by those of all its evidence; without any, only the agent says so."""
    given = list(grades) or ["claimed"]
    return _ORDER[max(_ORDER.index(grade) for grade in given)] or "claimed"


def named(files: Sequence[str]) -> str:
    """Some files by their names, and how many more there are."""
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(files[:_SHOWN]) + more


def accepted(checks: Sequence[CheckEnded]) -> str:
    """Why a goal counts as done, in a sentence or two."""
    passed = f"Every check passed ({len(checks)})"
    claimed = [check.check for check in checks if check.grade == "claimed"]
    written = tuple(dict.fromkeys(path for check in checks for path in check.written))
    doubts = [f"{check.check}: {doubt}" for check in checks for doubt in check.doubts]
    if not checks:
        return "The agent says that it is done. There was nothing to check it by."
    if claimed:
        return f"{passed}, and {named(claimed)} only by figures that the agent itself reported."
    if written:
        doubt = f" {doubts[0]}." if doubts else ""
        return f"{passed}, decided by files that the agent wrote or changed: {named(written)}.{doubt}"
    return f"{passed}; {doubts[0]}." if doubts else f"{passed}."
