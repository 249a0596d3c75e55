"""Chooses the highest rung that works here, by using it; never a lower one in silence."""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.disk.scan import Scan
from mainspring.errors import SandboxError
from mainspring.sandbox import LADDER, Command, Confinement, Sandbox
from mainspring.sandbox.probe import build, check_custody

_CONFINING = tuple(name for name in LADDER if name != "none")


async def choose(
    policy: Confinement, environment: Mapping[str, str], *, name: str = "", scan: Scan | None = None
) -> Sandbox:
    """The rung of that name, or the first that runs a command; `none` only by its name. The helper process
    that commands need runs by then. `scan` is what others read of the workspace."""
    check_custody()
    reasons: list[str] = []
    for rung in (name,) if name else _CONFINING:
        sandbox: Sandbox | None = None
        try:
            sandbox = build(rung, policy, environment, scan=scan)
            done = await sandbox.run(Command(argv=("true",), cwd=policy.workspace, timeout_s=20))
            if done.exit_code == 0 or rung == "none":
                return sandbox
            reasons.append(f"{rung}: {done.stderr.decode(errors='replace').strip() or done.stopped}")
        except SandboxError as error:
            reasons.append(f"{rung}: {error.message}")
        if sandbox is not None:
            await sandbox.close()
    raise SandboxError(
        f"No sandbox works here ({'; '.join(reasons)}).",
        remedy="`mainspring doctor` says how to fix it; --sandbox none runs commands unconfined.",
    )
