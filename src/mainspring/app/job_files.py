"""Files of a workspace on their way to another machine and back, under the policy of file tools."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mainspring.errors import JobHostError, PathRefused, UsageError
from mainspring.sandbox.files import Files

MAX_FILE = 512 * 1024 * 1024
MAX_FILES = 20_000
MAX_BYTES = 16 * 1024**3
"""What is taken back of one job at most; a small archive may say that its files are huge."""


class PackedFiles(msgspec.Struct, frozen=True):
    """`left_out` are names that were not packed: links, pipes and what the policy hides."""

    count: int = 0
    bytes: int = 0
    left_out: tuple[str, ...] = ()


def relative(path: str) -> str:
    """A path of the workspace as text, without `.`; raises when it leads out of it."""
    text = posixpath.normpath(path)
    if (
        not path
        or "\n" in path
        or "\0" in path
        or posixpath.isabs(text)
        or text.split("/", 1)[0] in ("..", "~")
    ):
        raise UsageError(f"{path!r} is no path in the workspace.", remedy="Name files relative to it.")
    return text


def pack(files: Files, paths: tuple[str, ...], target: Path) -> PackedFiles:
    """Writes these files, and folders with all that is in them, into a tar archive."""
    left_out: list[str] = []
    count = size = 0
    with tarfile.open(target, "w") as archive:
        for name in _files(files, paths, left_out):
            try:
                content = files.read(name, max_bytes=MAX_FILE)
            except PathRefused:
                left_out.append(name)
                continue
            if content.size > MAX_FILE:
                raise UsageError(
                    f"{name} has {content.size:,} bytes; a job is sent at most {MAX_FILE:,} each."
                )
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content.data), content.mode & 0o700
            archive.addfile(entry, io.BytesIO(content.data))
            count, size = count + 1, size + len(content.data)
            if count > MAX_FILES:
                raise UsageError(f"There are more than {MAX_FILES:,} files to send.", remedy="Name fewer.")
    return PackedFiles(count, size, tuple(left_out))


def _files(files: Files, paths: tuple[str, ...], left_out: list[str]) -> Iterator[str]:
    waiting = [relative(path) for path in reversed(paths)]
    while waiting:
        name = waiting.pop()
        if not files.resolve(name).is_dir():
            yield name
            continue
        for entry in reversed(files.entries(name)):
            inside = entry.name if name == "." else f"{name}/{entry.name}"
            if entry.is_link:
                left_out.append(inside)
            else:
                waiting.append(inside)


def unpack(
    archive: Path, wanted: tuple[str, ...], left_out: dict[str, str]
) -> Iterator[tuple[str, bytes, int]]:
    """The regular files of an archive that lie at or below what was wanted: name, content and mode. It comes
    from another machine: of links, devices and other places only the names are kept, in `left_out`."""
    if not archive.exists() or not archive.stat().st_size:
        return
    try:
        yield from _unpacked(archive, wanted, left_out)
    except tarfile.TarError as error:
        raise JobHostError(
            f"What came back is no tar archive: {error}.",
            remedy="A shell there may write something of its own when it begins; only `tar` may write.",
        ) from error


def _unpacked(
    archive: Path, wanted: tuple[str, ...], left_out: dict[str, str]
) -> Iterator[tuple[str, bytes, int]]:
    left = MAX_BYTES
    regular: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(archive, "r:") as opened:
        for listed in opened:
            name = posixpath.normpath(listed.name)
            member = regular.get(listed.linkname) if listed.islnk() else listed
            if member is not None and member.isreg():
                regular[listed.name] = member
            why = "" if listed.isdir() else _refusal(name, member, wanted)
            if why and len(left_out) < MAX_FILES:
                left_out[name.encode("utf-8", "backslashreplace").decode()] = why
            if why or member is None or listed.isdir():
                continue
            left -= member.size
            if left < 0:
                raise UsageError(
                    f"The outputs have more than {MAX_BYTES:,} bytes; the rest was left.",
                    remedy="Have the job pack them, or name fewer.",
                )
            read = opened.extractfile(member)
            if read is not None:
                yield name, read.read(), member.mode & 0o777


def _refusal(name: str, member: tarfile.TarInfo | None, wanted: tuple[str, ...]) -> str:
    """Why something in an archive is not taken; a second name of a file is that file (`member`)."""
    is_wanted = any(name == each or name.startswith(f"{each}/") or each == "." for each in wanted)
    if not is_wanted or name.startswith(("/", "..")):
        return "nobody asked for it"
    if member is None or not member.isreg():
        return "a link, or no regular file"
    if member.size > MAX_FILE:
        return f"more than {MAX_FILE:,} bytes"
    return "its name is no text" if any("\ud800" <= sign <= "\udfff" for sign in name) else ""
