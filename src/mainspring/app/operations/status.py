"""Where a session that runs here stands, in the few facts that a face shows all the time."""

from __future__ import annotations

import msgspec

from mainspring.events import Effort, WaitStarted
from mainspring.folds.processes import count_running
from mainspring.session.session import Session, runtime_of


class SessionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """`tokens` is an estimate of what the next request takes of `window`, which is None when nobody knows it.
    `cap_usd` is the cap on money that leaves the least, `left_usd` what it leaves. `sandbox` is empty until a
    command has needed one."""

    session: str
    model: str
    effort: Effort | None
    mode: str
    sandbox: str
    tokens: int
    window: int | None
    spent_usd: float
    cap_usd: float | None
    left_usd: float | None
    processes: int
    waits: tuple[WaitStarted, ...]
    is_running: bool
    owner: str = ""
    """The other process that runs it."""


def session_status(session: Session) -> SessionStatus:
    """What the folds of a session say now, and the keepers of its processes."""
    runtime, state = runtime_of(session), session.state
    least = state.ledger.least_left(runtime.limits, None)
    return SessionStatus(
        session=session.id,
        model=state.model,
        effort=state.effort,
        mode=state.level or state.mode,
        sandbox=chosen.name if (chosen := runtime.commands.chosen) else "",
        tokens=runtime.history.estimated_tokens(state.prompt_size),
        window=runtime.models.current.context_tokens,
        spent_usd=state.ledger.tally("session").settled_usd,
        cap_usd=least[0] if least else None,
        left_usd=least[1] if least else None,
        processes=count_running(state.processes),
        waits=tuple(each.started for each in state.waits.open),
        is_running=session.is_running,
    )
