"""Where a command writes what it exports: standard output, or the file of `-o`."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from mainspring.errors import UsageError

_FOR_OWNER, _USUAL = 0o600, 0o666


@contextmanager
def written(output: Path | None, *, is_private: bool = False) -> Generator[BinaryIO]:
    """Where to write: standard output, a file that appears whole or not at all, or what else is there. A
    private one can be read by its owner only."""
    if output is None or str(output) == "-":
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    real = output.resolve()
    is_replaced = real.is_file() or not real.exists()
    # A device such as /dev/null, or a pipe, is written to: a file would take its place for everybody.
    unfinished = real.with_name(f".{real.name}.part") if is_replaced else real
    try:
        if is_replaced:
            unfinished.unlink(missing_ok=True)
            unfinished.touch(_FOR_OWNER if is_private else _USUAL, exist_ok=False)
        with unfinished.open("wb") as to:
            yield to
        if is_replaced:
            unfinished.replace(real)
    except OSError as error:
        raise UsageError(
            f"{output} cannot be written: {error.strerror}.",
            remedy="Name a file in a folder that exists and can be written.",
        ) from error
    finally:
        if is_replaced:
            unfinished.unlink(missing_ok=True)
