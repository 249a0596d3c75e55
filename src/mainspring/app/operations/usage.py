"""Who spent what: per person, project, model and day, over all sessions of the store."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import date
from typing import Literal, get_args

import msgspec

from mainspring.app.operations.cost import UnreadableSession
from mainspring.app.stores import sessions_of
from mainspring.catalog import Purpose, SessionRow, Spent
from mainspring.errors import UsageError
from mainspring.settings import Config

UsageKey = Literal["person", "project", "model", "day", "session"]
KEYS: tuple[UsageKey, ...] = get_args(UsageKey)
_COUNTS = (
    *("requests", "input_tokens", "cached_tokens", "output_tokens", "held_tokens"),
    *("usd", "saved_usd", "unsettled", "unpriced"),
)


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent under one combination of keys, in their order, by how many sessions."""

    keys: dict[UsageKey, str]
    sessions: int
    spent: Spent

    def flat(self) -> dict[str, str | int | float]:
        """The same as one level of names, as exports have it."""
        spent = {name: getattr(self.spent, name) for name in _COUNTS}
        keys = {str(name): value for name, value in self.keys.items()}
        return {**keys, "sessions": self.sessions, **spent}


class UsageFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What counts: from a day to a day, both included; of a person; in a project or below it."""

    since: str = ""
    until: str = ""
    person: str = ""
    project: str = ""

    def has(self, purpose: Purpose, workspace: str) -> bool:
        is_in = self.since <= purpose.day and (not self.until or purpose.day <= self.until)
        project = self.project.rstrip("/")
        is_there = not project or workspace == project or workspace.startswith(f"{project}/")
        return is_in and is_there and (not self.person or purpose.person == self.person)


class UsageFound(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[UsageRow, ...]
    unreadable: tuple[UnreadableSession, ...] = ()


async def usage(config: Config, by: Sequence[UsageKey], wanted: UsageFilter) -> UsageFound:
    """What was spent, by these keys; what was reserved and never settled counts as spent."""
    for day in filter(None, (wanted.since, wanted.until)):
        _check_day(day)
    store = sessions_of(config)
    sessions = {row.id: row for row in await store.rows()}
    spent: dict[tuple[str, ...], Spent] = {}
    users: dict[tuple[str, ...], set[str]] = {}
    unreadable: list[UnreadableSession] = []
    for each in await store.spends():
        if each.problem:
            unreadable.append(UnreadableSession(each.id, each.problem))
        row = sessions.get(each.id)
        project = row.folder if row else ""
        for purpose, one in each.spent.items():
            if wanted.has(purpose, project):
                key = tuple(_value(name, purpose, each.id, row) for name in by)
                spent[key] = spent.get(key, Spent()).plus(one)
                users.setdefault(key, set()).add(each.id)
    rows = [
        UsageRow(keys=dict(zip(by, key, strict=True)), sessions=len(users[key]), spent=spent[key])
        for key in sorted(spent)
    ]
    return UsageFound(rows=tuple(rows), unreadable=tuple(unreadable))


def as_csv(by: Sequence[UsageKey], rows: Sequence[UsageRow]) -> str:
    """A table with a head. What a spreadsheet would take for a formula gets an apostrophe."""
    written = io.StringIO()
    table = csv.DictWriter(written, [*by, "sessions", *_COUNTS], lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({name: _harmless(value) for name, value in row.flat().items()})
    return written.getvalue()


def _value(name: UsageKey, purpose: Purpose, session: str, row: SessionRow | None) -> str:
    match name:
        case "person":
            return purpose.person
        case "project":
            return row.folder if row else ""
        case "model":
            return purpose.model
        case "day":
            return purpose.day
        case "session":
            return session


def _harmless(value: object) -> object:
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )


def _check_day(text: str) -> None:
    try:
        is_day = date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(f"{text!r} is not a day.", remedy="Write it like 2026-01-31.")
