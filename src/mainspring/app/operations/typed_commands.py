"""A command line that a person entered, also by way of a command that they wrote: it is run at once, since
entering it was the consent, and what came of it is read back."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mainspring.app.operations.answers import consent
from mainspring.app.operations.commands import CommandRecord, load_command, load_output
from mainspring.app.step import run_command
from mainspring.app.workspaces import AllowHome
from mainspring.sandbox import OnOutput
from mainspring.settings import Config


class TypedCommand(msgspec.Struct, frozen=True):
    """How it ended, and all that it printed, errors last."""

    record: CommandRecord
    output: str

    @property
    def is_ok(self) -> bool:
        return self.record.exit_code == 0

    @property
    def is_run(self) -> bool:
        """Whether it came so far that it has an exit code."""
        return self.record.exit_code is not None

    @property
    def ending(self) -> str:
        """Its exit code, or why there is none."""
        record = self.record
        return f"exit code {record.exit_code}" if self.is_run else f"{record.state}: {record.reason}"

    @property
    def took_s(self) -> float:
        return ((self.record.ended_us or self.record.started_us) - self.record.started_us) / 1e6


async def run_typed(
    config: Config,
    workspace: Path,
    line: str,
    *,
    mode: str = "",
    sandbox: str = "",
    allow_home: AllowHome = False,
    on_output: OnOutput | None = None,
) -> TypedCommand:
    """Runs it in the sandbox, under the rules of a session's mode: `plan` stays a plan."""
    name = await run_command(
        ("bash", "-c", line),
        folder=workspace,
        mode="plan" if mode == "plan" else "auto",
        sandbox=sandbox,
        allow_home=allow_home,
        approver=consent,
        on_output=on_output,
        config=config,
    )
    record = await load_command(config, name)
    out, err = (data.decode("utf-8", "replace") for data in await load_output(config, record))
    return TypedCommand(record, f"{out}{err}".strip("\n"))
