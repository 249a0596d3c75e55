"""Applies a unified diff to several files: all of it, or nothing."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from mainspring.sandbox.files import Content, Version
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import (
    described,
    encoded,
    explained,
    found_at,
    look_at,
    remove_file,
    text_to_change,
    write_file,
)
from mainspring.tools.schema import Arguments

if TYPE_CHECKING:
    from mainspring.tools.diff import FilePatch


class PatchArguments(Arguments, frozen=True):
    patch: Annotated[str, Meta(min_length=1)]


class Change(msgspec.Struct, frozen=True):
    """What becomes of one path: `before` is what stands there, `after` its new bytes (None removes it)."""

    path: str
    before: Content | None
    after: bytes | None
    mode: int | None = None
    assumed: tuple[str, ...] = ()


async def _run(arguments: PatchArguments, place: CallContext) -> Output:
    files = _diff().parse_patch(arguments.patch)
    changes = [change for file in files for change in await _changes(place, file)]
    paths = [place.files.resolve(change.path) for change in changes]
    if twice := next(
        (change.path for change, path in zip(changes, paths, strict=True) if paths.count(path) > 1), ""
    ):
        raise ToolFailed(f"{twice} occurs twice in the patch; nothing was changed. Put its hunks together.")
    await make_changes(place, changes)
    assumed = [f"{change.path}: {told}." for change in changes for told in change.assumed]
    return Output(text="\n".join([*map(_told, files), *assumed]))


async def _changes(place: CallContext, file: "FilePatch") -> list[Change]:
    """What a file's part of the patch does, checked and computed before anything is written."""
    for path in {file.old, file.new} - {""}:
        with explained(path):
            place.files.writable(path)
    if not file.old:
        return [await _creation(place, file)]
    content, decoded = (
        await text_to_change(place, file.old) if file.hunks else (await look_at(place, file.old), None)
    )
    data, assumed = content.data, ()
    if decoded is not None:
        text, assumed = _diff().apply_hunks(decoded.text, file, hide=place.hide)
        data = encoded(decoded, text, file.old)
    if not file.new:
        if file.hunks and data:
            raise ToolFailed(
                f"{file.old}: the patch removes it, but not all of its lines; nothing was changed."
            )
        return [Change(file.old, content, None)]
    if file.new == file.old:
        return [Change(file.old, content, data, assumed=assumed)]
    if await found_at(place, file.new) is not None:
        raise ToolFailed(f"{file.new} exists already; nothing was changed.")
    return [Change(file.new, None, data, content.mode, assumed), Change(file.old, content, None)]


async def _creation(place: CallContext, file: "FilePatch") -> Change:
    if await found_at(place, file.new) is not None:
        raise ToolFailed(f"{file.new} exists already, and the patch creates it; nothing was changed.")
    text, _ = _diff().apply_hunks("", file)
    return Change(file.new, None, text.encode(), 0o755 if file.is_executable else None)


async def make_changes(place: CallContext, changes: list[Change]) -> None:
    """Makes every change, or takes back those that were made before one failed."""
    made: list[Change] = []
    try:
        for change in changes:
            await _put(place, change.path, change.after, change.before and change.before.version, change.mode)
            made.append(change)
    except ToolFailed as error:
        for change in reversed(made):
            before = change.before
            await _put(place, change.path, before and before.data, None, before and before.mode)
        raise ToolFailed(f"{error} Nothing was changed.") from error


async def _put(
    place: CallContext, path: str, data: bytes | None, version: Version | None, mode: int | None
) -> None:
    if data is None:
        await remove_file(place, path, unchanged_since=version)
    else:
        await write_file(place, path, data, unchanged_since=version, mode=mode)


def _told(file: "FilePatch") -> str:
    if not file.old:
        return f"Created {file.new}."
    if not file.new:
        return f"Removed {file.old}."
    count = f" ({len(file.hunks)} hunks)" if file.hunks else ""
    return (
        f"Changed {file.new}{count}." if file.old == file.new else f"Renamed {file.old} to {file.new}{count}."
    )


def _paths(arguments: PatchArguments) -> tuple[str, ...]:
    try:
        files = _diff().parse_patch(arguments.patch)
    except ToolFailed:
        return ()  # the call itself says what is wrong with the patch
    return tuple(dict.fromkeys(path for file in files for path in (file.old, file.new) if path))


def _diff() -> Any:
    return import_module("mainspring.tools.diff")  # reads patches


TOOL = Tool(
    name="patch",
    description=described(Path(__file__)),
    arguments=PatchArguments,
    effect="write",
    paths=_paths,
    run=_run,
)
