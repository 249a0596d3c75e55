"""Which field of a request a server does not take, in the words of the servers there are.

FastAPI and servers like it say `{"detail": [{"loc": …, "msg": …}]}`, also within a message or as a text.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Any, cast

import msgspec


class FieldFault(msgspec.Struct, frozen=True):
    """A field of a request and what is wrong with it; both empty when nothing is said of one."""

    param: str = ""
    said: str = ""


class _Detail(msgspec.Struct, frozen=True):
    loc: tuple[str | int, ...]
    msg: str

    @property
    def param(self) -> str:
        """The field, as `stream_options.include_usage`, without where in the request it lies."""
        names = self.loc[1:] if self.loc[:1] == ("body",) else self.loc
        return ".".join(map(str, names))


def first_fault(body: dict[str, Any]) -> FieldFault:
    """The first field that a refusal names."""
    message = body.get("message")
    within = cast("dict[str, Any]", message) if isinstance(message, dict) else body
    try:
        found = msgspec.convert(within.get("detail"), tuple[_Detail, ...])
    except msgspec.ValidationError:
        return FieldFault()
    return next((FieldFault(each.param, f"{each.param}: {each.msg}") for each in found), FieldFault())


_CODES = frozenset({"unsupported_parameter", "unsupported_value", "unknown_parameter"})
_UNSUPPORTED = (
    r"(?i)unsupported|not support|unrecognized|unknown (name|field|parameter)|extra (inputs|fields)"
    r"|not permitted|does not match any of the expected tags"
    r"|unexpected (field|keyword)|additional properties|is not (available|allowed)"
)
_ABOUT_EFFORT = r"(?i)effort|thinking|reasoning_effort"
_NAME = r"([A-Za-z_]+(?:\.[A-Za-z_]+)*)"
_NAMED = (
    r"['\"]loc['\"]: ?[(\[]['\"]body['\"], ?['\"]([A-Za-z_]+)['\"]",
    rf"validation errors? for \w+ {_NAME} ",
    r"^([a-z_]+(?:\.[a-z_]+)*): ",
    rf"(?:arguments? supplied|parameters?|fields?): {_NAME}",
    rf"['\"`]{_NAME}['\"`]",
)
"""How a field is named, the surest way first."""


def unsupported(said: str, param: str, codes: AbstractSet[str]) -> tuple[str, str]:
    """What a refusal says that the model does not take: its cause, and the name of the parameter."""
    if not (_CODES & codes or re.search(_UNSUPPORTED, said)):
        return "", ""
    found = next(filter(None, (re.search(pattern, said) for pattern in _NAMED)), None)
    param = param or (found[1] if found else "")
    if re.search(_ABOUT_EFFORT, param or said) and not param.endswith("summary"):
        return "effort", param
    return ("parameter", param) if param else ("", "")
