"""What a client may have: a mode, caps and a folder. Nothing that it asks for goes beyond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mainspring.app.modes import parse_mode
from mainspring.app.operations.device_roles import Role
from mainspring.app.operations.sessions import folder_of, journal_of
from mainspring.approvals import MODES
from mainspring.errors import UsageError
from mainspring.events import Limits, ModeChosen, TurnStarted
from mainspring.journal import last_event
from mainspring.settings import Config

_CAPS = ("max_cost_usd", "max_steps", "timeout_s")
_RANK = {mode: rank for rank, mode in enumerate(MODES)}


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """`mode` is the freest that a session may have, `folder` what all workspaces lie in; a cap that is None
    is not set. `role` is the most that anybody may do here, whatever a token allows elsewhere."""

    mode: str
    folder: Path
    role: Role = "steer"
    max_cost_usd: float | None = None
    max_steps: int | None = None
    timeout_s: float | None = None

    def mode_of(self, asked: str) -> str:
        """The mode that is asked for, or the caller's own."""
        if asked and _RANK[parse_mode(asked)[0]] > _RANK[parse_mode(self.mode)[0]]:
            raise UsageError(
                f"The mode {asked} is freer than {self.mode}, which this server was started with.",
                remedy="Start it with another --mode.",
            )
        return asked or self.mode

    def folder_at(self, asked: str) -> Path:
        """A workspace: the caller's folder, or one below it."""
        root = self.folder.resolve()
        found = (root / asked).resolve()
        if not found.is_relative_to(root):
            raise UsageError(
                f"{found} is not in {root}, which this server was started for.",
                remedy="Start it with another -C.",
            )
        return found

    def capped(self, name: str, asked: Any) -> Any:
        """The smaller one of what is asked for and the caller's own cap of this name."""
        return min((each for each in (asked, getattr(self, name)) if each is not None), default=None)

    async def check(self, config: Config, session: str, *, is_steered: bool) -> None:
        """Raises `UsageError` for a session elsewhere, and for steering one that has a freer mode or caps."""
        self.folder_at(str(await folder_of(config, session)))
        if not is_steered:
            return
        async with journal_of(config, session) as reader:
            chosen = await last_event(reader, ModeChosen)
            turn = await last_event(reader, TurnStarted)
        if chosen is not None:
            self.mode_of(chosen.mode)
        limits = turn.limits if turn else Limits()
        for name in _CAPS if turn else ():
            has, most = getattr(limits, name), getattr(self, name)
            if most is not None and (has is None or has > most):
                raise UsageError(
                    f"Session {session} may have {has or 'any'} for {name}, and this server allows {most:g}."
                )
