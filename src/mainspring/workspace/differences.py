"""What a difference between two looks at a file is called in an event, and which contents go with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence

from mainspring.events import Blob, FileChange, FileState
from mainspring.workspace.tree import NOT_TEXT, Difference, TreeEntry, is_text

_MAX_CALL_BYTES = 256_000_000
_BATCH_BYTES = 16_000_000


def is_change(item: Difference) -> bool:
    old, new = item.old, item.new
    if old is None or new is None:
        return old is not new
    if old.mode != new.mode:
        return True
    if old.is_folder:
        return bool(new.reason) and (old.inode, old.mtime_ns) != (new.inode, new.mtime_ns)
    if old.content or new.content:
        is_same_file = (old.ctime_ns, old.inode) == (new.ctime_ns, new.inode)
        return old.content != new.content and not (is_same_file and not old.content)
    return (old.size, old.mtime_ns, old.inode) != (new.size, new.mtime_ns, new.inode)


def is_uncovered(item: Difference) -> bool:
    """Whether it is a folder that is not looked into, or has a name that no event can hold."""
    entry = item.new or item.old
    return not is_text(item.path) or (entry is not None and entry.is_folder and bool(entry.reason))


def note(item: Difference) -> str:
    entry = item.new or item.old
    shown = os.fsencode(item.path).decode("utf-8", "backslashreplace")
    return f"{shown} ({(entry.reason if entry else '') or NOT_TEXT})"


def describe(item: Difference, blobs: Mapping[str, Blob]) -> FileChange:
    before, after = _state(item.old, blobs), _state(item.new, blobs)
    if before is None:
        return FileChange(path=item.path, kind="created", after=after)
    if after is None:
        return FileChange(path=item.path, kind="deleted", before=before)
    is_mode_only = (before.kind, before.blob) == (after.kind, after.blob) and before.reason == after.reason
    is_mode_only = is_mode_only and before.mode != after.mode
    return FileChange(path=item.path, kind="mode" if is_mode_only else "modified", before=before, after=after)


def _state(entry: TreeEntry | None, blobs: Mapping[str, Blob]) -> FileState | None:
    if entry is None:
        return None
    mode = stat.S_IMODE(entry.mode)
    if entry.is_folder:
        return FileState(kind="folder", mode=mode)
    kind = "link" if entry.is_link else "file" if entry.is_file else "other"
    blob = blobs.get(entry.content)
    sha256 = entry.content if blob and blob.sha256 != entry.content else ""
    reason = entry.reason
    if blob is None and not reason:
        reason = "its content was no longer there, or too much changed in one call"
    reason = "" if blob else reason
    return FileState(kind=kind, mode=mode, size=entry.size, blob=blob, sha256=sha256, reason=reason)


def with_renames(changes: Sequence[FileChange], found: Sequence[Difference]) -> list[FileChange]:
    """A file that went away here and came there, the same file with the same content, was renamed."""
    inodes = {item.path: (item.new or item.old) for item in found}
    gone = {
        (entry.inode, change.before.content_sha256): change
        for change in changes
        if change.kind == "deleted" and change.before and change.before.blob
        if (entry := inodes[change.path])
    }
    renamed: dict[str, FileChange] = {}
    for change in changes:
        entry = inodes[change.path]
        if change.kind == "created" and change.after and change.after.blob and entry:
            old = gone.pop((entry.inode, change.after.content_sha256), None)
            if old is not None:
                renamed[old.path] = old
                renamed[change.path] = FileChange(
                    path=change.path,
                    kind="renamed",
                    renamed_from=old.path,
                    before=old.before,
                    after=change.after,
                )
    merged = [renamed.get(change.path, change) for change in changes]
    return [change for change in merged if not (change.kind == "deleted" and change.path in renamed)]


def batches(changes: Iterable[Difference]) -> list[list[str]]:
    """The contents to keep, in portions that fit into memory, and no more than one call may add."""
    sizes: dict[str, int] = {}
    for change in changes:
        for entry in (change.old, change.new):
            if entry is not None and entry.content:
                sizes[entry.content] = entry.size
    portions: list[list[str]] = []
    room = total = 0
    for sha256, size in sizes.items():
        total += size
        if total > _MAX_CALL_BYTES:
            break
        if size > room or not portions:
            portions.append([])
            room = _BATCH_BYTES
        portions[-1].append(sha256)
        room -= size
    return portions
