"""Writes a golden journal with every kind of event, every field set, as an export and as a SQLite file.

    python tests/journals/make_golden.py v1/NAME

The events are made from their types, so a new event or field needs nothing here. A golden journal is never
written again: give a new name when there are new kinds or new fields.
"""

import asyncio
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.catalog.transfer import export
from mainspring.events import STORED, Blob, SessionStarted, Unknown
from mainspring.events.base import JsonText, Sha256
from mainspring.journal import tables

PLAIN: dict[Any, Any] = {int: 7, float: 2.5, bytes: b"bytes", Sha256: "ab" * 32, JsonText: '{"path":"a.py"}'}


def value(hint: Any, name: str, default: Any, blob: Blob) -> Any:
    """A value of a type that is not its default: what is left at its default is not written down."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if hint is bool:
        return not default
    if hint in (str, Any):
        return f"{name}: Ünïcode ✓\nand a second line"
    if hint is Blob:
        return blob
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return build(hint, blob)
    if origin is Annotated:
        return value(arguments[0], name, default, blob)
    if origin is Literal:
        return next(each for each in reversed(arguments) if each != default)
    if origin in (Union, types.UnionType):
        return value(next(each for each in arguments if each is not types.NoneType), name, default, blob)
    if origin is tuple:
        item = arguments[0]
        is_union = get_origin(item) in (Union, types.UnionType)
        return tuple(value(each, name, None, blob) for each in (get_args(item) if is_union else (item,)))
    if origin is dict:
        return {value(arguments[0], name, None, blob): value(arguments[1], name, None, blob)}
    raise TypeError(f"{name} is of the type {hint}: say here what a value of it looks like")


def build(kind: Any, blob: Blob) -> Any:
    fields = msgspec.structs.fields(kind)
    return kind(**{field.name: value(field.type, field.name, field.default, blob) for field in fields})


async def write(store: SqliteSessions, session: str) -> None:
    journal = await store.create(session)
    blob = await journal.put(b"a line of output\n" * 2000, "text/plain")
    events = [build(kind, blob) for kind in STORED if kind is not SessionStarted]
    started = msgspec.structs.replace(build(SessionStarted, blob), session=session)
    unknown = Unknown(kind="FromTheFuture", body=msgspec.Raw(b'{"new":[1,2.50,null]}'))
    await journal.append(started, *events, unknown)
    await journal.close()


def golden(name: str) -> None:
    to = Path(__file__).parent / name
    exported, copied = to.with_suffix(".jsonl"), to.with_suffix(".sqlite")
    if exported.exists() or copied.exists():
        sys.exit(f"{name} exists: golden journals are never written again")
    to.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        store = SqliteSessions(Path(home))
        asyncio.run(write(store, to.name))
        file = store.shelf.file(to.name)
        with exported.open("xb") as lines:
            export(file, lines)
        file.close()
        shutil.copyfile(store.directory(to.name) / tables.FILE_NAME, copied)


if __name__ == "__main__":
    golden(sys.argv[1])
