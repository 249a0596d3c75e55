"""One open session and its client: prompts go in, what is recorded goes out in order, questions are asked.

A task holds the session open. Another one tells the client everything, also what other faces make happen; a
prompt is answered when the turn that it wanted has ended and all of it was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, suppress
from typing import Any

import msgspec
from acp import RequestError, helpers, schema

from mainspring.app.operations.answers import Approver, is_question
from mainspring.app.operations.attachments import Attached, attached, attachment, keep
from mainspring.app.operations.context import window_of
from mainspring.app.operations.sessions import live_events
from mainspring.errors import MainspringError, UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, EffortChosen, ModeChosen, ModelChosen, TurnEnded
from mainspring.protocols.acp.client import AcpClient
from mainspring.protocols.acp.commands import available_commands, is_command, run_slash_command
from mainspring.protocols.acp.content import PromptContent, prompt_content
from mainspring.protocols.acp.options import options_of
from mainspring.protocols.acp.permissions import ask_client
from mainspring.protocols.acp.updates import SessionUpdates
from mainspring.session.session import Session
from mainspring.settings import Config

Open = Callable[[str, str, Approver], AbstractAsyncContextManager[Session]]
"""Opens the session of an id, or a new one without, in a mode, with who answers its questions."""


class _Prompt(msgspec.Struct, frozen=True):
    """A prompt whose turn has not ended."""

    turn: int
    ended: asyncio.Future[TurnEnded]


class HostedSession:
    """`run` holds the session open until `close`; everything else may be used once `opened` returned."""

    def __init__(self, client: AcpClient, config: Config, open_session: Open, session: str = "") -> None:
        self.id = session
        self._client = client
        self._config = config
        self._open = open_session
        self._session: Session | None = None
        self._is_open = asyncio.Event()
        self._leave = asyncio.Event()
        self._is_over = asyncio.Event()
        self._is_closing = False
        self._mode = ""
        self._failure: BaseException | None = None
        self._prompts: list[_Prompt] = []
        self._preparing = 0
        self._is_cancelled = False
        self._told: dict[str, asyncio.Event] = {}
        self._settings: tuple[str, str, str | None] = ("", "", None)
        self._windows: dict[str, int | None] = {}
        self._last_seq = -1
        self._updates: SessionUpdates | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RequestError(-32603, f"Session {self.id} is closed.")
        return self._session

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    async def run(self, *, is_replayed: bool = False) -> None:
        """Opens the session and holds it, its past told first if that is wanted. What goes wrong is told to
        whoever waits for it."""
        try:
            while not self._is_closing:
                await self._hold(is_replayed=is_replayed)
        except Exception as error:  # noqa: BLE001 - recorded by the session; the client's others go on
            self._failure = error
        finally:
            self._session = None
            self._is_over.set()
            self._is_open.set()
            for prompt in self._prompts:
                if not prompt.ended.done():
                    prompt.ended.set_exception(self._failure or ConnectionError("The session was closed."))
                    prompt.ended.exception()

    async def opened(self) -> Session:
        """The session, once it is open; raises what kept it from that."""
        await self._is_open.wait()
        self._raise_failure()
        return self.session

    async def close(self) -> None:
        """Ends its turn on record, and lets the journal go."""
        self._is_closing = True
        self._leave.set()
        await self._is_over.wait()

    async def prompt(self, blocks: Sequence[Any]) -> TurnEnded | None:
        """Says it to the agent, and gives the end of the turn; a message to a running turn enters it. A slash
        command is done at once, and has no turn."""
        session, is_early = await self.opened(), False
        self._preparing += 1
        self._is_cancelled = False
        try:
            content = await self._with_buffers(prompt_content(blocks, session.state.workspace))
            if is_command(content.text):
                await self.say(await run_slash_command(content.text, session, self._config))
                return None
            await self._say(session, content)
            turn = session.state.turn + (0 if session.state.is_turn_open else 1)
            prompt = _Prompt(turn, asyncio.get_running_loop().create_future())
            self._prompts.append(prompt)
            is_early = self._is_cancelled
        finally:
            self._preparing -= 1
        if is_early:
            await session.stop()
        return await prompt.ended

    async def say(self, text: str) -> None:
        """Tells the person something in place of the agent."""
        await self._client.update(self.id, helpers.update_agent_message_text(text))

    async def tell_commands(self) -> None:
        with suppress(ConnectionError):
            await self._client.update(self.id, available_commands())

    async def cancel(self) -> None:
        """Stops what the client asked for, also what is only about to begin."""
        self._is_cancelled = self._preparing > 0
        if self._session is not None:
            await self._session.stop()

    async def set_mode(self, mode: str) -> None:
        """From the next turn on: the session is opened again for it, now or when the turn has ended."""
        session = await self.opened()
        self._mode = "" if mode == session.state.mode else mode
        if self._mode and not session.is_turn_wanted:
            self._open_again()
            await self.opened()

    async def tell_past(self, session: Session) -> None:
        """Tells the client all that happened, in order."""
        updates = self._updates = self._made_updates(session)
        async with aclosing(live_events(session.journal, until=self._last_seq)) as events:
            async for recorded in events:
                for update in await updates.of(recorded, is_past=True):
                    await self._client.update(self.id, update)

    async def _with_buffers(self, content: PromptContent) -> PromptContent:
        """With what the editor has of the files that are pointed to, where that is not what is on disk."""
        unsaved: list[Attached] = []
        for path in content.links if self._client.can_read_files else ():
            with suppress(RequestError, UsageError):  # no text, not there, not open: the agent will look
                buffer = (await self._client.read_file(self.id, path)).encode(errors="replace")
                if attached(path).data != buffer:
                    unsaved.append(attachment(path.name, buffer))
        return msgspec.structs.replace(content, files=(*content.files, *unsaved))

    async def _say(self, session: Session, content: PromptContent) -> None:
        """A question that the agent asked and that the last turn ended with is answered by what is said."""
        asked = tuple(session.state.requests.open.values())
        is_free = not (session.is_running and session.state.is_turn_open)
        if asked and is_free and all(map(is_question, asked)) and not content.files:
            for question in asked:
                await session.approve(
                    question.call, arguments_sha256=question.arguments_sha256, feedback=content.text
                )
            await session.proceed()
        else:
            await session.say(content.text, await keep(session, content.files))

    def _open_again(self) -> None:
        self._is_open.clear()
        self._leave.set()

    async def _hold(self, *, is_replayed: bool) -> None:
        self._leave.clear()
        try:
            opened = self._open(self.id, self._mode, self._answer)
            async with asyncio.TaskGroup() as group, opened as session:
                self.id, self._session, self._mode = session.id, session, ""
                if self._updates is None:
                    self._last_seq, self._settings = session.opened_seq, _settings(session)
                    self._updates = self._made_updates(session)
                    if is_replayed:
                        await self.tell_past(session)
                    for call in session.state.open_calls:
                        for update in self._updates.announce(call.asked):
                            await self._client.update(self.id, update)
                group.create_task(self._tell(session))
                self._is_open.set()
                await self._leave.wait()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors
        finally:
            self._session = None

    def _made_updates(self, session: Session) -> SessionUpdates:
        return SessionUpdates(
            session.state.workspace,
            session.journal.get,
            lambda: self._window(session.state.model),
            has_terminals=self._client.has_terminals,
        )

    def _window(self, model: str) -> int | None:
        if model not in self._windows:
            self._windows[model] = window_of(model, self._config)
        return self._windows[model]

    async def _tell(self, session: Session) -> None:
        """Tells the client what happens from here on, as long as it listens."""
        try:
            async with aclosing(session.subscribe(self._last_seq, deltas=True)) as events:
                await self._tell_all(session, events)
        except ConnectionError:
            return

    async def _tell_all(self, session: Session, events: AsyncGenerator[Any]) -> None:
        assert self._updates is not None  # noqa: S101 - made before this task
        async for recorded in events:
            for update in await self._updates.of(recorded):
                await self._client.update(self.id, update)
            self._last_seq = recorded.seq or self._last_seq
            match recorded.event:
                case ApprovalAsked(call=call):
                    self._told.setdefault(call, asyncio.Event()).set()
                case TurnEnded() as ended if not session.is_turn_wanted:
                    self._end_prompts(ended)
                    if self._mode:
                        self._open_again()
                case ModeChosen() | ModelChosen() | EffortChosen():
                    await self._tell_options(session)
                case _:
                    pass

    async def _tell_options(self, session: Session) -> None:
        """Tells what can be set and has changed since the client heard of it."""
        if (settings := _settings(session)) == self._settings:
            return
        is_mode_new = settings[0] != self._settings[0]
        self._settings = settings
        options = {
            "sessionUpdate": "config_option_update",
            "configOptions": options_of(session, self._config),
        }
        if is_mode_new:
            await self._client.update(self.id, helpers.update_current_mode(session.state.mode))
        await self._client.update(self.id, schema.ConfigOptionUpdate.model_validate(options))

    def _end_prompts(self, ended: TurnEnded) -> None:
        for prompt in [each for each in self._prompts if each.turn <= ended.turn]:
            self._prompts.remove(prompt)
            if not prompt.ended.done():
                prompt.ended.set_result(ended)

    async def _answer(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """Asks the client, once it knows what the question is about."""
        assert self._updates is not None  # noqa: S101 - a question comes from an open session
        if not self._updates.is_known(question.call):
            await self._told.setdefault(question.call, asyncio.Event()).wait()
        try:
            return await ask_client(self._client, self.id, question, self._updates.known_call(question))
        except ConnectionError:
            return None
        finally:
            self._told.pop(question.call, None)

    def _raise_failure(self) -> None:
        match self._failure:
            case MainspringError() as error:
                raise error
            case None:
                pass
            case error:
                raise RequestError(-32603, f"The session failed: {error}.") from error


def _settings(session: Session) -> tuple[str, str, str | None]:
    return session.state.mode, session.state.model, session.state.effort
