"""What a check found, as a line for people and models."""

from __future__ import annotations

from mainspring.events import CheckFinding

_MAX_LINE = 200


def line_of(path: str, finding: CheckFinding) -> str:
    """A finding as compilers write it."""
    place = f"{path}:{finding.line}" if finding.line else path
    rule = f" [{finding.by} {finding.rule}]" if finding.rule != finding.by else f" [{finding.by}]"
    return f"{place}: {finding.severity}: {finding.message}"[:_MAX_LINE] + rule
