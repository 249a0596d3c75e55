"""A time machine at work, for tests: what is kept goes into a dict instead of a journal."""

import asyncio
import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mainspring.events import Blob, FileChange, FilesChanged
from mainspring.workspace.restore import apply, conflicts, plan
from mainspring.workspace.snapshots import Snapshots


class Watched:
    def __init__(self, root: Path, cache: Path, **options: Any) -> None:
        self.root = root
        self.kept: dict[str, bytes] = {}
        self.machine = Snapshots(root, cache, environment=dict(os.environ), **options)
        self.loop = asyncio.new_event_loop()

    def call(self, act: Callable[[], Any], name: str = "c1") -> FilesChanged | None:
        """What a call that does this changes."""
        self.loop.run_until_complete(self.machine.begin(name))
        act()
        return self.loop.run_until_complete(self.machine.end([name], self.keep))

    def changes(self, act: Callable[[], Any]) -> dict[str, FileChange]:
        changed = self.call(act)
        return {change.path: change for change in changed.changes} if changed else {}

    def run(self, awaitable: Any) -> Any:
        return self.loop.run_until_complete(awaitable)

    async def keep(self, contents: Sequence[tuple[bytes, str]]) -> list[Blob]:
        blobs = [Blob(hashlib.sha256(data).hexdigest(), len(data), kind) for data, kind in contents]
        self.kept |= {blob.sha256: data for blob, (data, _) in zip(blobs, contents, strict=True)}
        return blobs

    def content(self, state: Any) -> bytes:
        return self.kept[state.blob.sha256]

    def put_back(self, *changed: FilesChanged) -> None:
        going = plan(changed)
        assert not going.foreign
        assert not going.lost
        assert conflicts(self.root, going.steps) == []
        for step in going.steps:
            data = self.content(step.then) if step.then and step.then.blob else b""
            assert apply(self.root, step, data)

    def close(self) -> None:
        self.run(self.machine.close())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()


def picture(root: Path) -> dict[str, tuple[Any, ...]]:
    """Everything below a folder, without git's own data."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.split("/", maxsplit=1)[0] == ".git":
            continue
        mode = path.lstat().st_mode
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("folder", mode)
        else:
            found[name] = ("file", mode, path.read_bytes())
    return found
