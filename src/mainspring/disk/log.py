"""The debug log: a place to say what happens, which costs nothing while nobody asked for it.

`app/debug_log.py` opens it; a line passes the vault there before it is written. Contents (prompts, replies,
output of commands) are not said here, only their sizes.
"""

from __future__ import annotations

from collections.abc import Callable

Sink = Callable[[str], None]
_sink: Sink | None = None


def open_log(sink: Sink) -> None:
    """From now on, lines go there."""
    global _sink  # noqa: PLW0603 - one log per process, as there is one standard error
    _sink = sink


def is_logging() -> bool:
    return _sink is not None


def log(subject: str, **facts: object) -> None:
    """One line: what happened, and facts about it."""
    if _sink is not None:
        _sink(" ".join((subject, *(f"{name}={value}" for name, value in facts.items()))))
