"""Events without secrets: what every event passes before it is recorded, so that no field can be forgotten.

Every text is hidden, however deep it lies, unless its type says otherwise (`events/base.py`). How a kind of
event is walked is worked out from its type hints once, when the first one comes; a field of a type that is
not known here is an error, not a leak. `expanded` is the way back, for whoever needs what was there.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import cache, partial
from operator import is_not
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from mainspring.events.base import Dropped, Encoded, Exempt, SealedBy
from mainspring.secrets.vault import MIN_CHARS, Vault, in_texts

_S = TypeVar("_S", bound=msgspec.Struct)

_Text = Callable[[str], str]
_Change = Callable[[Any, _Text], Any]
"""Changes the texts of a value of one type; the very same value when none changes."""

_PLAIN = (int, float, bool, bytes, type(None))


def redacted(event: _S, vault: Vault) -> _S:
    """The event, or a part of one, as it may be recorded."""
    change = _of_struct(type(event))
    return change(event, vault.redact) if change else event


def expanded(event: _S, vault: Vault) -> _S:
    """The event, or a part of one, as it was before it was recorded."""
    change = _of_struct(type(event))
    return change(event, vault.expand) if change else event


def redacted_arguments(text: str, vault: Vault) -> str:
    """Arguments as they may be recorded: they expand to exactly what they were. Text that is not JSON is
    redacted as it stands."""
    return _in_json(text, vault.redact)


def redacted_blob(data: bytes, media_type: str, vault: Vault) -> bytes:
    """Content as it may be recorded: text is, in whatever form; what is no text stays as it is."""
    kind = media_type.partition(";")[0]
    if kind.endswith("json"):
        try:
            return redacted_arguments(data.decode(), vault).encode()
        except UnicodeDecodeError:
            return vault.redact_bytes(data)
    if kind.startswith("text/") or kind.endswith("xml"):
        return vault.redact_bytes(data)
    return data


@cache
def _of_struct(kind: type[msgspec.Struct]) -> _Change | None:
    """How the texts in a struct are changed; None when it can hold none that would be."""
    hints = _hints_of(kind)
    changes = [
        (name, change)
        for name in kind.__struct_fields__
        if (change := _of(hints[name], f"{kind.__name__}.{name}"))
    ]
    if not changes:
        return None
    seals = {
        name: mark.name for name, _ in changes for mark in _marks(hints[name]) if isinstance(mark, SealedBy)
    }

    def walk(value: msgspec.Struct, change_text: _Text) -> msgspec.Struct:
        changed: dict[str, Any] = {}
        for name, change in changes:
            old = getattr(value, name)
            if not old or (seals and name in seals and getattr(value, seals[name])):
                continue
            new = change(old, change_text)
            if new is not old:
                changed[name] = new
        return msgspec.structs.replace(value, **changed) if changed else value

    return walk


def _hints_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The types of the fields. Those of events are values already, and need not be worked out."""
    given: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        given |= getattr(base, "__annotations__", {})
    are_values = not any(isinstance(each, str) for each in given.values())
    return given if are_values else get_type_hints(kind, include_extras=True)


def _of(hint: Any, where: str) -> _Change | None:
    """How the texts in a value of this type are changed; None when it has none that would be."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is str:
        return _in_text
    if hint in _PLAIN or origin is Literal:
        return None
    if hint is msgspec.Raw:
        return _in_raw
    if hint is Any:
        return _in_any
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _of_struct(hint)
    if origin is Annotated:
        return _of_marked(arguments[0], marks=_marks(hint), where=where)
    if origin in (Union, types.UnionType):
        return _of_union(arguments, where)
    if origin in (tuple, list):
        return _of_sequence(cast("type[Any]", origin), arguments, where)
    if origin is dict:
        return _of_dict(arguments, where)
    raise TypeError(
        f"{where} has the type {hint}, and nobody decided what becomes of secrets in it: use a type that"
        " `secrets/redaction.py` knows, or teach it this one."
    )


def _of_marked(hint: Any, *, marks: tuple[object, ...], where: str) -> _Change | None:
    if any(isinstance(mark, Exempt) for mark in marks):
        return None
    if any(isinstance(mark, Encoded) for mark in marks):
        return _in_json
    inner = _of(hint, where)
    if inner is not None and any(isinstance(mark, Dropped) for mark in marks):
        return partial(_or_nothing, inner)
    return inner


def _of_union(arguments: tuple[Any, ...], where: str) -> _Change | None:
    """Structs are told apart by their class; of anything else at most one may hold text."""
    structs = {each: _of_struct(each) for each in arguments if _is_struct(each)}
    others = [change for each in arguments if not _is_struct(each) and (change := _of(each, where))]
    if len(others) > 1 or (others and any(structs.values())):
        raise TypeError(f"{where} can hold text in more than one way, which nobody has decided about.")
    if others:
        return others[0]
    if not any(structs.values()):
        return None

    def walk(value: object, change_text: _Text) -> object:
        change = structs.get(cast("type[Any]", type(value)))
        return change(value, change_text) if change else value

    return walk


def _of_sequence(kind: Callable[[list[Any]], Any], arguments: tuple[Any, ...], where: str) -> _Change | None:
    if kind is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        raise TypeError(f"{where} is a tuple of a fixed length, which nobody has decided about.")
    change = _of(arguments[0], where)
    if change is None:
        return None

    def walk(value: Any, change_text: _Text) -> Any:
        new = [change(each, change_text) for each in value]
        return kind(new) if any(map(is_not, new, value)) else value

    return walk


def _of_dict(arguments: tuple[Any, ...], where: str) -> _Change | None:
    keys, values = (_of(each, where) for each in arguments)
    if keys is None and values is None:
        return None

    def walk(value: dict[Any, Any], change_text: _Text) -> dict[Any, Any]:
        new = {
            keys(key, change_text) if keys else key: values(each, change_text) if values else each
            for key, each in value.items()
        }
        return _same_or(value, new)

    return walk


def _marks(hint: Any) -> tuple[object, ...]:
    return cast("tuple[object, ...]", getattr(hint, "__metadata__", ()))


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _or_nothing(change: _Change, value: tuple[object, ...], change_text: _Text) -> tuple[object, ...]:
    return value if change(value, change_text) is value else ()


def _same_or(old: Any, new: Any) -> Any:
    return old if old == new else new


def _in_text(text: str, change: _Text) -> str:
    return text if len(text) < MIN_CHARS else change(text)


def _in_any(value: object, change: _Text) -> object:
    return _same_or(value, in_texts(partial(_in_text, change=change), value))


def _in_json(text: str, change: _Text) -> str:
    try:
        value = msgspec.json.decode(text)
        changed = in_texts(change, value)
    except (msgspec.DecodeError, RecursionError):
        return change(text)
    if changed == value and change(text) == text:
        return text
    # Of two keys that are the same only one is decoded, and the other may hold a secret. A number that is a
    # secret is hidden in the text, which is no JSON any more.
    encoded = msgspec.json.encode(changed).decode()
    return encoded if (hidden := change(encoded)) == encoded else hidden


def _in_raw(body: msgspec.Raw, change: _Text) -> msgspec.Raw:
    text = bytes(body).decode()
    changed = _in_json(text, change)
    return body if changed == text else msgspec.Raw(changed.encode())
