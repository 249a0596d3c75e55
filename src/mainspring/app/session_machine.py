"""The commands of a session on another machine: the tool `shell` there, in a copy of the workspace.

A use of a machine begins with the first command, on record and paid for before the machine hears of it, and
is ended with the session. One that is open on record when a session is opened belonged to a process that is
gone: it is ended there before anything else runs.
"""

from __future__ import annotations

import asyncio
import tempfile
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from mainspring.app.workspace_copy import WorkspaceCopy
from mainspring.disk.log import log
from mainspring.errors import JobHostError, MainspringError, UsageError
from mainspring.events import MachineEnded, MachineStarted, StatusDelta
from mainspring.jobs.machines import FoundThere, RemoteMachine
from mainspring.jobs.settings import MachineSettings
from mainspring.jobs.shells import HostShell
from mainspring.sandbox import TIMED_OUT, CommandResult
from mainspring.settings import Config
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.shell import TOOL, ShellArguments, output_of, timeout_of
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import settle_call

_STOPPED_CODE = 143
_OVER = {"silence": "nobody was heard of there for too long", "time": "its time was over"}


class _Use(msgspec.Struct):
    """A use that this process began."""

    started: MachineStarted
    machine: RemoteMachine
    copy: WorkspaceCopy
    runs: int = 0


class SessionMachine:
    """`attach` comes before anything else."""

    def __init__(self, config: Config, name: str) -> None:
        self.name = name
        self._config = config
        self._settings = machine_settings(config, name)
        self._runtime: Runtime | None = None
        self._use: _Use | None = None
        self._beating: asyncio.Task[None] | None = None
        self._changing = asyncio.Lock()

    @property
    def tool(self) -> Tool:
        is_free = self._settings.usd_per_hour == 0
        text = described(Path(__file__))
        return msgspec.structs.replace(
            TOOL,
            description=f"{text} The machine: {self.name}.",
            hosts=self._hosts,
            cost_usd=None if is_free else self._cost_usd,
            is_elsewhere=True,
            run=self._run,
        )

    def attach(self, runtime: Runtime) -> None:
        self._runtime = runtime

    @property
    def runtime(self) -> Runtime:
        if self._runtime is None:
            raise UsageError("Nobody can run commands for this session now.")
        return self._runtime

    @asynccontextmanager
    async def beside(self) -> AsyncGenerator[None]:
        """Everything there is ended when the session is left."""
        await self._try_to_end_uses()
        try:
            yield
        finally:
            await self._try_to_end_uses()

    async def _try_to_end_uses(self) -> None:
        try:
            async with self._changing:
                await self._end_uses()
        except MainspringError as error:  # it stays open on record, and is tried again when next opened
            log("machine not left", machine=self.name, error=error.message)
            more = f" What runs there ends after {self._settings.silence_minutes:g} minutes of silence."
            self.runtime.show(StatusDelta(text=f"{error.message}{more}"))

    def _hosts(self, _: ShellArguments) -> tuple[str, ...]:
        return (self.name,)

    def _cost_usd(self, arguments: ShellArguments) -> float | None:
        """The first command of a use pays for all of it."""
        return 0.0 if self._use or arguments.background else self._price(self._limit_s())

    def _price(self, seconds: float) -> float | None:
        hourly = self._settings.usd_per_hour
        return None if hourly is None else hourly * seconds / 3600

    def _limit_s(self) -> float:
        limits = self.runtime.limits
        scopes = (limits.turn, limits.session, limits.goal)
        caps = (limits.timeout_s, *(each.time_s for each in scopes), self._settings.max_hours * 3600)
        return min(cap for cap in caps if cap is not None)

    async def _run(self, arguments: ShellArguments, place: CallContext) -> Output:
        if arguments.background:
            raise ToolFailed(
                f"Commands on {self.name} run in the foreground only; nothing was run. Long work elsewhere"
                " is for jobs: look for submit_job with find_tools."
            )
        timeout_s = timeout_of(arguments)
        async with self._changing:
            try:
                use = await self._begun(place)
                with tempfile.TemporaryDirectory(prefix="mainspring-machine-") as scratch:
                    output = await self._run_there(use, arguments, timeout_s, place, Path(scratch))
            except MainspringError as error:
                text = " ".join(filter(None, (error.message, error.remedy, "Nothing was run.")))
                output = Output(text=text, is_error=True)
                await self._forget_use()
            is_paying = any(each.call == place.call for each in self.runtime.state.jobs.uses.values())
            return msgspec.structs.replace(output, cost_usd=0.0, is_going_on=is_paying)

    async def _begun(self, place: CallContext) -> _Use:
        if self._use is not None:
            return self._use
        await self._end_uses()
        limit_s, count = self._limit_s(), self.runtime.state.jobs.use_count + 1
        started = MachineStarted(
            use=f"m{count}",
            name=f"ms-{self.runtime.state.session}-m{count}",
            machine=self.name,
            call=place.call,
            time_limit_s=limit_s,
            usd=self._price(limit_s),
        )
        await self.runtime.record(started)
        machine = await self._machine(started)
        self._use = _Use(started, machine, WorkspaceCopy(place.files, self._settings.leave_out))
        await machine.begin(limit_s)
        self._beating = asyncio.create_task(self._beat(machine))
        return self._use

    async def _run_there(
        self, use: _Use, arguments: ShellArguments, timeout_s: float, place: CallContext, scratch: Path
    ) -> Output:
        await self._send(use, scratch)
        use.runs += 1
        decoder = getincrementaldecoder("utf-8")("replace")
        finished = await use.machine.run(
            use.runs, arguments.command, timeout_s, lambda chunk: place.show(decoder.decode(chunk))
        )
        try:
            found = await self._take(use, scratch)
        except JobHostError as error:
            await self._forget_use()
            text = (
                f"{error.message} Whether the command ran to its end on {self.name} is unknown, and what it"
                " changed there has not come back. It was not run again."
            )
            return await output_of(_unfinished(finished, text), arguments, place)
        if found.over:
            await self._end_uses()
        notices = use.copy.told()
        return await output_of(self._ended(finished, found, timeout_s), arguments, place, *notices)

    def _ended(self, finished: CommandResult, found: FoundThere, timeout_s: float) -> CommandResult:
        """What is told of a command, as the machine itself says that it ended."""
        replace = msgspec.structs.replace
        why = _OVER.get(found.over.partition(" ")[2], "")
        over = f"everything there was ended: {why}" if why else ""
        match found.end:
            case "never":
                return _unfinished(finished, f"nothing was run; {over or 'it could not begin'}")
            case "timed_out":
                return replace(
                    finished, exit_code=_STOPPED_CODE, stopped=f"{TIMED_OUT} after {timeout_s:g} s"
                )
            case "lost":
                text = "the connection was lost; what ran there was ended. It was not run again"
                return _unfinished(finished, text)
            case code:
                return replace(finished, exit_code=int(code) if code.isdigit() else 1, stopped=over)

    async def _send(self, use: _Use, scratch: Path) -> None:
        archive = scratch / "sent.tar"
        sent = await asyncio.to_thread(use.copy.pack, archive)
        if sent.is_empty:
            return
        use.copy.sent(sent, await use.machine.put(archive, use.runs, scratch / "sent"))

    async def _take(self, use: _Use, scratch: Path) -> FoundThere:
        found = await use.machine.look(use.runs, scratch / "listed")
        wanted = use.copy.wanted(found)
        names, archive = scratch / "names", scratch / "taken.tar"
        if wanted:
            names.write_bytes(b"".join(f"./{name}\0".encode() for name in wanted))
            await use.machine.fetch(names, archive)
        await asyncio.to_thread(use.copy.take, found, archive)
        return found

    async def _beat(self, machine: RemoteMachine) -> None:
        """Says again and again that the session lives."""
        while True:
            await asyncio.sleep(self._settings.silence_minutes * 15)
            try:
                await machine.beat()
            except JobHostError as error:
                log("no sign of life sent", machine=self.name, error=error.message)

    async def _forget_use(self) -> None:
        """Nobody knows how things are there: the use is open on record, and ended before another begins."""
        use, beating = self._use, self._beating
        self._use = self._beating = None
        if beating is not None:
            beating.cancel()
            await asyncio.wait({beating})
        if use is not None:
            await use.machine.close()

    async def _end_uses(self) -> None:
        """Ends every use that is open on record, and settles what it cost."""
        await self._forget_use()
        for started in tuple(self.runtime.state.jobs.uses.values()):
            machine = await self._machine(started)
            try:
                known = await machine.end()
            finally:
                await machine.close()
            ran_s, why = known or (0.0, "never_begun")
            usd = started.usd
            if usd is not None and started.time_limit_s:
                usd = min(usd * ran_s / started.time_limit_s, usd)
            ended = MachineEnded(use=started.use, why=why, ran_s=ran_s, usd=usd)
            await settle_call(self.runtime, started.call, usd, ended)

    async def _machine(self, started: MachineStarted) -> RemoteMachine:
        outside = self.runtime.workbench.reach.outside
        if outside is None:
            raise UsageError("This session cannot reach other machines.")
        settings = machine_settings(self._config, started.machine)
        shell = HostShell(outside, self._config.key_environment, settings.host, settings.ssh_options)
        return RemoteMachine(shell, settings, started.name)


def machine_settings(config: Config, name: str) -> MachineSettings:
    """What the settings say of a machine; `UsageError` when they do not name it."""
    settings = config.settings.machines.get(name)
    if settings is None:
        names = ", ".join(config.settings.machines) or "none"
        raise UsageError(
            f"There is no machine {name!r}.", remedy=f"Those of [machines] in config.toml: {names}."
        )
    if not settings.host:
        raise UsageError(f"[machines.{name}] has no `host`.", remedy='Set it, as `host = "me@gpu1"`.')
    return settings


def _unfinished(finished: CommandResult, why: str) -> CommandResult:
    return msgspec.structs.replace(finished, exit_code=finished.exit_code or 1, stopped=why.rstrip("."))
