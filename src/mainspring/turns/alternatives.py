"""What a small model nearly wrote, tried where the tests fail: one that copies a faulty line is often of two
minds just there. Each alternative that its server told is put in the place of what was said, the model goes
on to the end of that line, and the tests decide. The first line with which they pass is kept.

Each is on record before it is written; whoever resumes goes on with the next one.
"""

from __future__ import annotations

import asyncio

import msgspec

from mainspring.context.mentions import is_source
from mainspring.errors import ModelError, PathRefused
from mainspring.events import (
    TESTS_SOURCE,
    Alternative,
    AlternativeTried,
    AssistantSaid,
    NoteAdded,
    SuiteEnded,
)
from mainspring.folds.ledger import Refusal
from mainspring.models import Request
from mainspring.models.drafts import WRITE, is_page, start_of
from mainspring.tools.write import WriteArguments
from mainspring.turns.model_request import ask, first_message
from mainspring.turns.runtime import Runtime
from mainspring.turns.small import CLOSING, as_asked
from mainspring.turns.spend import reserve, settle
from mainspring.turns.stuck import place_of
from mainspring.turns.suite import is_unasked, may_run, run_suite

SOURCE = "alternative"
"""What such a request is reserved for, and who changes files."""
_LINE_TOKENS = 80
_MOST_TESTS_S = 60.0
_ENDS = ("\n",)
_FRESH = ("###", "```")
_COMMENTS = ("#", "//")
"""How a reply begins of a server that does not go on from a beginning."""


class _Search(msgspec.Struct, frozen=True):
    """A reply whose files fail the tests, what it wrote, and the request that it was the answer to."""

    said: AssistantSaid
    files: tuple[tuple[str, str], ...]
    request: Request
    input_tokens: int
    command: str


class _Line(msgspec.Struct, frozen=True):
    """A line in a file, as it is and as it may be; `until` is where the old one ends."""

    start: int
    until: int
    old: str
    new: str

    @property
    def is_idle(self) -> bool:
        """Whether it is no other line, or another comment alone."""
        more = self.new.removeprefix(self.old.rstrip())
        return not self.new.strip() or (more != self.new and more.lstrip().startswith(_COMMENTS))


async def try_alternatives(runtime: Runtime) -> bool:
    """Whether the tests pass with one of them, and the turn goes on. Else the files are as the model wrote
    them."""
    search = await _search(runtime)
    if search is None:
        return False
    tried = await _tried(runtime)
    contents, took_s = {content for _, content in search.files}, 0.0
    for number, each in enumerate(search.said.alternatives, 1):
        path, content = search.files[each.call]
        if number <= tried or not is_source(path):
            continue
        line = await _line(runtime, search, number, each)
        if line is None or took_s > _MOST_TESTS_S:
            break
        for is_added in (False, True) if _begins_line(content, each) else (False,):
            text = _with(content, line, is_added=is_added)
            if line.is_idle or text in contents:
                continue
            contents.add(text)
            ran = await _tested(runtime, search, number, line, text, is_added=is_added)
            if ran is None:
                return False
            if ran.outcome == "passed":
                return True
            took_s += ran.duration_s
    for path, content in search.files:
        await _put(runtime, path, content)
    return False


async def _search(runtime: Runtime) -> _Search | None:
    said, place = runtime.state.last_reply, await place_of(runtime)
    if place is None or not place.checks or not said.alternatives or runtime.hooks:
        return None
    files = _files(said)
    command = " && ".join(place.checks)
    paths = {path for path, _ in files}
    if not files or not await may_run(runtime, command):
        return None
    if not all([await is_unasked(runtime, WRITE, path=path, content="") for path in paths]):
        return None
    messages = await runtime.history.messages(runtime.recorder.get_blob)
    page = max((at for at, message in enumerate(messages) if is_page(message)), default=None)
    timeout_s = runtime.workbench.work.test_timeout_s
    if page is None:
        return None
    ran = await run_suite(runtime, command, "task", timeout_s=timeout_s)
    if ran is None or ran.ended.outcome != "failed":
        return None
    state, model = runtime.state, runtime.models.current
    context = first_message(model, state.prompt.context)
    asked = await as_asked(
        runtime,
        Request(
            system=state.prompt.system, tools=state.prompt.tools, messages=[*context, *messages[: page + 1]]
        ),
    )
    request = msgspec.structs.replace(
        asked.short or asked, tools=(), short=None, temperature=0.0, alternatives=0, stops=_ENDS
    )
    size = sum(map(len, request.messages)) + len(request.system)
    tokens = int(size / runtime.history.bytes_per_token)
    return _Search(said=said, files=files, request=request, input_tokens=tokens, command=command)


def _files(said: AssistantSaid) -> tuple[tuple[str, str], ...]:
    """The files of a reply; none where it did anything else, or where a secret stands in one."""
    found: list[tuple[str, str]] = []
    for call in said.calls:
        if call.name != WRITE or "__secret_" in call.arguments:
            return ()
        arguments = msgspec.json.decode(call.arguments, type=WriteArguments)
        found.append((arguments.path, arguments.content))
    return tuple(found)


async def _tried(runtime: Runtime) -> int:
    """How many alternatives of the last reply are on record."""
    said = await runtime.journal.last("AssistantSaid")
    read = await runtime.journal.read(after=said.seq if said else 0, kinds=("AlternativeTried",))
    return max((each.event.number for each in read if isinstance(each.event, AlternativeTried)), default=0)


async def _line(runtime: Runtime, search: _Search, number: int, alternative: Alternative) -> _Line | None:
    """The line as the model goes on with an alternative; None when it cannot be asked, or does not go on. A
    line that did not come to its end is an empty one."""
    _, content = search.files[alternative.call]
    until = content.find("\n", alternative.at)
    until = len(content) if until < 0 else until
    start = content.rfind("\n", 0, alternative.at) + 1
    begun = content[start : alternative.at] + alternative.text
    line = _Line(start, until, content[start:until], begun.partition("\n")[0])
    if "\n" in begun:
        return line
    request = msgspec.structs.replace(
        search.request,
        start=start_of(search.files, alternative.call, alternative.at) + alternative.text,
        max_output_tokens=_LINE_TOKENS,
    )
    reserved = await reserve(
        runtime,
        source=SOURCE,
        spend=f"{SOURCE}:{search.said.step}.{number}",
        input_tokens=search.input_tokens,
    )
    if isinstance(reserved, Refusal):
        return None
    try:
        reply, finished = await ask(
            runtime, runtime.models.current, request, reserved, input_tokens=search.input_tokens
        )
    except ModelError:
        return None  # on record; the next attempt meets it as well
    await settle(runtime, reserved, finished.usage)
    text = reply.text.removeprefix(request.start)
    if text == reply.text and text.startswith(_FRESH):
        return None
    is_whole = finished.stop == "end"
    return msgspec.structs.replace(line, new=begun + text.partition("\n")[0].rstrip() if is_whole else "")


def _begins_line(content: str, alternative: Alternative) -> bool:
    before = content[: alternative.at].rpartition("\n")[2]
    return not before.strip()


def _with(content: str, line: _Line, *, is_added: bool) -> str:
    rest = f"\n{content[line.start :]}" if is_added else content[line.until :]
    return content[: line.start] + line.new + rest


async def _tested(
    runtime: Runtime, search: _Search, number: int, line: _Line, text: str, *, is_added: bool
) -> SuiteEnded | None:
    """What the tests say to a file with that line; None when it cannot be written, or they cannot run."""
    path, content = search.files[search.said.alternatives[number - 1].call]
    tried = AlternativeTried(
        step=search.said.step,
        number=number,
        path=path,
        line=content.count("\n", 0, line.start) + 1,
        old=line.old,
        new=line.new,
        is_added=is_added,
    )
    await runtime.record(tried)
    if not await _put(runtime, path, text):
        return None
    timeout_s = runtime.workbench.work.test_timeout_s
    ran = await run_suite(runtime, search.command, "change", timeout_s=timeout_s)
    if ran is not None and ran.ended.outcome == "passed":
        told = f"Line {tried.line} of {path} is now `{line.new.strip()}`. All tests pass. {CLOSING}"
        await runtime.record(NoteAdded(text=told, source=TESTS_SOURCE))
    return ran.ended if ran else None


async def _put(runtime: Runtime, path: str, text: str) -> bool:
    """Writes a file that the model wrote in this turn; whether that was possible."""
    machine, files = runtime.workbench.time_machine, runtime.workbench.files
    call = f"{SOURCE}:{runtime.last_seq}"
    await machine.begin(call)
    try:
        version = await asyncio.to_thread(files.write, path, text.encode("utf-8", errors="surrogatepass"))
        runtime.workbench.toolbox.seen.add(files.resolve(path), version)
    except (OSError, PathRefused):
        return False
    finally:
        if changed := await machine.end([call], runtime.recorder.put_blobs):
            await runtime.record(changed, is_durable=False)
    return True
