"""SARIF as the standard demands it (OASIS, version 2.1.0: sections 3.13, 3.14, 3.18-3.20, 3.27-3.30, 3.49)."""

from __future__ import annotations

import json
import re
from typing import Any

from mainspring.documents.sarif import sarif_of
from mainspring.events import ReviewFinding

FINDINGS = [
    ReviewFinding(
        file="src/a b.py", line=3, severity="high", title="t", why="w", quote="x = 1", confidence=90
    ),
    ReviewFinding(file="b.py", line=0, severity="low", title="t", why="w", reproduction="run it"),
]
LEVELS = {"none", "note", "warning", "error"}
_URI = re.compile(r"[A-Za-z0-9\-._~/%!$&'()*+,;=:@]+")


def checked(document: Any) -> list[dict]:
    """Fails where a field that the standard requires is missing or of another kind; gives the results."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].startswith("https://")
    assert isinstance(document["runs"], list)
    results: list[dict] = []
    for run in document["runs"]:
        driver = run["tool"]["driver"]
        assert driver["name"]
        assert re.fullmatch(r"\d+\.\d+\.\d+([-+.].*)?", driver["semanticVersion"])
        ids = [rule["id"] for rule in driver["rules"]]
        assert len({*ids}) == len(ids)
        assert all(rule["shortDescription"]["text"] for rule in driver["rules"])
        for invocation in run["invocations"]:
            assert isinstance(invocation["executionSuccessful"], bool)
            for note in invocation.get("toolExecutionNotifications", []):
                assert note["message"]["text"]
                assert note["level"] in LEVELS
        assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
        for result in run["results"]:
            assert result["message"]["text"]
            assert result["level"] in LEVELS
            assert ids[result["ruleIndex"]] == result["ruleId"]
            assert all(isinstance(each, str) for each in result["partialFingerprints"].values())
            for location in result["locations"]:
                place = location["physicalLocation"]
                assert _URI.fullmatch(place["artifactLocation"]["uri"])
                assert place["region"]["startLine"] >= 1
            results.append(result)
    return results


def test_findings_are_results_with_place_and_level():
    document = json.loads(json.dumps(sarif_of(FINDINGS, version="1.2.3")))
    results = checked(document)
    places = [each["locations"][0]["physicalLocation"] for each in results]
    assert [(each["artifactLocation"]["uri"], each["region"]["startLine"]) for each in places] == [
        ("src/a%20b.py", 3),
        ("b.py", 1),
    ]
    assert [each["level"] for each in results] == ["error", "note"]
    assert results[0]["properties"] == {"ownConfidence": 90}


def test_what_was_not_verified_or_not_reviewed_is_no_result_and_is_told():
    document = sarif_of([], version="1.2.3", unverified=FINDINGS[:1], not_reviewed=["long.txt: too long"])
    assert checked(document) == []
    (invocation,) = document["runs"][0]["invocations"]
    texts = [each["message"]["text"] for each in invocation["toolExecutionNotifications"]]
    assert ["not verified" in texts[0], "not reviewed" in texts[1]] == [True, True]
    assert invocation["executionSuccessful"] is False


def test_a_finding_keeps_its_identity_when_it_moves():
    moved = [ReviewFinding(file="b.py", line=9, severity="low", title="t", why="other words")]
    old, new = (checked(sarif_of(each, version="1.0.0"))[-1] for each in (FINDINGS, moved))
    assert old["partialFingerprints"] == new["partialFingerprints"]
