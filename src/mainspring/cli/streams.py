"""Standard input, output and error as a program finds them: closed, full, or a pipe that nobody reads.

What was closed when we started is /dev/null. What cannot be written to standard error is dropped, because
nobody can be told and the work matters more. When standard output cannot be written, the command ends as if
it had been interrupted: `OutputLost` passes through it, and work in a session ends on record.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, TextIO

_BROKEN_PIPE = 128 + 13  # as a shell reports a program that SIGPIPE ended
_UNWRITABLE = 1


class OutputLost(Exception):
    """Standard output cannot be written. Nobody but `run_with_streams` handles it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"Standard output cannot be written ({error.strerror}).")
        self.is_pipe = error.errno == errno.EPIPE


class _Output(io.FileIO):
    """A standard stream that fails once, or never: afterwards what is written is dropped."""

    def __init__(self, descriptor: int, *, is_required: bool) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._is_required = is_required
        self._is_lost = False

    def write(self, data: Any, /) -> int | None:
        if self._is_lost:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._is_lost = True
            if self._is_required:
                raise OutputLost(error) from error
            return len(data)


def shows_progress() -> bool:
    """Whether somebody sees what standard error says while a command runs: at a terminal, or in a chat."""
    return sys.stderr.isatty() or getattr(sys.stderr, "shows_progress", False)


def run_with_streams(run: Callable[[], None]) -> None:
    """Runs the program on standard streams that work, and ends it with an honest code when its output was
    lost."""
    _open_closed()
    if sys.stdout is sys.__stdout__:  # nobody who runs us inside their process put another one there
        sys.stdout = _guarded(sys.stdout, is_required=True)
        sys.stderr = _guarded(sys.stderr, is_required=False)
    try:
        try:
            run()
        finally:
            sys.stdout.flush()
    except OutputLost as lost:
        if not lost.is_pipe:
            sys.stderr.write(f"mainspring: {lost}\n  Free some space, or send the output elsewhere.\n")
        sys.exit(_BROKEN_PIPE if lost.is_pipe else _UNWRITABLE)


def _open_closed() -> None:
    """Puts /dev/null where a standard stream is closed, before another file takes its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is not None:
            continue
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)
        os.set_inheritable(number, True)  # noqa: FBT003 - it takes no names
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor, kept open
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _guarded(stream: TextIO, *, is_required: bool) -> TextIO:
    """What the encoding of a terminal does not have is written as its number."""
    stream.flush()
    is_unicode = stream.encoding.lower().replace("-", "").startswith("utf")
    return io.TextIOWrapper(
        io.BufferedWriter(_Output(stream.fileno(), is_required=is_required)),
        encoding=stream.encoding,
        errors=stream.errors if is_unicode else "backslashreplace",
        line_buffering=bool(stream.line_buffering),
    )


def is_person_there() -> bool:
    """Whether a person can be asked: they see what we say, and we see what they type."""
    return sys.stdin.isatty() and sys.stderr.isatty()
