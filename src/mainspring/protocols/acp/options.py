"""What a client can set for a session: its mode, its model, how hard it thinks."""

from __future__ import annotations

from typing import Any, cast, get_args

from mainspring.app.operations.models import selectable_models
from mainspring.app.policies import MODE_ABOUT
from mainspring.errors import UsageError
from mainspring.events import Effort
from mainspring.session.session import Session
from mainspring.settings import Config

MODE, MODEL, EFFORT = "mode", "model", "effort"
_USUAL_EFFORT = "default"


def modes_of(session: Session) -> dict[str, Any]:
    """The modes of the protocol, for clients that know no other options."""
    modes = [{"id": name, "name": name, "description": about} for name, about in MODE_ABOUT.items()]
    return {"currentModeId": session.state.mode, "availableModes": modes}


def options_of(session: Session, config: Config) -> list[dict[str, Any]]:
    """All options, with what they are now."""
    state = session.state
    modes = [{"value": name, "name": name, "description": about} for name, about in MODE_ABOUT.items()]
    models = [{"value": name, "name": name} for name in selectable_models(config, state.model)]
    efforts = [{"value": name, "name": name} for name in (_USUAL_EFFORT, *get_args(Effort))]
    return [
        _select(MODE, "Mode", "mode", state.mode, modes),
        _select(MODEL, "Model", "model", state.model, models),
        _select(EFFORT, "Effort", "thought_level", state.effort or _USUAL_EFFORT, efforts),
    ]


def effort_named(value: str) -> Effort | None:
    """Raises `UsageError` when there is no such effort."""
    if value != _USUAL_EFFORT and value not in get_args(Effort):
        known = ", ".join((_USUAL_EFFORT, *get_args(Effort)))
        raise UsageError(f"There is no effort {value!r}.", remedy=f"Use one of {known}.")
    return None if value == _USUAL_EFFORT else cast("Effort", value)


def check_mode(value: str) -> None:
    if value not in MODE_ABOUT:
        raise UsageError(f"There is no mode {value!r}.", remedy=f"Use one of {', '.join(MODE_ABOUT)}.")


def _select(
    option: str, name: str, category: str, current: str, options: list[dict[str, str]]
) -> dict[str, Any]:
    about = {"id": option, "name": name, "category": category, "type": "select"}
    return {**about, "currentValue": current, "options": options}
