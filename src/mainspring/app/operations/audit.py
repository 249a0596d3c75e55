"""The log of commands: read, verified, exported, and made shorter without breaking its chain."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from mainspring.app.stores import audit_log_of
from mainspring.disk.ids import new_id
from mainspring.disk.untrusted import read_untrusted_lines
from mainspring.errors import UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.journal.chained_log import LogHead, LogLine, keep_head, kept_heads
from mainspring.people.audit import AuditCheck, AuditEntry, AuditLine, audit_line, check_lines
from mainspring.people.audit_exports import ExportFormat, exported
from mainspring.people.settings import MOST_DAYS
from mainspring.settings import Config

_DAY_US = 24 * 3600 * 1_000_000
_MAX_LINE_BYTES = 1 << 20
_ANCHORED_AS = "audit"


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was dropped: how many entries, up to which number, and the hash that the chain goes on from."""

    entries: int
    until: int = 0
    hash: str = ""


async def audit_lines(
    config: Config, *, since_us: int = 0, operation: str = "", user: str = "", refused: bool = False
) -> AsyncGenerator[AuditLine]:
    """The entries, the oldest first, of an operation (or of all whose name begins with these words)."""
    async for line in audit_log_of(config).read():
        found = audit_line(line) if line else None
        if found is None or found.time_us < since_us:
            continue
        is_meant = not operation or f"{found.entry.operation} ".startswith(f"{operation} ")
        is_theirs = not user or found.entry.origin.user == user
        if is_meant and is_theirs and (not refused or found.entry.decision == "refused"):
            yield found


async def export_audit(config: Config, form: ExportFormat, *, since_us: int = 0) -> AsyncGenerator[bytes]:
    """The entries as lines of a form that other systems collect."""
    async for line in audit_lines(config, since_us=since_us):
        yield exported(line, form) + b"\n"


async def verify_audit(config: Config, against: Path | None = None) -> AuditCheck:
    """Follows the chain, and compares it with what was kept elsewhere: the daily lines, if the settings name
    a file for them, and an earlier export."""
    log = audit_log_of(config)
    head = await log.head()
    anchored = kept_heads(config.daily_anchor, _ANCHORED_AS) if config.daily_anchor else []
    known = [*anchored, *(_exported(against) if against else ())]
    return await check_lines(log.read(), head, known)


async def prune_audit(config: Config, older_than_days: float) -> Pruned:
    """Drops the entries that are older, after a checkpoint that says so, from which the chain can still be
    verified. Nothing is dropped from a log that is not sound."""
    log = audit_log_of(config)
    checked = await check_lines(log.read(), await log.head())
    if checked.problems:
        raise UsageError(
            f"The audit log is not sound: {checked.problems[0]}.",
            remedy="Nothing was dropped. `mainspring audit verify` says more.",
        )
    before_us = time.time_ns() // 1000 - int(min(older_than_days, MOST_DAYS) * _DAY_US)
    last: LogLine | None = None
    async for line in log.read():
        if line is None or line.time_us >= before_us:
            break
        last = line
    if last is None:
        return Pruned(entries=0)
    entry = AuditEntry(
        id=new_id(),
        kind="checkpoint",
        operation="audit prune",
        origin=config.origin,
        dropped_seq=last.seq,
        dropped_hash=last.hash,
    )
    await log.add([msgspec.json.encode(entry)])
    await anchor_audit(config)
    return Pruned(entries=await log.drop(last.seq), until=last.seq, hash=last.hash)


async def anchor_audit(config: Config) -> None:
    """Adds a line about the log to the daily lines, if the settings name a file for them."""
    if config.daily_anchor is not None and (head := await audit_log_of(config).head()).seq:
        keep_head(config.daily_anchor, _ANCHORED_AS, head)


def _exported(path: Path) -> list[LogHead]:
    try:
        lines = list(read_untrusted_lines(path, max_line_bytes=_MAX_LINE_BYTES))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error
    try:
        return [msgspec.json.decode(line, type=LogHead) for line in lines if line.strip()]
    except DECODE_ERRORS as error:
        raise UsageError(
            f"{path} is no export of the audit log: {error}.",
            remedy="Give a file that `mainspring audit export --format jsonl` wrote.",
        ) from error
