"""What goes on beside a session that is open: hooks, people are told what happens while nobody looks, what is
too old is deleted. What tells people is loaded only where `[notify]` or `--notify` names somebody."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING

from mainspring.app.retention import retention_beside
from mainspring.session.session import Session, runtime_of
from mainspring.settings import Config

if TYPE_CHECKING:
    from mainspring.app.hook_files import LoadedHooks


@asynccontextmanager
async def opened_beside(
    made: Session, config: Config | None, hooks: LoadedHooks | None
) -> AsyncGenerator[Session]:
    """Opens the session; without a `config` only its hooks go on beside it."""
    around = _hooks_around(made, hooks)
    async with _notices_beside(config, made.id) as notify, made as running, retention_beside(config):
        notify(running)
        async with around(running):
            yield running


def _hooks_around(
    made: Session, hooks: LoadedHooks | None
) -> Callable[[Session], AbstractAsyncContextManager[None]]:
    """Hooks hold from the first event on; what follows a session with them is for when it is open. A child
    has those of its parent."""
    runtime = runtime_of(made)
    above = runtime.budget.parent
    if not hooks and (above is None or above.hooks is None):
        return lambda _: nullcontext()
    return import_module("mainspring.app.hook_follower").hooks_around(runtime, hooks.hooks if hooks else ())


@asynccontextmanager
async def _notices_beside(config: Config | None, session: str) -> AsyncGenerator[Callable[[Session], None]]:
    """Gives what is told of the session once it is open. What is left to send at the end is sent by a process
    of its own."""
    if config is None or not _is_anybody_told(config, session):
        yield lambda _: None
        return
    notifier = import_module("mainspring.app.notifications").Notifier(config)
    try:
        yield notifier.follow
    finally:
        await notifier.close()


def _is_anybody_told(config: Config, session: str) -> bool:
    """Also who was named when the session began, by another process perhaps."""
    channels = config.settings.notify.channels
    is_named = bool(config.notify) or any(each.always for each in channels.values())
    return is_named or (bool(channels) and (config.home / "notify" / f"{session}.json").exists())
