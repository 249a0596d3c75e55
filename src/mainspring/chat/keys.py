"""What keys do. The keys of emacs and vi are prompt_toolkit's; these come on top."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prompt_toolkit.filters import Condition, is_searching, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys

from mainspring.chat.line import clipboard_image
from mainspring.chat.surface import Controls
from mainspring.errors import UsageError

if TYPE_CHECKING:
    from mainspring.chat.screen import TerminalScreen

_TWICE_S = 1.5


class _Presses:
    """When a key was pressed last, for keys that mean more the second time."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}

    def is_second(self, key: str) -> bool:
        now, before = time.monotonic(), self._at.get(key, 0.0)
        is_second = now - before <= _TWICE_S
        self._at[key] = 0.0 if is_second else now
        return is_second


def key_bindings(screen: TerminalScreen, controls: Controls) -> KeyBindings:
    keys = KeyBindings()
    _add_input(keys, screen, controls)
    _add_insertion(keys, screen, controls)
    _add_answers(keys, screen, controls)
    _add_control(keys, screen, controls)
    _add_picking(keys, screen)
    return keys


def _add_input(keys: KeyBindings, screen: TerminalScreen, controls: Controls) -> None:
    is_empty = Condition(lambda: not screen.buffer.text)

    @keys.add("enter", filter=~is_searching)
    def _enter(event: KeyPressEvent) -> None:
        _submit(event, controls, is_queued=False)

    @keys.add("escape", "enter", filter=~is_searching)
    def _queue(event: KeyPressEvent) -> None:
        _submit(event, controls, is_queued=True)

    @keys.add("c-j")
    def _newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add(Keys.Tab)
    def _complete(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.start_completion(select_first=True)

    @keys.add(Keys.BackTab)
    def _choose_mode(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state:
            buffer.complete_previous()
        else:
            controls.enter("/mode")

    @keys.add("up", filter=is_empty)
    def _take_back(event: KeyPressEvent) -> None:
        if (text := controls.take_queued()) is not None:
            event.current_buffer.insert_text(text)
        else:
            event.current_buffer.history_backward()


def _add_insertion(keys: KeyBindings, screen: TerminalScreen, controls: Controls) -> None:
    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text(screen.chips.paste(event.data))

    @keys.add("c-v")
    def _image(event: KeyPressEvent) -> None:
        event.app.create_background_task(_insert_image(screen, controls))

    @keys.add("c-x", "c-e")
    def _edit(event: KeyPressEvent) -> None:
        event.current_buffer.open_in_editor()


async def _insert_image(screen: TerminalScreen, controls: Controls) -> None:
    try:
        screen.buffer.insert_text(screen.chips.image(await clipboard_image()) + " ")
    except UsageError as error:
        controls.say_error(error)


def _add_picking(keys: KeyBindings, screen: TerminalScreen) -> None:
    is_picking = Condition(lambda: screen.picker is not None)

    @keys.add("enter", filter=is_picking)
    def _take(event: KeyPressEvent) -> None:  # noqa: ARG001
        screen.end_pick(screen.picker.chosen if screen.picker else None)

    @keys.add("escape", filter=is_picking, eager=True)
    @keys.add("c-c", filter=is_picking)
    @keys.add("c-d", filter=is_picking)
    def _leave(event: KeyPressEvent) -> None:  # noqa: ARG001
        screen.end_pick(None)

    @keys.add("up", filter=is_picking)
    @keys.add("c-p", filter=is_picking)
    @keys.add(Keys.BackTab, filter=is_picking)
    def _up(event: KeyPressEvent) -> None:  # noqa: ARG001
        if screen.picker:
            screen.picker.move(-1)

    @keys.add("down", filter=is_picking)
    @keys.add("c-n", filter=is_picking)
    @keys.add(Keys.Tab, filter=is_picking)
    def _down(event: KeyPressEvent) -> None:  # noqa: ARG001
        if screen.picker:
            screen.picker.move(1)


def _add_answers(keys: KeyBindings, screen: TerminalScreen, controls: Controls) -> None:
    is_empty = Condition(lambda: not screen.buffer.text)

    @keys.add(Keys.Any, filter=is_empty & Condition(lambda: controls.is_asking))
    def _answer(event: KeyPressEvent) -> None:
        key = event.data
        if key in ("/", "!", "#"):
            event.current_buffer.insert_text(key)
        elif begun := controls.answer_key(key):
            event.current_buffer.insert_text(begun)


def _add_control(keys: KeyBindings, screen: TerminalScreen, controls: Controls) -> None:
    presses = _Presses()
    has_menu = Condition(lambda: screen.has_menu)
    is_empty = Condition(lambda: not screen.buffer.text)

    @keys.add("escape", filter=has_menu)
    def _close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    @keys.add("escape", filter=~has_menu & ~vi_insert_mode)
    def _escape(event: KeyPressEvent) -> None:  # noqa: ARG001
        _stop_or_go_back(screen, controls, presses)

    @keys.add("escape", filter=~has_menu & vi_insert_mode)
    def _leave_insert(event: KeyPressEvent) -> None:
        event.app.vi_state.input_mode = InputMode.NAVIGATION

    @keys.add("c-c", filter=~is_searching)
    def _interrupt(event: KeyPressEvent) -> None:
        if presses.is_second("c-c"):
            controls.quit()
        elif not controls.stop():
            event.current_buffer.reset()
            screen.hint("Ctrl-C again leaves", _TWICE_S)

    @keys.add("c-d", filter=is_empty)
    def _end(event: KeyPressEvent) -> None:  # noqa: ARG001
        controls.quit()

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:  # noqa: ARG001
        screen.suspend()

    @keys.add("c-l")
    def _clear(event: KeyPressEvent) -> None:
        screen.resized()
        event.app.renderer.clear()


def _submit(event: KeyPressEvent, controls: Controls, *, is_queued: bool) -> None:
    buffer = event.current_buffer
    if buffer.complete_state and buffer.complete_state.current_completion:
        buffer.complete_state = None
    text = buffer.text
    if text.strip():
        buffer.append_to_history()
    controls.enter(text, is_queued=is_queued)  # first, since an empty line is no answer any more
    buffer.reset()
    event.app.vi_state.reset()  # a new line begins in insert mode, as in a shell


def _stop_or_go_back(screen: TerminalScreen, controls: Controls, presses: _Presses) -> None:
    if controls.leave_answer():
        screen.take_input()
        return
    is_second = presses.is_second("escape")
    if controls.stop() or screen.buffer.text:
        return
    if is_second:
        controls.go_back()
    else:
        screen.hint("Esc again goes back to an earlier message", _TWICE_S)
