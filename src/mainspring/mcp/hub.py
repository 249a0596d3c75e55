"""The servers of a session: their states, their tools from the manifest cache, and starting them when needed.

Nothing here makes a session wait: servers that are not known yet start in the background, a call waits a
moment for its server and is then told how it stands, while the same start goes on up to its limit.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Self
from weakref import WeakValueDictionary

import msgspec

from mainspring.errors import MainspringError
from mainspring.mcp import wire
from mainspring.mcp.link import BrokerLink, McpFailed, Unasked
from mainspring.mcp.manifest import Manifest, keep_manifest, load_manifest
from mainspring.mcp.process import ServerProcess
from mainspring.mcp.servers import McpServer
from mainspring.mcp.status import ServerStatus, StatusFile
from mainspring.mcp.tokens import token_file
from mainspring.net.proxies import PROXY_VARIABLES
from mainspring.sandbox import Confinement, Sandbox

WAIT_S = 20.0
"""How long a call waits for a server that is starting."""

AGAIN_S = 10.0
"""How long a session believes what a server said to another one, or how it failed there; a call asks anew."""

Ask = Callable[[wire.ServerAsks], Awaitable[wire.AnswerServer]]


class ServerEntry:
    """One server: how it stands, what it offers, and the task that starts it."""

    def __init__(self, server: McpServer, manifest: Manifest | None) -> None:
        self.server = server
        self.manifest = manifest
        self.status = ServerStatus(state="known" if manifest else "configured", since=time.time())
        self.process: ServerProcess | None = None
        self.starting: asyncio.Task[None] | None = None
        self.noise = ""

    @property
    def offers(self) -> wire.Offers:
        return self.manifest.offers if self.manifest else wire.Offers()


_LEARNERS: WeakValueDictionary[tuple[Path, str], ServerEntry] = WeakValueDictionary()
"""Who heard last what a server offers, by data folder and server, as long as its session is open."""


class Listener(msgspec.Struct, frozen=True):
    """Who made a request, and hears what its server says meanwhile."""

    on_progress: Callable[[wire.ServerProgress], None]
    ask: Ask | None = None


class McpHub:
    """`choose_sandbox` is asked when the first command is started. `on_change` hears of every new state."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        *,
        home: Path,
        environment: Mapping[str, str],
        policy: Confinement,
        choose_sandbox: Callable[[], Awaitable[Sandbox]],
        on_change: Callable[[str, ServerStatus], None] = lambda _name, _status: None,
    ) -> None:
        self._home = home
        self._policy = policy
        self._environment = environment
        self._choose_sandbox = choose_sandbox
        self._sandbox: asyncio.Task[Sandbox] | None = None
        self._link = BrokerLink(environment, self._hear)
        self._proxies = {name: environment[name] for name in PROXY_VARIABLES if name in environment}
        self._listeners: dict[int, Listener] = {}
        self._answering: set[asyncio.Task[None]] = set()
        self._visit: Callable[[str], Awaitable[dict[str, str]]] | None = None
        self.on_change = on_change
        self.entries = {server.label: ServerEntry(server, load_manifest(home, server)) for server in servers}

    async def __aenter__(self) -> Self:
        """Begins to start what is not known, or not known to be still so, in the background."""
        now = time.time()
        for entry in self.entries.values():
            if entry.manifest is None or entry.manifest.is_stale(now):
                entry.starting = asyncio.create_task(self._learn(entry))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends every server and the broker."""
        tasks = [entry.starting for entry in self.entries.values() if entry.starting]
        for task in (*tasks, *self._answering):
            task.cancel()
        if tasks or self._answering:
            await asyncio.wait([*tasks, *self._answering])
        await self._link.close()
        for entry in self.entries.values():
            if entry.process:
                await entry.process.end()
            StatusFile(self._home, entry.server).forget()
        if self._sandbox is not None:
            (chosen,) = await asyncio.gather(self._sandbox, return_exceptions=True)
            if not isinstance(chosen, BaseException):
                await chosen.close()

    def start(self, entry: ServerEntry) -> asyncio.Task[None]:
        """Starts a server, unless that is under way or done."""
        is_usable = entry.starting and (not entry.starting.done() or entry.status.state == "ready")
        if entry.starting is None or not is_usable:
            entry.starting = asyncio.create_task(self._start(entry))
        return entry.starting

    async def ready(self, entry: ServerEntry, *, within_s: float = WAIT_S) -> None:
        """Returns when the server answers; raises `McpFailed` when it does not, or not yet."""
        task = self.start(entry)
        await asyncio.wait([task], timeout=within_s)
        status = entry.status
        if task.done() and status.state == "known":  # by what it said to another session
            await self.ready(entry, within_s=within_s)
            return
        if not task.done():
            after = time.time() - status.since
            raise McpFailed(
                "connection", f"it is still starting after {after:.0f} s{_tail(entry)}; try later"
            )
        if status.state != "ready":
            raise McpFailed("auth" if status.state == "needs-auth" else "connection", status.detail)

    async def ask(
        self, entry: ServerEntry, message: wire.ToBroker, listener: Listener | None = None
    ) -> bytes:
        """The answer of a server that is started when it has to be. Its time limit begins anew with each word
        of progress."""
        await self.ready(entry)
        number = self._link.reserve()
        limit_s = entry.server.settings.timeout_s
        try:
            async with asyncio.timeout(limit_s) as limit:
                loop = asyncio.get_running_loop()

                def on_progress(progress: wire.ServerProgress) -> None:
                    limit.reschedule(loop.time() + limit_s)
                    if listener:
                        listener.on_progress(progress)

                async def ask(asked: wire.ServerAsks) -> wire.AnswerServer:
                    limit.reschedule(None)  # a person takes as long as they take
                    try:
                        if listener is None or listener.ask is None:
                            return wire.AnswerServer(key=asked.key, action="cancel")
                        return await listener.ask(asked)
                    finally:
                        if number in self._listeners:  # else the call is over
                            limit.reschedule(loop.time() + limit_s)

                self._listeners[number] = Listener(on_progress, ask)
                return await self._link.ask(msgspec.structs.replace(message, id=number))
        except TimeoutError as error:
            raise McpFailed("connection", f"it did not answer within {limit_s:g} s{_tail(entry)}") from error
        finally:
            self._listeners.pop(number, None)

    async def _learn(self, entry: ServerEntry) -> None:
        """Starts a server to hear what it offers, unless another session of this process does so or just did:
        what is heard there counts here too."""
        key = (self._home, entry.server.sha256)
        while (other := _LEARNERS.get(key)) is not None and (task := other.starting) is not None:
            if task.get_loop() is not asyncio.get_running_loop():
                break
            self._tell(entry, ServerStatus(state="starting", since=time.time()))
            await asyncio.wait([task])
            if other is not _LEARNERS.get(key):
                continue
            status = other.status
            is_told = status.state in ("ready", "failed", "needs-auth")
            if not is_told or time.time() - status.since > AGAIN_S:
                break
            if status.state == "ready":
                entry.manifest, status = other.manifest, ServerStatus(state="known", since=time.time())
            self._tell(entry, status)
            return
        _LEARNERS[key] = entry
        await self._start(entry)

    async def _start(self, entry: ServerEntry) -> None:
        self._set(entry, "starting")
        limit_s = entry.server.settings.start_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await self._connect(entry)
                answer = await self._link.ask(wire.ListOffers(server=entry.server.label))
                offers = msgspec.json.decode(answer, type=wire.Offers)
            entry.manifest = await asyncio.to_thread(keep_manifest, self._home, entry.server, offers)
            self._set(entry, "ready")
        except TimeoutError:
            await self._fail(entry, "failed", f"it did not answer within {limit_s:g} s")
        except McpFailed as error:
            await self._fail(entry, "needs-auth" if error.reason == "auth" else "failed", error.message)
        except (MainspringError, OSError) as error:
            await self._fail(entry, "failed", str(error))

    async def log_in(
        self, entry: ServerEntry, redirect_url: str, visit: Callable[[str], Awaitable[dict[str, str]]]
    ) -> None:
        """Connects anew to a server over HTTP, with a person who visits an address where that is needed."""
        self._visit = visit
        await self._connect(entry, redirect_url)
        await self._list_again(entry)
        self._set(entry, "ready")

    async def _connect(self, entry: ServerEntry, redirect_url: str = "") -> None:
        server, settings = entry.server, entry.server.settings
        kind = settings.kind
        message = wire.ConnectServer(
            server=server.label,
            transport=kind,
            url=settings.url,
            headers=settings.headers,
            proxies=self._proxies if kind != "stdio" else {},
            token_file=str(token_file(self._home, server.sha256)) if kind != "stdio" else "",
            client_id=settings.client_id,
            client_secret=settings.client_secret,
            is_login=bool(redirect_url),
            redirect_url=redirect_url,
        )
        if kind != "stdio":
            await self._link.ask(message)
            return
        if entry.process:
            await entry.process.end()
        entry.process = ServerProcess(server, self._policy, self._environment)
        pipes = entry.process.start(await self.sandbox())
        try:
            await self._link.ask(message, pipes)
        finally:
            for descriptor in pipes:
                os.close(descriptor)

    async def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = asyncio.ensure_future(self._choose_sandbox())
        return await asyncio.shield(self._sandbox)

    async def _fail(self, entry: ServerEntry, state: str, detail: str) -> None:
        await self._link.tell(wire.DisconnectServer(server=entry.server.label))
        exited = await entry.process.end() if entry.process else ""
        self._set(entry, state, f"{exited or detail}{_tail(entry)}")

    def _hear(self, message: Unasked) -> None:
        match message:
            case wire.ServerProgress():
                if listener := self._listeners.get(message.id):
                    listener.on_progress(message)
            case wire.ServerAsks():
                task = asyncio.ensure_future(self._answer(message))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            case wire.ServerLost() | wire.OffersChanged() | wire.ServerNoise():
                if entry := self.entries.get(message.server):
                    self._note(entry, message)

    def _note(
        self, entry: ServerEntry, message: wire.ServerLost | wire.OffersChanged | wire.ServerNoise
    ) -> None:
        match message:
            case wire.ServerNoise():
                entry.noise = entry.noise or message.text
            case wire.ServerLost() if entry.status.state == "ready":
                entry.starting = None
                self._set(entry, "failed", f"{message.detail}{_tail(entry)}")
            case wire.OffersChanged() if entry.status.state == "ready":
                entry.starting = asyncio.create_task(self._list_again(entry))
            case _:
                pass

    async def _list_again(self, entry: ServerEntry) -> None:
        try:
            answer = await self._link.ask(wire.ListOffers(server=entry.server.label))
            offers = msgspec.json.decode(answer, type=wire.Offers)
            entry.manifest = await asyncio.to_thread(keep_manifest, self._home, entry.server, offers)
        except McpFailed:
            return  # what it offered before counts on

    async def _answer(self, asked: wire.ServerAsks) -> None:
        if asked.url and not asked.id and self._visit:
            content = await self._visit(asked.url)
            await self._link.tell(wire.AnswerServer(key=asked.key, action="accept", content=content))
            return
        listener = self._listeners.get(asked.id)
        refused = wire.AnswerServer(key=asked.key, action="cancel")
        answer = await listener.ask(asked) if listener and listener.ask else refused
        await self._link.tell(answer)

    def _set(self, entry: ServerEntry, state: str, detail: str = "") -> None:
        status = ServerStatus(state=state, since=time.time(), detail=detail, pid=os.getpid())
        StatusFile(self._home, entry.server).write(status)
        self._tell(entry, status)

    def _tell(self, entry: ServerEntry, status: ServerStatus) -> None:
        entry.status = status
        self.on_change(entry.server.name, status)


def _tail(entry: ServerEntry) -> str:
    """What a server printed that may say why: a line that is no message, and the end of its stderr."""
    said: list[str] = []
    if entry.noise:
        said.append(f"it printed a line that is not of the protocol: {entry.noise.strip()!r}")
    if entry.process and (stderr := entry.process.stderr_tail):
        said.append(f"its standard error ends with: {stderr}")
    return "".join(f"; {each}" for each in said)
