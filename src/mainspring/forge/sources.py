"""Which files get a page: those that a grammar reads and nothing hides. What is ignored, hidden by the policy
or holds what looks like a secret is never sent to a model; each file that is left out is told."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import msgspec

from mainspring.checks import MAX_BYTES, NotChecked
from mainspring.checks.grammars import OUTLINED
from mainspring.checks.syntax import Syntax
from mainspring.errors import PathRefused, UsageError
from mainspring.events.counts import plural
from mainspring.forge.page_checks import words_in
from mainspring.forge.values import SourceFile, SourceOutline
from mainspring.sandbox.files import Files
from mainspring.tools.walk import Listing, walked
from mainspring.turns.runtime import Runtime
from mainspring.workspace.affected import is_test, tests_of

_MAX_TEST_BYTES = 256 * 1024


class ChosenSources(msgspec.Struct, frozen=True):
    """The files to write about; those that are left out, each with the reason; and every name that the
    project has, for checking what is said."""

    files: tuple[SourceFile, ...]
    left_out: tuple[str, ...]
    names: frozenset[str]


class _LeftOut(Exception):
    """Why a file gets no page."""


async def choose_sources(runtime: Runtime, syntax: Syntax, paths: Sequence[str]) -> ChosenSources:
    """The files under these paths of the workspace, or all of it; `UsageError` for one that is not there."""
    files = runtime.workbench.files
    listing = await asyncio.to_thread(_listed, files)
    listed = listing.paths
    wanted, left_out = _wanted(files, listed, paths, listing.unnamed)
    tests = [path for path in listed if is_test(path)]
    found: list[SourceFile] = []
    for path in wanted:
        try:
            file = await _read(runtime, syntax, path)
        except _LeftOut as error:
            left_out.append(f"{path}: {error}")
            continue
        mine = await asyncio.to_thread(tests_of, path, tests, lambda name: _text(files, name))
        found.append(msgspec.structs.replace(file, tests=tuple(name for name in mine if name != path)))
    defined = {part for each in found for item in each.outline.definitions for part in item.name.split(".")}
    return ChosenSources(tuple(found), tuple(left_out), frozenset(_path_words(listed)) | defined)


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def _read(runtime: Runtime, syntax: Syntax, path: str) -> SourceFile:
    try:
        data = (await asyncio.to_thread(runtime.workbench.files.read, path, max_bytes=MAX_BYTES + 1)).data
    except (OSError, PathRefused) as error:
        raise _LeftOut(str(error)) from error
    if len(data) > MAX_BYTES:
        raise _LeftOut(f"it has more than {MAX_BYTES >> 20} MiB")
    if not data.strip():
        raise _LeftOut("it is empty")
    if await asyncio.to_thread(runtime.recorder.vault.holds_secrets, data):
        raise _LeftOut("it holds what looks like a secret, so it is not sent to a model")
    try:
        text = data.decode("utf-8")
        outline = msgspec.convert(await syntax.outline(path, data), SourceOutline)
    except UnicodeDecodeError as error:
        raise _LeftOut("it is not UTF-8") from error
    except NotChecked as error:
        raise _LeftOut(str(error)) from error
    return SourceFile(path, text, content_hash(data), outline)


def _listed(files: Files) -> Listing:
    """All files that are neither ignored nor hidden."""
    listing = walked(files, files.policy.workspace)
    if listing.is_cut:
        raise UsageError("The workspace has too many files to list.", remedy="Begin in a smaller folder: -C.")
    return listing


def _wanted(
    files: Files, listed: Sequence[str], paths: Sequence[str], unnamed: int
) -> tuple[list[str], list[str]]:
    """The files with a grammar below the paths; tests only where they are named themselves."""
    found: dict[str, None] = {}
    left_out: list[str] = []
    skipped = 0
    for path in paths or [""]:
        name = _relative(files, path)
        below = [each for each in listed if not name or each == name or each.startswith(f"{name}/")]
        if not below:
            left_out.append(f"{name}: it is ignored, hidden or empty, so nothing of it is sent to a model")
        for each in below:
            if PurePosixPath(each).suffix.lower() not in OUTLINED:
                left_out += [f"{each}: no grammar tells what it defines"] if each == name else []
            elif is_test(each) and each != name:
                skipped += 1
            else:
                found[each] = None
    if unnamed:
        left_out.append(f"{plural(unnamed, 'file')}: the name is not UTF-8")
    if skipped:
        left_out.append(f"{plural(skipped, 'test')}: name them to have pages about them")
    return list(found), left_out


def _relative(files: Files, path: str) -> str:
    if not path:
        return ""
    place = files.policy.workspace
    whole = os.path.normpath(place / path)
    if not os.path.lexists(whole):
        raise UsageError(f"There is no {path} in {place}.", remedy="Give files or folders of the project.")
    name = os.path.relpath(whole, place)
    if name.startswith(".."):
        raise UsageError(f"{path} is not in {place}.", remedy="Give files or folders of the project, or -C.")
    return "" if name == "." else name


def _text(files: Files, path: str) -> str:
    try:
        return files.read(path, max_bytes=_MAX_TEST_BYTES).data.decode("utf-8", "replace")
    except (OSError, PathRefused):
        return ""  # a test that cannot be read names nothing


def _path_words(paths: Sequence[str]) -> Iterator[str]:
    for path in paths:
        yield from words_in(path)
