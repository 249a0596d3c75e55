"""What a request is answered that cannot be done: a sentence and a remedy, with the status that fits."""

from __future__ import annotations

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mainspring.errors import (
    AccessRefused,
    JournalOwned,
    JournalUnwritable,
    MainspringError,
    UnknownSession,
    UsageError,
)
from mainspring.serve.guard import refused
from mainspring.serve.routes import PREFIX

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES)
_log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[MainspringError], int], ...] = (
    (AccessRefused, 403),
    (UnknownSession, 404),
    (UsageError, 400),
    (JournalOwned, 409),
    (JournalUnwritable, 507),
    (MainspringError, 500),
)


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, MainspringError)  # noqa: S101 - it is registered for these
    status = next(status for kind, status in _STATUS if isinstance(error, kind))
    return refused(status, error.message, remedy=error.remedy)


async def _disk(_: Request, error: Exception) -> Response:
    """Outside of journals: what is full, or may not be written, says so; anything else is a fault of ours."""
    if isinstance(error, OSError) and error.errno in _DISK:
        said = f"The disk of the server cannot take it: {error.strerror}."
        return refused(507, said, remedy="Free some space there, and try again.")
    _log.error("A request has failed.", exc_info=error)
    return refused(500, "The server has failed at this.", remedy="Its log says why.")


async def _gone(_: Request, __: Exception) -> Response:
    return refused(413, "The body is too large, or the client has gone.")


async def _unknown(_: Request, __: Exception) -> Response:
    return refused(404, "There is no such path here.", remedy=f"{PREFIX}/openapi.json lists them.")


async def _wrong_method(_: Request, __: Exception) -> Response:
    return refused(405, "This path takes another method.")


HANDLERS: dict[Any, Callable[[Request, Exception], Awaitable[Response]]] = {
    MainspringError: _failed,
    OSError: _disk,
    Exception: _disk,
    ClientDisconnect: _gone,
    404: _unknown,
    405: _wrong_method,
}
