"""What FastAPI and servers like it say of fields that do not fit: `{"detail": [{"loc": …, "msg": …}]}`."""

from __future__ import annotations

from typing import Any

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
    try:
        found = msgspec.convert(body.get("detail"), tuple[_Detail, ...])
    except msgspec.ValidationError:
        return FieldFault()
    return next((FieldFault(each.param, f"{each.param}: {each.msg}") for each in found), FieldFault())
