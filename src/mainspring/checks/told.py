"""Findings as the model reads them: errors first, ten lines at most, the rest behind a handle."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.documents.findings import line_of
from mainspring.events import CheckFinding
from mainspring.turns.runtime import Runtime

SHOWN = 10


async def listed(runtime: Runtime, findings: Sequence[tuple[str, CheckFinding]]) -> str:
    """Findings by file, in lines."""
    ordered = sorted(findings, key=lambda found: found[1].severity != "error")
    lines = [line_of(path, each) for path, each in ordered]
    if len(lines) > SHOWN:
        blob = await runtime.recorder.put_blob("\n".join(lines).encode())
        lines[SHOWN:] = [f"and {len(lines) - SHOWN} more: read `blob:{blob.sha256}`"]
    return "\n".join(lines)
