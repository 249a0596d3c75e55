"""What language servers say about a document, read without trusting it."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mainspring.events import CheckFinding

_MAX_FINDINGS = 200
_MAX_MESSAGE = 400
_SEVERITIES: dict[int, Literal["error", "warning"]] = {1: "error", 2: "warning"}


class DiagnosticReport(msgspec.Struct):
    """The answer to `textDocument/diagnostic`."""

    items: list[Any]


class PublishedDiagnostics(msgspec.Struct):
    """What a server says of a document unasked."""

    uri: str
    diagnostics: list[Any] = []
    version: int | None = None


class WantedSettings(msgspec.Struct):
    """Settings that a server asks for."""

    items: list[Any] = []


class ServerReadiness(msgspec.Struct):
    """Whether a server has read the project."""

    quiescent: bool = False


class _TsPlace(msgspec.Struct):
    line: int


class _TsItem(msgspec.Struct):
    start: _TsPlace
    text: str
    category: str = "error"
    code: int = 0


class TsAnswer(msgspec.Struct):
    """The answer of tsserver, whose lines begin at 1."""

    body: list[_TsItem] = []

    @property
    def items(self) -> list[Any]:
        return [
            {
                "range": {"start": {"line": item.start.line - 1}},
                "message": item.text,
                "code": f"TS{item.code}",
                "severity": {"error": 1, "warning": 2}.get(item.category, 4),
            }
            for item in self.body
        ]


class _Start(msgspec.Struct):
    line: int


class _Range(msgspec.Struct):
    start: _Start


class _Diagnostic(msgspec.Struct):
    range: _Range
    message: str
    severity: int | None = None
    code: int | str | None = None


def findings_in(by: str, items: list[Any]) -> list[CheckFinding]:
    """The errors and warnings among diagnostics; raises what msgspec does where one cannot be read."""
    return [found for item in items[:_MAX_FINDINGS] if (found := _finding(by, item))]


def _finding(by: str, item: Any) -> CheckFinding | None:
    """None for a hint."""
    found = msgspec.convert(item, _Diagnostic)
    severity = _SEVERITIES.get(found.severity or 1)
    if severity is None:
        return None
    return CheckFinding(
        by=by,
        rule=str(found.code)[:_MAX_MESSAGE] if found.code is not None else by,
        line=max(0, min(found.range.start.line, 1 << 30)) + 1,
        message=" ".join(found.message.split())[:_MAX_MESSAGE],
        severity=severity,
    )
