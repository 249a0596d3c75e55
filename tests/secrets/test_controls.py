"""No control character is recorded in what is said to a model, whoever says it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.events import AssistantSaid, CallAsked, CallEnded, GuardTripped, NoteAdded, ToolSpec, UserSaid
from mainspring.models import (
    AssistantMessage,
    Attachment,
    Request,
    ResultsMessage,
    ToolResult,
    UserMessage,
    actions,
)
from mainspring.secrets.screen import without_controls
from mainspring.tools.schema import tool
from tests.models.every_wire import WIRES, build
from tests.stage import Stage, call, calls, says, take

DIRTY = "a\x00b\x1b[31mred\x1b[0m\x1b]0;title\x07 c\x07\r\nd\re\tf\x85"
CLEAN = "a␀bred c␇\nd\ne\tf<U+0085>"


@given(st.text(st.characters(codec="utf-8")))
def test_no_control_character_but_tab_and_newline_is_left_and_other_text_stays(text: str) -> None:
    clean = without_controls(text)
    assert not [char for char in clean if (char < " " or "\x7f" <= char <= "\x9f") and char not in "\t\n"]
    assert without_controls(clean) == clean
    if not any(char < " " or "\x7f" <= char <= "\x9f" for char in text):
        assert clean == text


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        (DIRTY, CLEAN),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(B\x1b=plain\x1b[?25l", "plain"),
        ("10%\r20%", "10%\n20%"),
        ("👩‍💻 עברית \u200f", "👩‍💻 עברית \u200f"),
    ],
)
def test_sequences_for_terminals_are_left_out_and_the_rest_is_written_out(text: str, clean: str) -> None:
    assert without_controls(text) == clean


def test_what_people_programs_tools_and_models_say_is_recorded_and_sent_without_them(tmp_path: Path) -> None:
    async def noisy() -> str:
        """Prints what a terminal would obey."""
        return DIRTY

    stage = Stage(tmp_path, calls(call("noisy", {})), says(DIRTY), says("Done."))
    stage.tools.append(tool(noisy, effect="read"))

    async def told() -> None:
        async with stage.opened() as session:
            await session.note(DIRTY)
            await take(session, DIRTY)
            await take(session, "again")

    asyncio.run(told())
    assert [said.text for said in (*stage.events(NoteAdded), *stage.events(UserSaid)[:1])] == [CLEAN, CLEAN]
    assert [ended.output for ended in stage.events(CallEnded)] == [CLEAN]
    assert stage.events(AssistantSaid)[1].text == CLEAN
    assert not [message for message in stage.requests[-1].messages if b"\\u00" in message]


def test_a_tool_whose_name_holds_nul_leaves_none_in_what_the_model_is_sent(tmp_path: Path) -> None:
    wrong = [calls(call("re\0ad", {"n": number})) for number in range(4)]
    stage = Stage(tmp_path, *wrong, says("Done."))

    async def told() -> None:
        async with stage.opened() as session:
            shown = await session.attach(DIRTY.encode(), "text/plain", "a\x1b[31m.txt")
            async for _ in session.watch("Do it.", [shown]):
                pass

    asyncio.run(told())
    assert stage.events(GuardTripped)
    texts = b"".join(
        part for message in stage.requests[-1].messages for part in message.split(b'"name"')[::2]
    )
    assert b"\\u0000" not in texts
    assert b"\\u001b" not in texts


@pytest.mark.parametrize("wire", [*WIRES, "schema"])
def test_no_request_holds_nul_wherever_a_history_has_one(wire: str) -> None:
    asked = CallAsked(call="c00001000", name="re\0ad", arguments='{"a": "x\0y')
    messages = [
        UserMessage("a\0b", (Attachment("text/plain", b"a\0b", "n\0"),)),
        AssistantMessage((asked,)),
        ResultsMessage((ToolResult(call="c00001000", name="re\0ad", text="no\0"),)),
        UserMessage("a literal \\u0000 stays"),
    ]
    model = build("chat" if wire == "schema" else wire)
    encode = actions.encode if wire == "schema" else model.encode
    tool = ToolSpec(name="read", description="d\0", parameters={"type": "object"})
    body = model.body(Request("s\0", (tool,), [encode(message) for message in messages]))

    def texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        return [text for each in inner for text in texts(each)]

    found = texts(msgspec.json.decode(body))
    arguments = [text for each in found if each.endswith('y"}') for text in texts(msgspec.json.decode(each))]
    assert not [text for text in (*found, *arguments) if "\0" in text]
    assert any("\\u0000 stays" in text for text in found)
