"""Entries of the log of commands in the forms that other systems collect: JSON lines, CEF, and JSON in the
shape of OCSF's class "API Activity" (6003)."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mainspring.events.escaping import escape_json
from mainspring.people.audit import AuditLine
from mainspring.people.operations import OPERATIONS
from mainspring.version import installed_version

ExportFormat = Literal["jsonl", "cef", "ocsf"]
_OCSF_VERSION = "1.3.0"
_CATEGORY, _CLASS = 6, 6003
_ACTIVITIES = {
    "see": (2, "Read"),
    "start": (1, "Create"),
    "approve": (3, "Update"),
    "own": (3, "Update"),
    "manage": (3, "Update"),
}
_OTHER = (99, "Other")
_UNKNOWN = "unknown"


def exported(line: AuditLine, form: ExportFormat) -> bytes:
    """An entry as one line, without its end."""
    match form:
        case "jsonl":
            return escape_json(msgspec.json.encode(line))
        case "ocsf":
            return escape_json(msgspec.json.encode(_ocsf(line)))
        case "cef":
            return _cef(line).encode("utf-8", "backslashreplace")


def _ocsf(line: AuditLine) -> dict[str, Any]:
    entry = line.entry
    is_refused = entry.decision == "refused"
    activity, name = _activity(entry.operation)
    return {
        "activity_id": activity,
        "activity_name": name,
        "category_uid": _CATEGORY,
        "category_name": "Application Activity",
        "class_uid": _CLASS,
        "class_name": "API Activity",
        "type_uid": _CLASS * 100 + activity,
        "time": line.time_us // 1000,
        "severity_id": 3 if is_refused else 1,
        "status_id": 2 if is_refused else 1,
        "status": "Failure" if is_refused else "Success",
        **_given(status_detail=entry.reason),
        "actor": {
            "user": {"name": entry.origin.user or _UNKNOWN},
            **_given(app_name=entry.origin.program),
            "authorizations": [{"decision": entry.decision, **_given(policy=_given(name=entry.rule))}],
        },
        "api": {"operation": entry.operation, "request": {"uid": entry.id}},
        "src_endpoint": {"name": entry.origin.device or _UNKNOWN, **_given(ip=entry.address)},
        "metadata": {
            "version": _OCSF_VERSION,
            "product": {"name": "mainspring", "vendor_name": "mainspring", "version": installed_version()},
            "uid": str(line.seq),
            "log_name": "audit",
        },
        "unmapped": {
            "kind": entry.kind,
            "face": entry.origin.face,
            "token": entry.origin.token,
            "session": entry.session,
            "event": entry.event,
            "arguments": entry.arguments,
            "hash": line.hash,
        },
    }


def _given(**values: Any) -> dict[str, Any]:
    """Those that are not empty: an empty text is no address of a machine, and no name."""
    return {name: value for name, value in values.items() if value}


def _activity(operation: str) -> tuple[int, str]:
    if operation.endswith((" remove", " revoke", " delete", " forget", " prune", " unset")):
        return 4, "Delete"
    return _ACTIVITIES.get(OPERATIONS.get(operation, ""), _OTHER)


def _cef(line: AuditLine) -> str:
    entry = line.entry
    severity = "6" if entry.decision == "refused" else "3"
    head = (
        "CEF:0",
        "mainspring",
        "mainspring",
        installed_version(),
        entry.operation,
        entry.operation,
        severity,
    )
    fields = {
        "rt": str(line.time_us // 1000),
        "externalId": str(line.seq),
        "act": entry.decision,
        "reason": entry.reason,
        "suser": entry.origin.user,
        "shost": entry.origin.device,
        ("c6a2" if ":" in entry.address else "src"): entry.address,
        "c6a2Label": "Source IPv6 Address",
        "requestClientApplication": entry.origin.program,
        "app": entry.origin.face,
        "cs1Label": "rule",
        "cs1": entry.rule,
        "cs2Label": "session",
        "cs2": entry.session,
        "cs3Label": "hash",
        "cs3": line.hash,
        "cs4Label": "arguments",
        "cs4": msgspec.json.encode(entry.arguments).decode() if entry.arguments else "",
        "cs5Label": "kind",
        "cs5": entry.kind,
        "cn1Label": "event",
        "cn1": str(entry.event) if entry.event else "",
    }
    told = {name: value for name, value in fields.items() if fields.get(name.removesuffix("Label"))}
    header = "|".join(each.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ") for each in head)
    return f"{header}|{' '.join(f'{name}={_cef_value(value)}' for name, value in told.items())}"


def _cef_value(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("=", "\\=").replace("\r", "\\r").replace("\n", "\\n")
    return "".join(each if each.isprintable() else f"\\\\x{ord(each):02x}" for each in escaped)
