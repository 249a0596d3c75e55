"""What every outside agent has in common: the model that stands for it, what it is told, where it may write,
and what a person must say before it runs.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.approvals import Mode, Proposed, why_asked
from mainspring.approvals.permit import Blocked, Permitted, Refused, Stopped, Wanted, permit
from mainspring.engines.facts import EngineDescription, EngineTask
from mainspring.engines.settings import EngineSettings
from mainspring.errors import UsageError
from mainspring.events import EngineChosen
from mainspring.models import Attachment, Message, Price, Request, StreamItem, UserMessage
from mainspring.net.proxies import PROXY_VARIABLES
from mainspring.sandbox import Command, Confinement, Sandbox
from mainspring.sandbox.policy import PRIVATE_FOLDERS, Network
from mainspring.turns.endings import End, closed_calls
from mainspring.turns.runtime import Runtime
from mainspring.turns.spend import allowance, left_usd

_VERSION_WITHIN_S = 30.0
_INTERRUPTED = (
    "You were interrupted while you worked on what follows. Look at what is done already, then go on.\n\n"
)


class _Encoded(msgspec.Struct, frozen=True):
    """A message as this house keeps it, since no wire is asked for one; only what a user said is read."""

    user: UserMessage | None = None
    other: Any = None


class OutsideModel:
    """Stands for whatever model an outside agent uses: it has a name and perhaps a price, and is never asked.
    `own_name` is what the agent itself calls it."""

    context_tokens = None

    def __init__(self, engine: str, own_name: str = "", price: Price | None = None) -> None:
        self.name = f"{engine}/{own_name}" if own_name else engine
        self.own_name = own_name
        self.price = price

    def encode(self, message: Message) -> bytes:
        is_user = isinstance(message, UserMessage)
        return msgspec.json.encode(_Encoded(user=message) if is_user else _Encoded(other=message))

    def media_problem(self, _attachment: Attachment, /) -> str:
        return ""

    async def stream(self, request: Request) -> AsyncGenerator[StreamItem]:
        del request
        raise UsageError(
            f"{self.name} takes whole turns and cannot be asked for one reply.",
            remedy="Go on with another engine: --engine builtin --model MODEL.",
        )
        yield  # which makes this a stream

    async def close(self) -> None:
        return


class Outside(msgspec.Struct, frozen=True, kw_only=True):
    """An outside agent as it is set up here. `command` begins with the whole path of its program. `price_of`
    knows the price of a model by the agent's own name of it."""

    name: str
    facts: EngineDescription
    command: tuple[str, ...]
    settings: EngineSettings
    environment: Mapping[str, str]
    model: OutsideModel
    price_of: Callable[[str], Price | None] = lambda _model: None

    def variables(self, sandbox: Sandbox) -> dict[str, str]:
        wanted = (*PROXY_VARIABLES, *self.facts.variables, *self.settings.env)
        passed = {name: self.environment[name] for name in wanted if name in self.environment}
        return {**passed, **(self.facts.confined_variables if sandbox.is_containing else {})}

    def confinement(self, policy: Confinement) -> Confinement:
        """The session's own, with the agent's state, and the network that it needs to reach its provider."""
        home = Path(self.environment.get("HOME") or "/")
        place = self.facts.state(home, self.environment)
        folders = [*place.folders, *(Path(folder).expanduser() for folder in self.settings.writable)]
        for folder in place.folders:
            folder.mkdir(parents=True, exist_ok=True)
        files = [path for path in (*place.files, *folders) if path.exists()]
        own = tuple(dict.fromkeys(path.resolve() for path in files))
        shown = [Path(path).expanduser() for path in self.settings.readable]
        program = Path(self.command[0])
        if any(program.is_relative_to(folder) for folder in PRIVATE_FOLDERS):
            shown.append(program.parent)
        return msgspec.structs.replace(
            policy,
            network=Network("full"),
            writable=(*policy.writable, *own),
            readable=(*policy.readable, *own, *(path.resolve() for path in shown)),
        )

    def conversation(self, runtime: Runtime) -> str:
        """The one that this turn goes on with, or nothing."""
        is_continued = self.settings.conversation and runtime.state.engine.engine == self.name
        return runtime.state.engine.conversation if is_continued else ""

    def task(self, runtime: Runtime, sandbox: Sandbox, reserved_usd: float) -> EngineTask:
        """`reserved_usd` is what is set aside for this very run; in a goal it is all that the run may take,
        unless its price is known and it is counted as it goes."""
        left = left_usd(runtime)
        is_share = left is not None and runtime.state.has_goal and self._is_counted_late
        return EngineTask(
            workspace=runtime.state.workspace,
            mode=cast("Mode", runtime.state.mode),
            is_confined=sandbox.is_containing,
            model=self.model.own_name,
            conversation=self.conversation(runtime),
            effort=runtime.state.effort or "",
            left_usd=None if left is None else reserved_usd if is_share else left + reserved_usd,
        )

    @property
    def _is_counted_late(self) -> bool:
        return self.facts.reports_cost and self.model.price is None

    @property
    def is_here(self) -> bool:
        return Path(self.command[0]).exists()

    @property
    def missing(self) -> End:
        """The end of a turn whose program is not there."""
        return End("failed", f"The program {self.command[0]} of the engine {self.name} is gone.", self.remedy)

    @property
    def remedy(self) -> str:
        return remedy(self.name, self.facts)


def remedy(name: str, facts: EngineDescription) -> str:
    """How a program comes here, or where it is said to be."""
    other = f'say where it is: command = ["/path/to/it"] in [engines.{name}] of config.toml'
    return f"Install it ({facts.install}), or {other}." if facts.install else "Check the command's name."


async def prepare(runtime: Runtime, outside: Outside) -> tuple[Sandbox, Confinement] | End:
    """The sandbox and the policy of a run; calls of a process that died are closed, and who takes this turn
    is on record."""
    await runtime.record(*closed_calls(runtime))
    sandbox = await runtime.sandbox()
    if sandbox.name == "container":
        text = f"The engine {outside.name} is a program of this machine, which is not in a container's image."
        return End("failed", text, "Use another sandbox: --sandbox bwrap or --sandbox landlock.")
    if not outside.is_here:
        return outside.missing
    if end := await _permit(runtime, outside, sandbox):
        return end
    policy = outside.confinement(runtime.workbench.files.policy)
    known = runtime.state.engine
    if (known.engine, known.program) != (outside.name, outside.command[0]):
        version = await version_of(outside, sandbox, policy) if outside.facts.has_version else ""
        chosen = EngineChosen(engine=outside.name, program=outside.command[0], version=version)
        await runtime.record(chosen)
    return sandbox, policy


async def version_of(outside: Outside, sandbox: Sandbox, policy: Confinement) -> str:
    """What the program says of itself; nothing when it does not say it soon."""
    command = Command(
        argv=(*outside.command, "--version"),
        cwd=policy.workspace,
        env=outside.variables(sandbox),
        timeout_s=_VERSION_WITHIN_S,
        policy=policy,
        max_output_bytes=4096,
        is_whole=True,
    )
    done = await sandbox.run(command)
    lines = done.stdout.decode(errors="replace").split("\n") if done.exit_code == 0 else [""]
    return lines[0].strip()[:80]


async def _permit(runtime: Runtime, outside: Outside, sandbox: Sandbox) -> End | None:
    """A turn of an outside agent is judged as a whole: what it does inside it is not asked one by one."""
    is_reading = runtime.state.mode == "plan" and sandbox.is_containing
    proposed = Proposed(
        tool="engine",
        effect="read" if is_reading else "execute",
        arguments={"engine": outside.name},
        workspace=str(runtime.state.workspace),
        session=runtime.state.session,
        is_contained=sandbox.is_containing,
        is_exact=True,
        allowance=allowance(runtime),
    )
    wanted = Wanted(
        call=f"turn{runtime.state.turn}",
        action=None,
        proposed=proposed,
        about=f"{outside.name} works unasked through a whole turn: ",
    )
    match await permit(runtime.approvals, wanted):
        case Permitted():
            return None
        case Refused("rule", reason):
            detail = f"A whole turn of {outside.name} needs a person's yes: {reason}."
            return End("failed", detail, "Choose another mode, or a sandbox that confines it.")
        case Refused(_, reason):
            return End("interrupted", f"The turn of {outside.name} was not begun: {reason}.")
        case Stopped():
            return End("interrupted", f"A person stopped the turn before {outside.name} began it.")
        case Blocked(question):
            detail = f"A whole turn needs a person's yes: {why_asked(question)}."
            remedy = f"Answer with `mainspring approve {runtime.state.session}`, or resume with --mode auto."
            return End("blocked", detail, remedy)


async def prompt_of(runtime: Runtime) -> str:
    """What was said and is not answered: that and nothing else is what an outside agent is told."""
    encoded = await runtime.history.messages(runtime.recorder.get_blob)
    messages = [msgspec.json.decode(message, type=_Encoded) for message in encoded]
    said: list[UserMessage] = []
    is_interrupted = False
    for message in reversed(messages):
        if message.user is not None:
            said.insert(0, message.user)
        elif any(not each.text.startswith("[note from ") for each in said):
            break
        else:
            is_interrupted = True
    text = "\n\n".join(map(_with_names, said))
    return _INTERRUPTED + text if is_interrupted else text


def _with_names(message: UserMessage) -> str:
    names = [f"[attached, and not passed on: {each.name or each.media_type}]" for each in message.attachments]
    return "\n".join([message.text, *names])
