"""Sessions by the beginning of their ids."""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.errors import UnknownSession

_SHOWN = 8


def match_prefix(prefix: str, names: Iterable[str]) -> str:
    """The one of the names that begins with a prefix."""
    found = sorted(name for name in names if name.startswith(prefix))
    match found:
        case []:
            raise none_begins_with(prefix)
        case [only]:
            return only
        case _:
            shown = ", ".join(found[:_SHOWN]) + (", …" if len(found) > _SHOWN else "")
            raise UnknownSession(
                f"{len(found)} session ids begin with {prefix}: {shown}.",
                remedy="Give more characters of the id.",
            )


def none_begins_with(prefix: str) -> UnknownSession:
    """What is said of a session that does not exist, and of one that whoever asks may not see."""
    return UnknownSession(
        f"No session id begins with {prefix}.", remedy="`mainspring sessions` lists the sessions."
    )
