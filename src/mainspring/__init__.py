"""An agent runtime that you can leave alone for days.

    async with mainspring.open(".", model="…") as session:
        async for event in session.run("…"):
            ...

Names below are loaded when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing it from typing would cost 6 ms
if TYPE_CHECKING:
    from mainspring.app.build import open  # noqa: A004
    from mainspring.app.loops import DrvloopConfig, ExploopConfig, run_drvloop, run_exploop
    from mainspring.events import Limits
    from mainspring.session.session import Session
    from mainspring.tools.schema import tool

    __version__: str

__all__ = [
    "DrvloopConfig",
    "ExploopConfig",
    "Limits",
    "Session",
    "__version__",
    "open",
    "run_drvloop",
    "run_exploop",
    "tool",
]

_HOMES = {
    "open": "app.build",
    "DrvloopConfig": "app.loops",
    "ExploopConfig": "app.loops",
    "Limits": "events",
    "Session": "session.session",
    "run_drvloop": "app.loops",
    "run_exploop": "app.loops",
    "tool": "tools.schema",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from mainspring.version import installed_version  # noqa: PLC0415 - read when it is asked for

        return installed_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - not needed by `--version`

    return getattr(import_module(f"mainspring.{_HOMES[name]}"), name)
