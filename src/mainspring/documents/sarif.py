"""Findings of a review as SARIF 2.1.0, which code hosts and editors read."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from mainspring.events import ReviewFinding, Severity

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Severity, str] = {"high": "error", "medium": "warning", "low": "note"}
_TEXTS: dict[Severity, str] = {
    "high": "A defect with serious consequences",
    "medium": "A defect",
    "low": "Something small that is wrong",
}


def sarif_of(
    findings: Sequence[ReviewFinding],
    *,
    version: str,
    unverified: Sequence[ReviewFinding] = (),
    not_reviewed: Sequence[str] = (),
) -> dict[str, Any]:
    """One run with a result for each finding. What could not be verified, and what was not looked at, is no
    result: it stands among the notifications of the tool."""
    notes = [f"not verified: {each.file}:{each.line}: {each.title} ({each.problem})" for each in unverified]
    notes += [f"not reviewed: {each}" for each in not_reviewed]
    invocation: dict[str, Any] = {"executionSuccessful": not not_reviewed}
    if notes:
        invocation["toolExecutionNotifications"] = [
            {"level": "warning", "message": {"text": each}} for each in notes
        ]
    driver = {
        "name": "mainspring review",
        "semanticVersion": version,
        "rules": [
            {"id": f"review/{severity}", "shortDescription": {"text": text}}
            for severity, text in _TEXTS.items()
        ],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(each) for each in findings],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: ReviewFinding) -> dict[str, Any]:
    text = "\n".join(
        filter(
            None,
            (
                f"{finding.title}: {finding.why}",
                finding.reproduction and f"To see it: {finding.reproduction}",
                finding.verified and f"Verified: {finding.verified}",
            ),
        )
    )
    region: dict[str, Any] = {"startLine": max(finding.line, 1)}
    if finding.quote:
        region["snippet"] = {"text": finding.quote}
    place = {"artifactLocation": {"uri": quote(finding.file)}, "region": region}
    # The same finding keeps its identity when lines above it come and go.
    same = hashlib.sha256("\0".join((finding.file, finding.quote, finding.title)).encode()).hexdigest()
    result: dict[str, Any] = {
        "ruleId": f"review/{finding.severity}",
        "ruleIndex": list(_TEXTS).index(finding.severity),
        "level": _LEVELS[finding.severity],
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"findingHash/v1": same},
    }
    if finding.confidence is not None:
        result["properties"] = {"ownConfidence": finding.confidence}
    return result
