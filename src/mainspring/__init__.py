"""An agent runtime that you can leave alone for days.

    async with mainspring.open(".", model="…") as session:
        reply = await session.ask("…")

    reply = mainspring.run("…", model="…")

Names below are loaded when they are first used, so importing the package costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know the name; importing it from typing would cost 6 ms
if TYPE_CHECKING:
    from mainspring import errors, events, testing
    from mainspring.app.build import open  # noqa: A004
    from mainspring.app.goals import GoalOptions, resume_goal, start_goal
    from mainspring.app.loops import (
        DrvloopConfig,
        ExploopConfig,
        run_drvloop,
        run_drvloop_async,
        run_exploop,
        run_exploop_async,
    )
    from mainspring.app.operations.approvals import is_allowed
    from mainspring.app.operations.messages import Delivery, note, say, stop
    from mainspring.app.programs import OpenOptions, StepResult, run, run_async, run_step, run_step_async
    from mainspring.approvals import Judgement, Policy, Proposed
    from mainspring.approvals.questions import Approver
    from mainspring.catalog import Sessions
    from mainspring.errors import MainspringError
    from mainspring.events import ApprovalAsked, ApprovalGiven, Cap, Event, GoalChecks, Limits, Usage
    from mainspring.goals.loop import Pursuit
    from mainspring.models import Model
    from mainspring.session.reply import Reply
    from mainspring.session.session import Session
    from mainspring.settings import Config, load_config
    from mainspring.tools import CallContext, Output, Tool
    from mainspring.tools.schema import tool

    __version__: str

__all__ = [
    "ApprovalAsked",
    "ApprovalGiven",
    "Approver",
    "CallContext",
    "Cap",
    "Config",
    "Delivery",
    "DrvloopConfig",
    "Event",
    "ExploopConfig",
    "GoalChecks",
    "GoalOptions",
    "Judgement",
    "Limits",
    "MainspringError",
    "Model",
    "OpenOptions",
    "Output",
    "Policy",
    "Proposed",
    "Pursuit",
    "Reply",
    "Session",
    "Sessions",
    "StepResult",
    "Tool",
    "Usage",
    "__version__",
    "errors",
    "events",
    "is_allowed",
    "load_config",
    "note",
    "open",
    "resume_goal",
    "run",
    "run_async",
    "run_drvloop",
    "run_drvloop_async",
    "run_exploop",
    "run_exploop_async",
    "run_step",
    "run_step_async",
    "say",
    "start_goal",
    "stop",
    "testing",
    "tool",
]

_NAMES = {
    "app.build": "open",
    "app.goals": "GoalOptions resume_goal start_goal",
    "app.loops": "DrvloopConfig ExploopConfig run_drvloop run_drvloop_async run_exploop run_exploop_async",
    "app.operations.approvals": "is_allowed",
    "app.operations.messages": "Delivery note say stop",
    "app.programs": "OpenOptions StepResult run run_async run_step run_step_async",
    "approvals": "Judgement Policy Proposed",
    "approvals.questions": "Approver",
    "catalog": "Sessions",
    "errors": "MainspringError",
    "events": "ApprovalAsked ApprovalGiven Cap Event GoalChecks Limits Usage",
    "goals.loop": "Pursuit",
    "models": "Model",
    "session.reply": "Reply",
    "session.session": "Session",
    "settings": "Config load_config",
    "tools": "CallContext Output Tool",
    "tools.schema": "tool",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_MODULES = ("errors", "events", "testing")


def __getattr__(name: str) -> object:
    if name == "__version__":
        from mainspring.version import installed_version  # noqa: PLC0415 - read when it is asked for

        return installed_version()
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module 'mainspring' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - not needed by `--version`

    if name in _MODULES:
        return import_module(f"mainspring.{name}")
    return getattr(import_module(f"mainspring.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
