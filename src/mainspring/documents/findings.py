"""What a check found, as a line for people and models."""

from __future__ import annotations

from mainspring.events import CheckFinding

_MAX_LINE = 200


def line_of(path: str, finding: CheckFinding) -> str:
    """A finding as compilers write it."""
    last = f"-{finding.last_line}" if finding.last_line > finding.line else ""
    place = f"{path}:{finding.line}{last}" if finding.line else path
    rule = f" [{finding.by} {finding.rule}]" if finding.rule != finding.by else f" [{finding.by}]"
    return in_one_line(f"{place}: {finding.severity}: {finding.message}"[:_MAX_LINE] + rule)


def in_one_line(text: str) -> str:
    """A text with what is not printed escaped: the name of a file may hold lines of its own."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
