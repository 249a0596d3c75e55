"""How risky a change is: a score with its reasons, and whether a person is asked about it. Pure.

The score adds up what is known of a change; what is not known is named and adds nothing. Files at sensitive
paths are asked about whatever the score says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from mainspring.approvals import Mode
from mainspring.approvals.patterns import path_matches
from mainspring.events.counts import plural
from mainspring.workspace.impact import Impact
from mainspring.workspace.parsed_diff import DiffedFile

_ASK_AT: dict[Mode, int] = {"plan": 101, "ask": 80, "edits": 60, "auto": 40, "yolo": 101}
_HIGH, _MEDIUM = 60, 30
_SIZES = ((1500, 30), (500, 20), (200, 10), (50, 5))
_FILES = ((50, 15), (20, 10), (5, 5))
_NAMES = 3


class RiskFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a change. `untested` are added lines of source that no test reached; None when nobody
    knows. `api` are public names that were removed or changed so that callers break, `new_api` the others."""

    files: int = 0
    added: int = 0
    removed: int = 0
    deleted: tuple[str, ...] = ()
    sensitive: Mapping[str, tuple[str, ...]] = {}
    api: tuple[str, ...] = ()
    new_api: tuple[str, ...] = ()
    secrets: int = 0
    untested: int | None = None
    not_known: tuple[str, ...] = ()


class RiskReason(msgspec.Struct, frozen=True):
    """What adds so many points to a score, and why."""

    what: str
    points: int
    detail: str


class Risk(msgspec.Struct, frozen=True, kw_only=True):
    """From 0 to 100, with its reasons, the heaviest first. `sensitive` are files of paths that a person is
    asked about in any case; `not_known` is what the score leaves out."""

    score: int
    level: Literal["low", "medium", "high"]
    reasons: tuple[RiskReason, ...] = ()
    sensitive: tuple[str, ...] = ()
    not_known: tuple[str, ...] = ()


def risk_of(facts: RiskFacts) -> Risk:
    """The score of a change."""
    reasons = sorted(_reasons(facts), key=lambda each: -each.points)
    score = min(sum(each.points for each in reasons), 100)
    level = "high" if score >= _HIGH else "medium" if score >= _MEDIUM else "low"
    unknown = facts.not_known if facts.untested is not None else (*facts.not_known, "which lines tests reach")
    paths = dict.fromkeys(path for each in facts.sensitive.values() for path in each)
    return Risk(
        score=score, level=level, reasons=tuple(reasons), sensitive=tuple(paths), not_known=tuple(unknown)
    )


def why_ask(risk: Risk, mode: Mode, limit: int = 0) -> str:
    """Why a person is asked about a change that was made in a mode; empty when nobody is. A `limit` takes the
    place of the mode's."""
    if risk.sensitive:
        return f"it changes {_some(risk.sensitive)}, about which a person is asked in any case"
    most = limit or _ASK_AT[mode]
    if risk.score >= most:
        return f"its risk is {risk.score} of 100, and a person is asked from {most} on in mode {mode}"
    return ""


def risk_lines(risk: Risk) -> list[str]:
    """A score with its reasons, for people."""
    lines = [f"risk: {risk.score} of 100 ({risk.level})"]
    lines += [f"  +{each.points:<3} {each.what}: {each.detail}" for each in risk.reasons]
    return [*lines, *(f"  not known: {each}" for each in risk.not_known)]


def facts_of_change(
    files: Sequence[DiffedFile],
    *,
    sensitive: Mapping[str, tuple[str, ...]],
    impact: Impact | None = None,
    secrets: int = 0,
    untested: int | None = None,
    not_known: Iterable[str] = (),
) -> RiskFacts:
    """What a diff says, with what else is known of the change."""
    unknown = [*not_known, *(impact.not_read if impact else ("what it reaches",))]
    api = impact.api if impact else ()
    return RiskFacts(
        files=len(files),
        added=sum(len(each.added) for each in files),
        removed=sum(len(each.removed) for each in files),
        deleted=tuple(each.path for each in files if each.is_deleted),
        sensitive=sensitive_in([each.path for each in files], sensitive),
        api=tuple(each.name for each in api if each.semver == "major"),
        new_api=tuple(each.name for each in api if each.semver != "major"),
        secrets=secrets,
        untested=untested,
        not_known=tuple(dict.fromkeys(unknown)),
    )


def sensitive_in(
    paths: Iterable[str], sensitive: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The paths that are sensitive, by what they are."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for what, patterns in sensitive.items():
            if any(path_matches(each, f"/w/{path}", workspace="/w", home="/h") == "yes" for each in patterns):
                found.setdefault(what, []).append(path)
    return {what: tuple(each) for what, each in found.items()}


def _reasons(facts: RiskFacts) -> Iterable[RiskReason]:
    if points := _step(facts.added + facts.removed, _SIZES):
        yield RiskReason("size", points, f"{facts.added} lines added, {facts.removed} removed")
    if points := _step(facts.files, _FILES):
        yield RiskReason("files", points, plural(facts.files, "file"))
    for what, paths in facts.sensitive.items():
        yield RiskReason(what, 25, _some(paths))
    if facts.secrets:
        yield RiskReason(
            "secrets", 40, f"{plural(facts.secrets, 'added line')} with what looks like a secret"
        )
    if facts.api:
        yield RiskReason("public API", 20, f"removed or changed so that callers break: {_some(facts.api)}")
    elif facts.new_api:
        yield RiskReason("public API", 5, f"added or changed: {_some(facts.new_api)}")
    if facts.deleted:
        yield RiskReason("deletions", 20 if len(facts.deleted) > 4 else 10, _some(facts.deleted))
    if facts.untested:
        points = 20 if facts.untested > 50 else 10
        yield RiskReason("untested", points, f"{plural(facts.untested, 'added line')} that no test reaches")


def _step(value: int, steps: Sequence[tuple[int, int]]) -> int:
    return next((points for most, points in steps if value > most), 0)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(names[:_NAMES]) + more
