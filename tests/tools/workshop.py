"""A workspace with tools in it: real files, real processes, calls that go through the toolbox."""

import asyncio
import hashlib
import itertools
import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from mainspring.errors import JournalDamaged
from mainspring.events import Blob, CallAsked, CallEnded, Event, Recorded
from mainspring.folds.processes import Handles, Processes
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.secrets.vault import Vault
from mainspring.tools import MAX_TEXT, CallContext, Output, Tool
from mainspring.tools.toolbox import Toolbox


async def _given(sandbox: Sandbox) -> Sandbox:
    return sandbox


class Workshop:
    """`recorded` and `blobs` are what a journal would hold."""

    def __init__(self, folder: Path, *tools: Tool, path: str | None = None) -> None:
        self.folder = folder / "work"
        self.folder.mkdir(exist_ok=True)
        self.toolbox = Toolbox(tools)
        self.recorded: list[Event] = []
        self.blobs: dict[str, bytes] = {}
        self.results: dict[str, CallEnded] = {}
        self.room = MAX_TEXT
        self.answer = ""
        self.vault = Vault()
        self.processes = Processes()
        self.handles = Handles(folder / "processes", lambda: self.processes)
        self.environment = {**os.environ, **({} if path is None else {"PATH": path})}
        self.home = folder / "home"
        self._numbers = itertools.count(1)

    def path(self, name: str) -> Path:
        return self.folder / name

    def put(self, name: str, data: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def call(self, name: str, **arguments: Any) -> Output:
        return asyncio.run(self.calling(name, **arguments))

    def text(self, name: str, **arguments: Any) -> str:
        """What a call says that must succeed."""
        output = self.call(name, **arguments)
        assert not output.is_error, output.text
        return output.text

    def error(self, name: str, **arguments: Any) -> str:
        """What a call says that must fail."""
        output = self.call(name, **arguments)
        assert output.is_error, output.text
        return output.text

    async def calling(self, name: str, **arguments: Any) -> Output:
        sandbox = await self.sandbox()
        try:
            asked = CallAsked(call="c1", name=name, arguments=msgspec.json.encode(arguments).decode())
            prepared = self.toolbox.prepare(asked)
            if isinstance(prepared, Output):
                return prepared
            return await self.toolbox.run(prepared, self._place(sandbox))
        finally:
            await sandbox.close()

    async def sandbox(self) -> Sandbox:
        return PlainSandbox(environment=self.environment)

    def _place(self, sandbox: Sandbox) -> CallContext:
        return CallContext(
            call=f"c{next(self._numbers)}",
            workspace=self.folder,
            sandbox=partial(_given, sandbox),
            files=Files(policy(self.folder, home=self.home)),
            show=lambda _: None,
            hide=self.vault.redact,
            keep=self._keep,
            kept=self._kept,
            record=self._record,
            ended=self._ended,
            seen=self.toolbox.seen,
            handles=self.handles,
            answer=self.answer,
            room=self.room,
        )

    async def _keep(self, data: bytes, media_type: str) -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        self.blobs[sha256] = data
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def _kept(self, sha256: str) -> bytes:
        if sha256 not in self.blobs:
            raise JournalDamaged("it is missing")
        return self.blobs[sha256]

    async def _record(self, event: Event) -> None:
        self.recorded.append(event)
        self.processes.apply(Recorded(len(self.recorded), 0, event))

    async def _ended(self, calls: Collection[str]) -> Mapping[str, CallEnded]:
        return {call: ended for call, ended in self.results.items() if not calls or call in calls}
