"""How the session of a farm or a fix is opened: new in a folder, or one that goes on under the caps that were
settled when it began."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from mainspring.app.build import open as open_session
from mainspring.app.workspaces import AllowHome
from mainspring.approvals.questions import Approver
from mainspring.events import Cap, Effort, Event, Limits
from mainspring.session.session import Session
from mainspring.settings import Config

Beginning = Callable[[], Awaitable[Sequence[Event]]]


class WorkHow(msgspec.Struct, frozen=True, kw_only=True):
    """What a person says about it."""

    model: str = ""
    fallback: Sequence[str] = ()
    mode: str = ""
    sandbox: str = ""
    effort: Effort | None = None
    allow_unpriced: bool = False
    allow_home: AllowHome = False
    approver: Approver | None = None


def begin_work(
    config: Config,
    place: Path,
    how: WorkHow,
    limits: Limits,
    events: Beginning,
) -> AbstractAsyncContextManager[Session]:
    """A new session, which begins with these events."""
    return _opened(config, how, limits, place=place, events=events)


def resume_work(
    config: Config, session: str, how: WorkHow, cap: Cap, *, is_unpriced: bool
) -> AbstractAsyncContextManager[Session]:
    """One that is on record; `is_unpriced` says that a model of unknown price was accepted then."""
    how = msgspec.structs.replace(how, allow_unpriced=how.allow_unpriced or is_unpriced)
    return _opened(config, how, Limits(session=cap), session=session)


def _opened(
    config: Config,
    how: WorkHow,
    limits: Limits,
    *,
    place: Path | str = ".",
    session: str = "",
    events: Beginning | None = None,
) -> AbstractAsyncContextManager[Session]:
    return open_session(
        place,
        session=session,
        model=how.model,
        fallback=how.fallback,
        limits=limits,
        beginning=events,
        mode=how.mode,
        sandbox=how.sandbox,
        effort=how.effort,
        approver=how.approver,
        allow_unpriced=how.allow_unpriced,
        allow_home=how.allow_home,
        config=config,
    )
