"""No value can poison a journal: what is recorded can be read back, or nothing is written."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

import mainspring
from mainspring.errors import InvalidValue, MainspringError
from mainspring.events import STORED, Event, NoteAdded, Usage
from mainspring.secrets.recorder import Recorder
from mainspring.secrets.vault import Vault
from mainspring.testing import Stage
from mainspring.testing.memory import MemorySessions

WRONG: tuple[Any, ...] = (
    *("no such word", "a\ud800b", "", 9, -1, 1.5, float("nan"), float("inf"), True, None, b"bytes", 2**80),
    *((), [], {}, ("text",), [None], {"a": object()}, {1: 2}, object(), print, Path("/x"), {1, 2}),
    *(Usage(), NoteAdded(text="in the wrong place")),
)
KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3


def sample(hint: Any) -> Any:
    """Some value of a type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return sample(arguments[0])
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return None if type(None) in arguments else sample(arguments[0])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return made(hint)
    if hint is msgspec.Raw:
        return msgspec.Raw(b"{}")
    return {str: "x", int: 1, float: 1.0, bool: False, tuple: (), list: [], dict: {}}[origin or hint]


def made(kind: Any, /, **fields: Any) -> Any:
    """An event, or a part of one, with what it must have and these fields."""
    hints = get_type_hints(kind, include_extras=True)
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return kind(**{name: sample(hints[name]) for name in needed} | fields)


@pytest.mark.parametrize("kind", STORED, ids=lambda kind: kind.__name__)
def test_a_wrong_value_in_any_field_is_refused_or_can_be_read_back(kind: type[Event]) -> None:
    async def record() -> None:
        sessions = MemorySessions()
        recorder = Recorder(await sessions.create("s"), Vault())
        for name in kind.__struct_fields__:
            for value in WRONG:
                before = await recorder.journal.last_seq()
                try:
                    recorded = await recorder.record(made(kind, **{name: value}), NoteAdded(text="and this"))
                except InvalidValue:
                    recorded = ()
                read = await recorder.journal.read(after=before)
                assert [item.event for item in read] == [item.event for item in recorded]
                assert [type(item.event) for item in read] in ([], [kind, NoteAdded])
        await recorder.close()
        reader = await sessions.read("s")
        assert (await reader.verify()).events == await reader.last_seq()

    asyncio.run(record())


def test_a_value_that_is_refused_is_not_kept_as_a_secret_either() -> None:
    async def record() -> int:
        vault = Vault()
        recorder = Recorder(await MemorySessions().create("s"), vault)
        with pytest.raises(InvalidValue):
            await recorder.record(NoteAdded(text=KEY), NoteAdded(text=KEY, source=9))  # type: ignore[arg-type]
        return len(vault.kept().secrets)

    assert asyncio.run(record()) == 0


Work = Callable[[mainspring.Session], Awaitable[object]]
CALLS: dict[str, tuple[Work, str]] = {
    "effort": (lambda session: session.set_effort("xhigh"), "'low', 'medium', 'high', 'max'"),  # type: ignore[arg-type]
    "source": (lambda session: session.note("x", source=9), "source"),  # type: ignore[arg-type]
    "note": (lambda session: session.note(9), "text"),  # type: ignore[arg-type]
    "undo": (lambda session: session.undo("everything"), "'conversation', 'files', 'both'"),  # type: ignore[arg-type]
    "rewind": (lambda session: session.rewind(3, "all"), "'conversation', 'files', 'both'"),  # type: ignore[arg-type]
    "to_seq": (lambda session: session.rewind("3"), "to_seq"),  # type: ignore[arg-type]
    "effort_number": (lambda session: session.set_effort(float("nan")), "finite"),  # type: ignore[arg-type]
    "name": (lambda session: session.attach(b"x", "text/plain", b"x"), "bytes"),  # type: ignore[arg-type]
    "said": (lambda session: session.hear(None), "event"),  # type: ignore[arg-type]
    "media": (lambda session: session.say("x", media=("nope",)), "media"),  # type: ignore[arg-type]
    "text": (lambda session: session.ask(9), "text"),  # type: ignore[arg-type]
    "data": (lambda session: session.attach("x", "text/plain"), "data"),  # type: ignore[arg-type]
    "model": (lambda session: session.set_model(9), "name"),  # type: ignore[arg-type]
    "reason": (lambda session: session.set_model("scripted", reason=9), "reason"),  # type: ignore[arg-type]
    "decision": (lambda session: session.approve("c", "maybe", arguments_sha256=""), "'allow', 'reject'"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named_and_writes_nothing(name: str, tmp_path: Path) -> None:
    work, named = CALLS[name]
    stage = Stage(tmp_path, "One.", "Two.")

    async def called() -> tuple[int, int, str]:
        async with stage.open() as session:
            await session.ask("hi")
            before = await session.journal.last_seq()
            with pytest.raises(ValueError, match=named) as caught:
                await work(session)
            assert isinstance(caught.value, MainspringError)
            after = await session.journal.last_seq()
            return before, after, (await session.ask("and now?")).text

    before, after, text = asyncio.run(called())
    assert (after, text) == (before, "Two.")
    assert {request.verdict for request in stage.replay()} == {"same"}


async def unresolved(x: NoSuchType) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Has a type that is not there."""
    return str(x)


@pytest.mark.parametrize(
    "options",
    [
        *({"effort": "huge"}, {"limits": 3}, {"limits": mainspring.Limits(max_steps="x")}),  # type: ignore[arg-type]
        *({"instructions": 9}, {"system_prompt": 9}, {"session": 9}, {"mode": "x"}, {"output": 9}),
        *({"tools": (each,)} for each in (print, len, 9, "reed", lambda x: x, object(), unresolved)),
        {"tools": "read"},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_wrong_option_is_a_clear_error_and_makes_no_session(options: Any, tmp_path: Path) -> None:
    stage = Stage(tmp_path)

    async def opened() -> list[str]:
        with pytest.raises(MainspringError) as caught:
            async with stage.open(**options):
                pass
        assert caught.value.message
        return list(await stage.sessions.names())

    assert asyncio.run(opened()) == []
