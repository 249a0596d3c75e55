"""What a small model nearly wrote, tried where the tests fail: one that copies a faulty line is often of two
minds just there. Each alternative that its server told is put in the place of what was said, the model goes
on to the end of that line, and the tests decide. The first line with which they pass is kept.

Each is on record before it is written; whoever resumes goes on with the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec

from mainspring.context.mentions import is_source
from mainspring.errors import ModelError, PathRefused
from mainspring.events import (
    TESTS_SOURCE,
    Alternative,
    AlternativeTried,
    AssistantSaid,
    CallEnded,
    NoteAdded,
    SuiteEnded,
)
from mainspring.folds.ledger import Refusal
from mainspring.models import Request
from mainspring.models.drafts import WRITE, is_page, start_of
from mainspring.sandbox.files import Version
from mainspring.tools.write import WriteArguments
from mainspring.turns.model_request import ask, first_message
from mainspring.turns.runtime import Runtime
from mainspring.turns.small import CLOSING, as_asked
from mainspring.turns.spend import reserve, settle
from mainspring.turns.stuck import place_of
from mainspring.turns.suite import is_unasked, may_run, run_suite
from mainspring.workspace.affected import is_test

SOURCE = "alternative"
"""What such a request is reserved for, and who changes files."""
_LINE_TOKENS = 80
_MOST_TESTS_S = 60.0
_ENDS = ("\n",)
_FRESH = ("###", "```")
"""How a reply begins of a server that does not go on from a beginning."""
_COMMENTS = ("#", "//")
_LONGEST = 400
"""Characters of a line."""


class _Search(msgspec.Struct, frozen=True):
    """A reply whose files fail the tests, what it wrote, what was `tried` in its place before, and the
    request that it was the answer to."""

    said: AssistantSaid
    files: tuple[tuple[str, str], ...]
    tried: Sequence[AlternativeTried]
    request: Request
    input_tokens: int
    command: str


class _Line(msgspec.Struct, frozen=True):
    """A line in a file, by its number from 0, as it is and as it may be."""

    at: int
    old: str
    new: str

    @property
    def is_idle(self) -> bool:
        """Whether it is no other line, or another comment alone."""
        more = self.new.removeprefix(self.old.rstrip())
        is_comment = more != self.new and more.lstrip().startswith(_COMMENTS)
        return not self.new.strip() or is_comment or max(len(self.old), len(self.new)) > _LONGEST


async def try_alternatives(runtime: Runtime) -> bool:
    """Whether the tests pass with one of them, and the turn goes on. Else the files are as the model wrote
    them, but for what somebody else wrote meanwhile."""
    search = await _search(runtime)
    written = await _written(runtime, search) if search else None
    if search is None or written is None:
        return False
    is_found = False
    try:
        is_found = await _is_found(runtime, search, written)
    finally:
        if not is_found:  # also when the turn is stopped
            await written.put(dict(search.files))
    return is_found


async def _is_found(runtime: Runtime, search: _Search, written: _Written) -> bool:
    files, took_s = dict(search.files), 0.0
    contents = {*files.values()}
    after = max((each.number for each in search.tried), default=0)
    for number, each in enumerate(search.said.alternatives, 1):
        path, content = search.files[each.call]
        if number <= after or not is_source(path) or is_test(path):
            continue
        if took_s > _MOST_TESTS_S or (line := await _line(runtime, search, number, each)) is None:
            break
        for is_added in (False, True) if _begins_line(content, each) else (False,):
            text = _with(content, line.at, line.new, is_added=is_added)
            if line.is_idle or text in contents:
                continue
            contents.add(text)
            event = AlternativeTried(
                step=search.said.step,
                number=number,
                path=path,
                line=line.at + 1,
                old=line.old,
                new=line.new,
                is_added=is_added,
            )
            await runtime.record(event)
            if not await written.put(files | {path: text}):
                return False
            ran = await _tested(runtime, search, event)
            if ran is None or ran.outcome == "passed":
                return ran is not None
            took_s += ran.duration_s
    return False


async def _search(runtime: Runtime) -> _Search | None:
    said, place = runtime.state.last_reply, await place_of(runtime)
    if place is None or not place.checks or not said.alternatives or runtime.hooks:
        return None
    files, command = _files(said), " && ".join(place.checks)
    if not files or not await _are_done(runtime, said) or not await may_run(runtime, command):
        return None
    if not all([await is_unasked(runtime, WRITE, path=path, content="") for path, _ in files]):
        return None
    messages = await runtime.history.messages(runtime.recorder.get_blob)
    page = max((at for at, message in enumerate(messages) if is_page(message)), default=None)
    timeout_s = runtime.workbench.work.test_timeout_s
    if page is None:
        return None
    tried = await _tried(runtime)
    if not tried:
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
    return _Search(said=said, files=files, tried=tried, request=request, input_tokens=tokens, command=command)


def _files(said: AssistantSaid) -> tuple[tuple[str, str], ...]:
    """The files of a reply; none where it did anything else, or where a secret stands in one."""
    found: dict[str, str] = {}
    for call in said.calls:
        if call.name != WRITE or "__secret_" in call.arguments:
            return ()
        arguments = msgspec.json.decode(call.arguments, type=WriteArguments)
        found[arguments.path] = arguments.content
    return tuple(found.items()) if len(found) == len(said.calls) else ()


async def _are_done(runtime: Runtime, said: AssistantSaid) -> bool:
    """Whether every file of a reply was written, or was so already."""
    ended = await runtime.journal.read(after=await _said_seq(runtime), kinds=("CallEnded",))
    done = {
        item.event.call for item in ended if isinstance(item.event, CallEnded) and not item.event.is_error
    }
    return all(call.call in done for call in said.calls)


async def _said_seq(runtime: Runtime) -> int:
    said = await runtime.journal.last("AssistantSaid")
    return said.seq if said else 0


async def _tried(runtime: Runtime) -> list[AlternativeTried]:
    """Those of the last reply that are on record."""
    read = await runtime.journal.read(after=await _said_seq(runtime), kinds=("AlternativeTried",))
    return [item.event for item in read if isinstance(item.event, AlternativeTried)]


class _Written:
    """The files of a reply on the disk, where nobody else changed them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._known: dict[str, tuple[str, Version]] = {}

    def look(self, path: str, texts: Collection[str]) -> bool:
        """Whether a file holds one of these texts."""
        try:
            found = self._runtime.workbench.files.read(path)
        except (OSError, PathRefused):
            return False
        text = next((each for each in texts if _bytes(each) == found.data), None)
        if text is not None:
            self._known[path] = (text, found.version)
        return text is not None

    async def put(self, files: Mapping[str, str]) -> bool:
        """Writes what is not so already; whether that was possible. A file that somebody else changed stays
        as it is."""
        changed = {path: text for path, text in files.items() if self._known[path][0] != text}
        if not changed:
            return True
        machine, call = self._runtime.workbench.time_machine, f"{SOURCE}:{self._runtime.last_seq}"
        await machine.begin(call)
        try:
            return all([await asyncio.to_thread(self._write, path, text) for path, text in changed.items()])
        finally:
            if seen := await machine.end([call], self._runtime.recorder.put_blobs):
                await self._runtime.record(seen, is_durable=False)

    def _write(self, path: str, text: str) -> bool:
        files = self._runtime.workbench.files
        try:
            version = files.write(path, _bytes(text), unchanged_since=self._known[path][1])
        except (OSError, PathRefused):
            return False
        self._runtime.workbench.toolbox.seen.add(files.resolve(path), version)
        self._known[path] = (text, version)
        return True


async def _written(runtime: Runtime, search: _Search) -> _Written | None:
    """The files as the reply or one of its alternatives left them; None when they hold anything else."""
    written = _Written(runtime)
    for path, content in search.files:
        texts = {content} | {
            _with(content, each.line - 1, each.new, is_added=each.is_added)
            for each in search.tried
            if each.path == path
        }
        if not await asyncio.to_thread(written.look, path, texts):
            return None
    return written


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", errors="surrogatepass")


async def _line(runtime: Runtime, search: _Search, number: int, alternative: Alternative) -> _Line | None:
    """The line as the model goes on with an alternative; None when it cannot be asked, or does not go on. A
    line that did not come to its end is an empty one."""
    _, content = search.files[alternative.call]
    start = content.rfind("\n", 0, alternative.at) + 1
    begun = content[start : alternative.at] + alternative.text
    line = _Line(content.count("\n", 0, start), content[start:].partition("\n")[0], begun.partition("\n")[0])
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


def _with(content: str, at: int, new: str, *, is_added: bool) -> str:
    lines = content.split("\n")
    return "\n".join([*lines[:at], new, *lines[at if is_added else at + 1 :]])


async def _tested(runtime: Runtime, search: _Search, tried: AlternativeTried) -> SuiteEnded | None:
    """What the tests say to a line; None when they cannot run."""
    timeout_s = runtime.workbench.work.test_timeout_s
    ran = await run_suite(runtime, search.command, "change", timeout_s=timeout_s)
    if ran is not None and ran.ended.outcome == "passed":
        told = f"Line {tried.line} of {tried.path} is now `{tried.new.strip()}`. All tests pass. {CLOSING}"
        await runtime.record(NoteAdded(text=told, source=TESTS_SOURCE))
    return ran.ended if ran else None
