"""What every toolbox must do, as checks that any test runner can run.

Give each check a `Make`: it builds a toolbox of the tools that it is given. Whatever a call asks for and
whatever its tool does, the answer is an `Output`; only a journal that fails is an exception.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

from mainspring.errors import JournalUnwritable
from mainspring.events import Blob, CallAsked, CallEnded, Event
from mainspring.folds.processes import Handles, Processes
from mainspring.sandbox import Sandbox
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.testing.journals import raises
from mainspring.tools import CallContext, FileVersions, Output, Tool, ToolFailed
from mainspring.tools.schema import tool
from mainspring.tools.toolbox import Prepared, Toolbox

Make = Callable[[Sequence[Tool]], Toolbox]

MALFORMED = (
    "[]",
    "null",
    '""',
    "3",
    "true",
    "{",
    '{"what": 3}',
    '{"what": "x", "more": 1}',
    "{}",
    "[" * 99_999,
)
"""Arguments that no tool with one required text field takes."""


def empty_place(*, kept: dict[str, bytes] | None = None, room: int = 1000) -> CallContext:
    """Somewhere to run a call that needs neither sandbox nor files; what it keeps goes into `kept`."""
    blobs = {} if kept is None else kept

    async def no_sandbox() -> Sandbox:
        raise AssertionError("this call needs no sandbox")

    async def keep(data: bytes, media_type: str) -> Blob:
        sha256 = hashlib.sha256(data).hexdigest()
        blobs[sha256] = data
        return Blob(sha256=sha256, size=len(data), media_type=media_type)

    async def give_back(sha256: str) -> bytes:
        return blobs[sha256]

    async def record(_event: Event) -> None:
        return

    async def ended(_calls: Collection[str]) -> Mapping[str, CallEnded]:
        return {}

    root = Path("/")
    return CallContext(
        call="c00001000",
        workspace=root,
        sandbox=no_sandbox,
        files=Files(policy(root, home=root)),
        show=lambda _text: None,
        keep=keep,
        kept=give_back,
        record=record,
        ended=ended,
        seen=FileVersions(),
        handles=Handles(None, Processes),
        room=room,
    )


async def echo(what: str) -> str:
    """Says what it is told."""
    return f"said {what}"


async def tools_are_shown_as_they_were_given(make: Make) -> None:
    async def other(number: int = 3) -> str:
        """Another."""
        return str(number)

    first, second = make([tool(echo), tool(other)]).specs
    assert (first.name, first.description) == ("echo", "Says what it is told.")
    assert first.parameters["required"] == ["what"]
    assert first.parameters["properties"]["what"] == {"type": "string"}
    assert second.parameters["properties"]["number"] == {"type": "integer", "default": 3}
    assert second.parameters.get("required", []) == []


async def a_call_that_fits_is_prepared_and_run(make: Make) -> None:
    output = await _run(make([tool(echo)]), '{"what": "hello"}')
    assert (output.text, output.is_error) == ("said hello", False)


async def an_unknown_tool_is_an_error_that_names_the_tools(make: Make) -> None:
    output = make([tool(echo)]).prepare(CallAsked(call="c", name="fly", arguments="{}"))
    assert isinstance(output, Output)
    assert output.is_error
    assert "fly" in output.text
    assert "echo" in output.text


async def arguments_that_do_not_fit_are_an_error_that_names_the_tool(make: Make) -> None:
    toolbox = make([tool(echo)])
    for arguments in MALFORMED:
        output = toolbox.prepare(CallAsked(call="c", name="echo", arguments=arguments))
        assert isinstance(output, Output), f"{arguments[:20]} was accepted"
        assert output.is_error
        assert "echo" in output.text


async def edited_arguments_replace_those_asked_for(make: Make) -> None:
    asked = CallAsked(call="c", name="echo", arguments='{"what": "asked"}')
    prepared = make([tool(echo)]).prepare(asked, '{"what": "edited"}')
    assert isinstance(prepared, Prepared)
    assert prepared.text == '{"what": "edited"}'
    output = await make([tool(echo)]).run(prepared, empty_place())
    assert output.text == "said edited"


async def whatever_a_tool_raises_is_an_error_output(make: Make) -> None:
    for fault in (ValueError("boom"), ToolFailed("boom"), TimeoutError("boom"), SystemExit("boom")):
        output = await _run(make([_raising(fault)]), "{}", name="broken")
        assert output.is_error
        assert "boom" in output.text
    assert (await _run(make([_raising(asyncio.CancelledError())]), "{}", name="broken")).is_error


async def a_failing_journal_is_not_the_tools_fault(make: Make) -> None:
    with raises(JournalUnwritable):
        await _run(make([_raising(JournalUnwritable("The disk is full."))]), "{}", name="broken")


async def what_is_not_an_output_is_an_error(make: Make) -> None:
    async def empty() -> str:
        """Gives nothing."""
        return None  # type: ignore[return-value]

    assert (await _run(make([tool(empty)]), "{}", name="empty")).is_error


async def half_a_character_does_not_stop_a_text(make: Make) -> None:
    async def halves() -> str:
        """Names a file that has no name in Unicode."""
        return "a\udc80b"

    assert (await _run(make([tool(halves)]), "{}", name="halves")).text == "a?b"


async def a_long_text_is_cut_and_kept_whole(make: Make) -> None:
    async def long() -> str:
        """Says much."""
        return text

    text = "".join(f"line {number}\n" for number in range(10_000))
    kept: dict[str, bytes] = {}
    output = await _run(make([tool(long)]), "{}", name="long", place=empty_place(kept=kept, room=1000))
    assert len(output.text) <= 1000
    assert output.text.startswith("line 0\n")
    assert output.text.endswith("line 9999\n")
    assert output.full is not None
    assert kept[output.full.sha256] == text.encode()


async def calls_run_side_by_side(make: Make) -> None:
    arrived: list[str] = []
    both = asyncio.Event()

    async def meet(what: str) -> str:
        """Waits for the other."""
        arrived.append(what)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return what

    toolbox = make([tool(meet)])
    runs = (_run(toolbox, f'{{"what": "{name}"}}', name="meet") for name in "ab")
    outputs = await asyncio.wait_for(asyncio.gather(*runs), 10)
    assert [output.text for output in outputs] == ["a", "b"]


async def a_cancelled_call_cleans_up_first(make: Make) -> None:
    is_running, cleaned = asyncio.Event(), asyncio.Event()

    async def tidy() -> str:
        """Cleans up when it is cancelled."""
        is_running.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()
        return ""

    await _cancel_when(is_running, _run(make([tool(tidy)]), "{}", name="tidy"))
    assert cleaned.is_set()


async def a_tool_that_ignores_cancellation_is_left_behind_within_a_second(make: Make) -> None:
    is_running, may_end = asyncio.Event(), asyncio.Event()

    async def deaf() -> str:
        """Does not hear."""
        is_running.set()
        while not may_end.is_set():
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                continue
        return ""

    loop = asyncio.get_running_loop()
    began = loop.time()
    await _cancel_when(is_running, _run(make([tool(deaf)]), "{}", name="deaf"))
    assert loop.time() - began < 1.5
    may_end.set()


CHECKS: tuple[Callable[[Make], Awaitable[None]], ...] = (
    tools_are_shown_as_they_were_given,
    a_call_that_fits_is_prepared_and_run,
    an_unknown_tool_is_an_error_that_names_the_tools,
    arguments_that_do_not_fit_are_an_error_that_names_the_tool,
    edited_arguments_replace_those_asked_for,
    whatever_a_tool_raises_is_an_error_output,
    a_failing_journal_is_not_the_tools_fault,
    what_is_not_an_output_is_an_error,
    half_a_character_does_not_stop_a_text,
    a_long_text_is_cut_and_kept_whole,
    calls_run_side_by_side,
    a_cancelled_call_cleans_up_first,
    a_tool_that_ignores_cancellation_is_left_behind_within_a_second,
)


async def _run(
    toolbox: Toolbox, arguments: str, *, name: str = "echo", place: CallContext | None = None
) -> Output:
    prepared = toolbox.prepare(CallAsked(call="c00001000", name=name, arguments=arguments))
    assert isinstance(prepared, Prepared), prepared.text
    return await toolbox.run(prepared, place or empty_place())


async def _cancel_when(ready: asyncio.Event, call: Awaitable[Output]) -> None:
    running = asyncio.ensure_future(call)
    await ready.wait()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled(), "a cancelled call was answered"


def _raising(error: BaseException) -> Tool:
    async def broken() -> str:
        """Raises."""
        raise error

    return tool(broken)
