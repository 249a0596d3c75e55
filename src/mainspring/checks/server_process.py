"""The process of a language server, in the sandbox, without a network and without a place to write.

A document is shown to it only as long as it is what lies on the disk, so that what it says of other files is
about these; what it says of an older version is dropped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from mainspring import __version__
from mainspring.checks import MAX_BYTES, NotChecked
from mainspring.checks.diagnostics import (
    DiagnosticReport,
    PublishedDiagnostics,
    ServerReadiness,
    TsAnswer,
    WantedSettings,
)
from mainspring.checks.lsp import LspConnection, LspRefused
from mainspring.checks.programs import last_line
from mainspring.checks.server_facts import SERVER_STATUS, ServerFacts
from mainspring.disk.untrusted import read_start
from mainspring.errors import SandboxError
from mainspring.sandbox import Command, Sandbox
from mainspring.sandbox.policy import Confinement
from mainspring.sandbox.programs import confined_to_reading
from mainspring.sandbox.streams import conversation, reading

_LIFE_S = 30 * 24 * 3600.0
_MAX_OPEN = 20
_AGAIN = (-32801, -32802)  # the content was modified meanwhile; the server cancelled
_MAX_AGAIN = 5
_CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "configuration": True,
        "workspaceFolders": True,
        "didChangeWatchedFiles": {"dynamicRegistration": True},
        "workspaceEdit": {"documentChanges": True},
    },
    "textDocument": {
        "synchronization": {},
        "publishDiagnostics": {"versionSupport": True},
        "diagnostic": {"dynamicRegistration": True},
        "documentSymbol": {"hierarchicalDocumentSymbolSupport": True},
        "definition": {},
        "references": {},
        "rename": {},
    },
    "experimental": {"serverStatusNotification": True},
}


class _Document(msgspec.Struct):
    """What the server was shown of a file, and what the file's status was then."""

    text: str
    status: tuple[int, int] | None = None


class LanguageServerProcess:
    """The process, and what was said to it."""

    def __init__(
        self, facts: ServerFacts, program: Path, confinement: Confinement, sandbox: Sandbox, root: str = ""
    ) -> None:
        self._facts = facts
        self._place = confinement.workspace
        self._root = self._place / root
        self._sandbox = sandbox
        self._command = Command(
            argv=(str(program), *facts.arguments),
            cwd=self._root,
            timeout_s=_LIFE_S,
            env=facts.environment,
            policy=confined_to_reading(confinement, program=program),
            is_whole=True,
        )
        self._connected: asyncio.Future[LspConnection] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live())
        self._beginning = asyncio.create_task(self._begin())
        self._is_pulling = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._documents: dict[str, _Document] = {}
        self._versions = 0
        self._awaited: tuple[str, int, asyncio.Future[list[Any]]] | None = None

    @property
    def is_over(self) -> bool:
        return self._life.done() or (self._connected.done() and bool(self._connection.ended))

    @property
    def _connection(self) -> LspConnection:
        return self._connected.result()

    async def begun(self) -> None:
        """Returns when the server has answered the first question; that goes on although we are cancelled."""
        await asyncio.shield(self._beginning)

    async def _begin(self) -> None:
        root = self._root.as_uri()
        await asyncio.wait([self._connected, self._life], return_when=asyncio.FIRST_COMPLETED)
        if not self._connected.done():
            await self._life
        answer = await self._connection.ask(
            "initialize",
            {
                "processId": None,
                "clientInfo": {"name": "mainspring", "version": __version__},
                "rootUri": root,
                "workspaceFolders": [{"uri": root, "name": self._root.name}],
                "capabilities": _CAPABILITIES,
                "initializationOptions": self._facts.options,
            },
        )
        offered: dict[str, Any] = msgspec.convert(answer, dict[str, Any]).get("capabilities") or {}
        if offered.get("diagnosticProvider"):
            self._is_pulling.set()
        if not self._facts.waits_for:
            self._is_ready.set()
        self._connection.tell("initialized", {})

    async def diagnose(self, path: str, text: str) -> list[Any]:
        """What it finds in a text that the file at `path` has or had."""
        await self._is_ready.wait()
        self._forget_outdated()
        version = self._show(path, text)
        try:
            return await self._diagnostics(self._place / path, version)
        finally:
            self._forget_unless_on_disk(path)

    async def ask_about(self, path: str, text: str, method: str, params: Mapping[str, Any]) -> Any:
        """The answer to a question about a file that holds this text."""
        await self._is_ready.wait()
        self._forget_outdated()
        shown = self._documents.get(path)
        if shown is None or shown.text != text:
            self._show(path, text)
        try:
            document = {"uri": (self._place / path).as_uri()}
            return await self.ask(method, {"textDocument": document, **params})
        finally:
            self._forget_unless_on_disk(path)

    def changed(self, kinds: Mapping[str, int]) -> None:
        told = [{"uri": (self._place / path).as_uri(), "type": kind} for path, kind in kinds.items()]
        if told and self._connected.done():
            self._connection.tell("workspace/didChangeWatchedFiles", {"changes": told})

    async def end(self) -> None:
        self._life.cancel()
        self._beginning.cancel()
        result, _ = await asyncio.gather(self._life, self._beginning, return_exceptions=True)
        if isinstance(result, Exception):
            raise result  # a fault of ours

    async def ask(self, method: str, params: Any) -> Any:
        """The answer; asked again where the server says that it knew too late of a change."""
        for _ in range(_MAX_AGAIN):
            try:
                return await self._connection.ask(method, params)
            except LspRefused as error:
                if error.code not in _AGAIN:
                    raise
                await asyncio.sleep(0.05)
        raise NotChecked("it gave no answer that was not outdated")

    async def _live(self) -> None:
        """Runs the server to its end, however that comes."""
        async with reading() as (reader, printed), conversation() as (writer, given):
            connection = LspConnection(reader, writer, self._asked, self._told)
            command = msgspec.structs.replace(self._command, stdin=given, stdout=printed)
            running = asyncio.create_task(self._sandbox.run(command))
            listening = asyncio.create_task(connection.listen())
            why = "it was ended"
            try:
                self._connected.set_result(connection)
                await asyncio.wait([running, listening], return_when=asyncio.FIRST_COMPLETED)
                why = _how(running) if running.done() else listening.result()
            finally:
                connection.end(why)
                self._is_ready.set()  # whoever waits for it asks now, and hears why it ended
                self._is_pulling.set()
                for task in (running, listening):
                    task.cancel()
                await asyncio.gather(running, listening, return_exceptions=True)
                os.close(printed)

    async def _diagnostics(self, file: Path, version: int) -> list[Any]:
        if self._facts.asks_tsserver:
            return await self._from_tsserver(file)
        if not self._is_pulling.is_set():
            pushed: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
            self._awaited = (str(file), version, pushed)
            pulling = asyncio.create_task(self._is_pulling.wait())
            try:
                await asyncio.wait([pushed, pulling], return_when=asyncio.FIRST_COMPLETED)
                if pushed.done():
                    return pushed.result()
            finally:
                pulling.cancel()
                self._awaited = None
        report = await self.ask("textDocument/diagnostic", {"textDocument": {"uri": file.as_uri()}})
        return msgspec.convert(report, DiagnosticReport).items

    async def _from_tsserver(self, file: Path) -> list[Any]:
        found: list[Any] = []
        for command in ("syntacticDiagnosticsSync", "semanticDiagnosticsSync"):
            params = {"command": "typescript.tsserverRequest", "arguments": [command, {"file": str(file)}]}
            found += msgspec.convert(await self.ask("workspace/executeCommand", params), TsAnswer).items
        return found

    def _show(self, path: str, text: str) -> int:
        """Shows the server a text as what a file holds; gives the version that this is."""
        if (shown := self._documents.get(path)) and shown.text == text:
            self._forget(path)  # what does not change is not looked at again
        self._versions += 1
        uri, version = (self._place / path).as_uri(), self._versions
        if path in self._documents:
            named = {"uri": uri, "version": version}
            self._connection.tell(
                "textDocument/didChange", {"textDocument": named, "contentChanges": [{"text": text}]}
            )
        else:
            language = next(name for end, name in self._facts.languages.items() if path.endswith(end))
            item = {"uri": uri, "languageId": language, "version": version, "text": text}
            self._connection.tell("textDocument/didOpen", {"textDocument": item})
        self._documents.pop(path, None)
        self._documents[path] = _Document(text)
        return version

    def _forget(self, path: str) -> None:
        del self._documents[path]
        uri = (self._place / path).as_uri()
        self._connection.tell("textDocument/didClose", {"textDocument": {"uri": uri}})

    def _forget_unless_on_disk(self, path: str) -> None:
        shown, status = self._documents[path], _status(self._place / path)
        if status and shown.text.encode() == self._content(path):
            shown.status = status
        else:
            self._forget(path)

    def _forget_outdated(self) -> None:
        """Closes documents that are not what lies on the disk, and the oldest when there are many."""
        for path, shown in [*self._documents.items()]:
            if len(self._documents) >= _MAX_OPEN or shown.status != _status(self._place / path):
                self._forget(path)

    def _content(self, path: str) -> bytes:
        try:
            return read_start(self._place / path, max_bytes=MAX_BYTES + 1, root=self._place)
        except OSError:
            return b""

    def _asked(self, method: str, params: Any) -> Any:
        match method:
            case "workspace/configuration":
                return [None] * len(msgspec.convert(params, WantedSettings).items)
            case "client/registerCapability":
                if method == self._facts.waits_for:
                    self._is_ready.set()
                if "textDocument/diagnostic" in str(params):
                    self._is_pulling.set()
                return None
            case "workspace/applyEdit":
                return {"applied": False}
            case "workspace/workspaceFolders":
                return [{"uri": self._place.as_uri(), "name": self._place.name}]
            case "client/unregisterCapability" | "window/workDoneProgress/create":
                return None
            case _ if method.startswith("workspace/") and method.endswith("/refresh"):
                return None
            case _:
                raise KeyError(method)

    def _told(self, method: str, params: Any) -> None:
        if method == SERVER_STATUS and msgspec.convert(params, ServerReadiness).quiescent:
            self._is_ready.set()
        if method == "textDocument/publishDiagnostics" and self._awaited:
            path, version, pushed = self._awaited
            told = msgspec.convert(params, PublishedDiagnostics)
            if told.version == version and path_in(told.uri) == path and not pushed.done():
                pushed.set_result(told.diagnostics)


def _how(running: asyncio.Task[Any]) -> str:
    if running.cancelled():
        return "it was ended"
    if error := running.exception():
        if isinstance(error, SandboxError):
            return error.message
        raise error
    done = running.result()
    said = f": {last_line(done.stderr)}" if done.stderr.strip() else ""
    return f"it ended ({done.stopped or f'exit code {done.exit_code}'}){said}"


def path_in(uri: str) -> str:
    """The path that an address of a file means; nothing where it is none."""
    try:
        return unquote(urlsplit(uri).path)
    except ValueError:
        return ""


def _status(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
