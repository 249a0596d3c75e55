"""What is said to a session and shown to it, before it is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from mainspring.errors import InvalidValue, UsageError, require_type
from mainspring.patterns import lazy_pattern

_MEDIA_TYPE = lazy_pattern(r"[\w.+-]{1,100}/[\w.+-]{1,100}(; ?[\w.+-]+=[\w.+\"-]+)*")


def require_text(text: object, media: Sequence[object] = ()) -> None:
    require_type(text, str, "text")
    if not str(text).strip() and not media:
        raise UsageError("The message is empty.")


def require_media_type(media_type: object) -> None:
    require_type(media_type, str, "media_type")
    if not _MEDIA_TYPE.fullmatch(str(media_type)):
        raise InvalidValue(f"{str(media_type)[:100]!r} is no media type.", remedy="Write one like image/png.")
