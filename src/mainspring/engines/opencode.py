"""OpenCode: `opencode run --format json`. A call is told when it has ended; each step has its price."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from mainspring.engines.facts import EngineDescription, EngineFolders, EngineTask
from mainspring.engines.messages import (
    Called,
    Failed,
    Item,
    Named,
    Outage,
    Returned,
    Spoken,
    Thought,
    Used,
    joined,
    outage_of,
)
from mainspring.events import Usage


class _Cache(msgspec.Struct, frozen=True):
    read: int = 0
    write: int = 0


class _Tokens(msgspec.Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: _Cache = _Cache()


class _State(msgspec.Struct, frozen=True):
    status: str = ""
    input: Any = None
    output: Any = None
    error: Any = None
    metadata: dict[str, Any] = {}


class _Part(msgspec.Struct, frozen=True, rename={"call_id": "callID"}):
    id: str = ""
    text: str = ""
    tool: str = ""
    call_id: str = ""
    state: _State = _State()
    cost: float | None = None
    tokens: _Tokens = _Tokens()


class _Line(msgspec.Struct, frozen=True, rename={"session_id": "sessionID"}):
    type: str
    session_id: str = ""
    part: _Part = _Part()
    error: Any = None


_LINE = msgspec.json.Decoder(_Line)


class OpencodeReader:
    def __init__(self) -> None:
        self._is_named = False

    def read(self, line: bytes) -> Iterator[Item]:
        said = _LINE.decode(line)
        if said.session_id and not self._is_named:
            self._is_named = True
            yield Named(said.session_id)
        part = said.part
        match said.type:
            case "text":
                yield Spoken(part.text)
            case "reasoning":
                yield Thought(part.text)
            case "tool_use":
                yield Called(part.call_id or part.id, part.tool, part.state.input)
                yield _returned(part)
            case "step_finish":
                yield Used(_usage(part.tokens), part.cost, key=part.id or "step")
            case "error":
                yield Failed(_reason(said.error), outage=_outage(said.error))
            case _:
                pass


def _returned(part: _Part) -> Returned:
    state = part.state
    code = state.metadata.get("exit")
    exit_code = code if isinstance(code, int) else None
    is_error = state.status == "error" or exit_code not in (0, None)
    output = joined(state.error) if state.status == "error" else joined(state.output)
    return Returned(part.call_id or part.id, output, is_error, exit_code)


def _usage(tokens: _Tokens) -> Usage:
    return Usage(
        input_tokens=tokens.input + tokens.cache.read + tokens.cache.write,
        cached_tokens=tokens.cache.read,
        cache_write_tokens=tokens.cache.write,
        output_tokens=tokens.output + tokens.reasoning,
        reasoning_tokens=tokens.reasoning,
    )


def _reason(error: Any) -> str:
    if not isinstance(error, dict):
        return joined(error) or "it said that it failed"
    data: Any = error.get("data")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    message: Any = data.get("message") if isinstance(data, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return str(message or error.get("message") or error.get("name") or "it said that it failed")  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _outage(error: Any) -> Outage:
    data: Any = error.get("data") if isinstance(error, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return outage_of(data.get("statusCode")) if isinstance(data, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def _command_line(task: EngineTask) -> tuple[str, ...]:
    options = ["run", "--format", "json", "--thinking"]
    if task.mode == "plan":
        options += ["--agent", "plan"]
    elif task.is_confined or task.mode == "yolo":
        options.append("--auto")
    if task.model:
        options += ["--model", task.model]
    if task.effort:
        options += ["--variant", task.effort]
    if task.conversation:
        options += ["--session", task.conversation]
    return tuple(options)


def _state(home: Path, environment: Mapping[str, str]) -> EngineFolders:
    usual = {
        "XDG_DATA_HOME": ".local/share",
        "XDG_CONFIG_HOME": ".config",
        "XDG_STATE_HOME": ".local/state",
        "XDG_CACHE_HOME": ".cache",
    }
    folders = (Path(environment.get(name) or home / folder) for name, folder in usual.items())
    return EngineFolders(folders=tuple(folder / "opencode" for folder in folders))


FACTS = EngineDescription(
    name="opencode",
    title="OpenCode",
    program="opencode",
    install="npm install -g opencode-ai",
    arguments=_command_line,
    reader=OpencodeReader,
    state=_state,
    variables=(
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "XDG_STATE_HOME",
    ),
    reports_cost=True,
    takes_effort=True,
)
