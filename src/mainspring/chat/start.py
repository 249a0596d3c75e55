"""Opens a chat on this terminal, and leaves the terminal as it was."""

from __future__ import annotations

import gc
import sys

from prompt_toolkit.buffer import Buffer

from mainspring.chat.loop import ChatLoop
from mainspring.chat.palette import Palette
from mainspring.chat.screen import TerminalScreen
from mainspring.chat.seat import ChatOptions
from mainspring.settings import Config


async def run_chat(config: Config, options: ChatOptions) -> None:
    """Until the person leaves."""
    chat = ChatLoop(config, options)
    palette = Palette(theme="mono" if config.variable("NO_COLOR") else "dark")
    chat.surface = TerminalScreen(
        chat, sys.stdout, term=config.variable("TERM"), palette=palette, buffer=Buffer(multiline=True)
    )
    gc.enable()
    await chat.run()
