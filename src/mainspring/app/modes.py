"""Modes, levels of autonomy and ways to confine commands, by their names."""

from __future__ import annotations

from mainspring.approvals import LEVELS, MODES, Mode
from mainspring.errors import UsageError
from mainspring.sandbox import LADDER

MODE_NAMES = (*MODES, *LEVELS)
RUNG_NAMES = LADDER
CLASSIC_SANDBOXES: dict[str, tuple[str, Mode]] = {
    "read-only": ("", "plan"),
    "workspace-write": ("", "auto"),
    "danger-full-access": ("none", "yolo"),
}
"""The names that the classic loops know a sandbox by: how commands are confined, and what needs approval."""


def parse_mode(name: str) -> tuple[Mode, str]:
    """The mode of a name, and the level of autonomy when the name is one."""
    if name in LEVELS:
        return LEVELS[name], name
    if name not in MODES:
        names = ", ".join(MODE_NAMES)
        raise UsageError(f"There is no mode {name!r}.", remedy=f"The modes are {names}.")
    return name, ""


def classic_sandbox(sandbox: str, mode: str) -> tuple[str, str]:
    """A sandbox and a mode by our names; a mode that is given counts more than that of a classic name."""
    rung, meant = CLASSIC_SANDBOXES.get(sandbox, (sandbox, ""))
    return rung, mode or meant
