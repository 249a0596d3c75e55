"""What a program calls for one answer: a prompt, or a command without an agent; each blocking and async."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

import msgspec

from mainspring.app import build
from mainspring.app.arguments import (
    ALLOW_HOME,
    APPROVER,
    CHECK,
    COMMAND,
    CONFIG,
    COUNT,
    NAME,
    OPTIONAL_PATH,
    PATH,
    SECONDS,
    TEXT,
    check_arguments,
)
from mainspring.app.blocking import blocking
from mainspring.app.operations.attempts import attempted_reply
from mainspring.app.operations.commands import load_command, load_output
from mainspring.app.operations.usual_attempts import usual_attempts
from mainspring.app.private import own_config
from mainspring.app.step import run_command
from mainspring.app.toolset import ToolChoice
from mainspring.app.workspaces import AllowHome
from mainspring.approvals import Policy
from mainspring.approvals.questions import Approver
from mainspring.catalog import Sessions
from mainspring.events import Effort, Limits, Origin, Profile
from mainspring.models import Model
from mainspring.sandbox import MIB, Sandbox
from mainspring.session.reply import Reply
from mainspring.session.session import Session
from mainspring.settings import Config
from mainspring.turns.runtime import Engine


class OpenOptions(TypedDict, total=False):
    """The options of `mainspring.open`."""

    session: str
    engine: Engine | str
    model: Model | str
    fallback: Sequence[Model | str]
    effort: Effort | None
    profile: Profile | None
    mode: str
    limits: Limits | None
    instructions: str
    system_prompt: str | None
    tools: Sequence[ToolChoice]
    output: Any
    sandbox: Sandbox | str
    policy: Policy | None
    approver: Approver | None
    allow_unpriced: bool
    allow_home: AllowHome
    parent: Session | None
    config: Config | None
    sessions: Sessions | None
    origin: Origin | None


async def run_async(
    prompt: str,
    workspace: Path | str = ".",
    *,
    attempts: int | None = None,
    check: str | Sequence[str] = (),
    **options: Unpack[OpenOptions],
) -> Reply:
    """Opens a session (see `open`), says the prompt, and gives the answer. With `attempts` or a `check` (a
    command line, or several) the prompt is tried so often, each time from the same files, until every check
    exits with 0; else the best attempt is kept, and the answer is not done. Unset, `attempts` is 1, or what
    `mainspring run` takes for a small model in a project with tests."""
    check_arguments(locals(), prompt=TEXT, check=CHECK)
    checks = (check,) if isinstance(check, str) else tuple(check)
    async with build.open(workspace, **options) as session:
        checks = tuple(filter(None, checks))
        is_usual = attempts is None and not checks
        if attempts is None:
            attempts = await usual_attempts(session, prompt) if is_usual else 1
        if attempts == 1 and not checks:
            return await session.ask(prompt)
        return await attempted_reply(session, prompt, attempts=attempts, checks=checks, is_usual=is_usual)


run = blocking(run_async)


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command. `state` is its outcome: `ok`, `error` or `refused`, and `reason` says why.
    `step` is the id under which `mainspring execs show` has it."""

    step: str
    state: str
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    reason: str
    label: str = ""

    @property
    def is_ok(self) -> bool:
        return self.state == "ok"


async def run_step_async(
    argv: Sequence[str],
    *,
    cwd: Path | str = ".",
    timeout_s: float | None = None,
    cpu_s: int | None = None,
    memory_mb: int | None = None,
    template: str = "",
    label: str = "",
    keep: Path | str | None = None,
    allow_home: AllowHome = False,
    approver: Approver | None = None,
    config: Config | None = None,
) -> StepResult:
    """Runs one command without an agent: judged by the policy, confined, recorded before and after. Limits
    that are not given are the template's. With `keep`, its output and its record are also written there, as
    `stdout`, `stderr` and `step.json`. `allow_home` is as for `open`."""
    check_arguments(
        locals(),
        argv=COMMAND,
        cwd=PATH,
        timeout_s=SECONDS,
        cpu_s=COUNT,
        memory_mb=COUNT,
        template=NAME,
        label=NAME,
        keep=OPTIONAL_PATH,
        allow_home=ALLOW_HOME,
        approver=APPROVER,
        config=CONFIG,
    )
    config = config or own_config()
    step = await run_command(
        argv,
        folder=cwd,
        template=template,
        timeout_s=timeout_s,
        cpu_s=cpu_s,
        memory_bytes=memory_mb and memory_mb * MIB,
        label=label,
        allow_home=allow_home,
        approver=approver,
        config=config,
    )
    record = await load_command(config, step)
    stdout, stderr = await load_output(config, record)
    if keep is not None:
        await asyncio.to_thread(_keep, Path(keep), stdout, stderr, msgspec.json.encode(record))
    return StepResult(
        step=step,
        state=record.state,
        exit_code=record.exit_code,
        stdout=stdout,
        stderr=stderr,
        reason=record.reason,
        label=label,
    )


run_step = blocking(run_step_async)


def _keep(folder: Path, stdout: bytes, stderr: bytes, record: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("stdout", stdout), ("stderr", stderr), ("step.json", record)):
        (folder / name).write_bytes(content)
