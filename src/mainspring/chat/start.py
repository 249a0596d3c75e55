"""Opens a chat on this terminal, and leaves the terminal as it was."""

from __future__ import annotations

import asyncio
import gc
import io
import signal
import sys
from functools import partial

from mainspring.app.operations.entered import keep_entered, load_entered
from mainspring.chat.completion import ChatCompleter
from mainspring.chat.line import ProjectHistory, make_buffer
from mainspring.chat.loop import ChatLoop
from mainspring.chat.palette import Palette, theme_of
from mainspring.chat.plain_screen import PlainScreen
from mainspring.chat.screen import TerminalScreen
from mainspring.chat.seat import ChatOptions
from mainspring.settings import Config
from mainspring.system import stop_signals

_DUMB = ("dumb", "")


async def run_chat(
    config: Config,
    options: ChatOptions,
    *,
    is_vi: bool = False,
    is_plain: bool = False,
    keeps_going: bool = False,
) -> None:
    """Until the person leaves. With `keeps_going` the daemon goes on with a turn whose terminal is closed, or
    if it does so with all sessions and asks no gateway that is left out here."""
    is_shared = config.settings.daemon.sessions and config.gateway == config.settings.gateway
    chat = ChatLoop(config, options, keeps_going=keeps_going or is_shared)
    is_plain = (
        is_plain or config.variable("TERM") in _DUMB or not sys.stdout.isatty() or not sys.stdin.isatty()
    )
    if is_plain:
        lines = io.TextIOWrapper(sys.stdin.buffer, sys.stdin.encoding, "replace")  # may be anything
        chat.surface = PlainScreen(chat, chat.questions, lines, sys.stdout)
    else:
        chat.surface = _terminal(chat, config, options, is_vi=is_vi)
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        if number in (signal.SIGHUP, signal.SIGTERM) or is_plain:
            loop.add_signal_handler(number, chat.hang_up if number == signal.SIGHUP else chat.quit)
        else:
            signal.signal(number, partial(_end, chat, loop))
    gc.enable()
    await chat.run()


def _end(chat: ChatLoop, loop: asyncio.AbstractEventLoop, *_: object) -> None:
    """Ctrl-C in an editor or a pager reaches all processes of the terminal, and is meant for that program. It
    is looked at when it comes: the loop may hear of it only when that program is gone."""
    if not chat.surface.is_lent and not loop.is_closed():
        loop.call_soon_threadsafe(chat.quit)


def _terminal(chat: ChatLoop, config: Config, options: ChatOptions, *, is_vi: bool) -> TerminalScreen:
    folder = options.folder
    history = ProjectHistory(partial(load_entered, config, folder), partial(keep_entered, config, folder))
    completer = ChatCompleter(lambda: chat.commands, chat.list_files)
    theme = "mono" if config.variable("NO_COLOR") else theme_of(config.variable("COLORFGBG"))
    return TerminalScreen(
        chat,
        sys.stdout,
        term=config.variable("TERM"),
        palette=Palette(theme=theme),
        buffer=make_buffer(completer, history),
        chips=chat.chips,
        pager=config.variable("PAGER"),
        is_vi=is_vi,
    )
