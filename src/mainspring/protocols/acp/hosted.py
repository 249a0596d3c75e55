"""One open session and its client: prompts go in, what is recorded goes out in order, questions are asked.

A task holds the session open. Another one tells the client everything, also what other faces make happen; a
prompt is answered when the turn that it wanted has ended and all of it was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any

import msgspec
from acp import RequestError

from mainspring.app.operations.answers import Approver
from mainspring.app.operations.attachments import keep
from mainspring.app.operations.context import window_of
from mainspring.errors import MainspringError
from mainspring.events import ApprovalAsked, ApprovalGiven, TurnEnded
from mainspring.protocols.acp.client import AcpClient
from mainspring.protocols.acp.content import prompt_content
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
        self._failure: BaseException | None = None
        self._prompts: list[_Prompt] = []
        self._preparing = 0
        self._is_cancelled = False
        self._told: dict[str, asyncio.Event] = {}
        self._last_seq = 0
        self._updates: SessionUpdates | None = None

    @property
    def session(self) -> Session:
        if self._session is None:
            raise RequestError(-32603, f"Session {self.id} is closed.")
        return self._session

    async def run(self) -> None:
        """Opens the session and holds it. What goes wrong is told to whoever waits for it."""
        try:
            await self._hold()
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
        self._leave.set()
        await self._is_over.wait()

    async def prompt(self, blocks: Sequence[Any]) -> TurnEnded:
        """Says it to the agent, and gives the end of the turn; a message to a running turn enters it."""
        session, is_early = self.session, False
        self._preparing += 1
        self._is_cancelled = False
        try:
            content = prompt_content(blocks, session.state.workspace)
            media = await keep(session, content.files)
            await session.say(content.text, media)
            turn = session.state.turn + (0 if session.state.is_turn_open else 1)
            prompt = _Prompt(turn, asyncio.get_running_loop().create_future())
            self._prompts.append(prompt)
            is_early = self._is_cancelled
        finally:
            self._preparing -= 1
        if is_early:
            await session.stop()
        return await prompt.ended

    async def cancel(self) -> None:
        """Stops what the client asked for, also what is only about to begin."""
        self._is_cancelled = self._preparing > 0
        if self._session is not None:
            await self._session.stop()

    async def _hold(self) -> None:
        try:
            async with asyncio.TaskGroup() as group, self._open(self.id, "", self._answer) as session:
                self.id, self._session = session.id, session
                self._last_seq = session.opened_seq
                self._updates = self._made_updates(session)
                group.create_task(self._tell(session))
                self._is_open.set()
                await self._leave.wait()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from errors

    def _made_updates(self, session: Session) -> SessionUpdates:
        return SessionUpdates(
            session.state.workspace,
            session.journal.get,
            lambda: window_of(session.state.model, self._config),
            has_terminals=self._client.has_terminals,
        )

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
                case _:
                    pass

    def _end_prompts(self, ended: TurnEnded) -> None:
        for prompt in [each for each in self._prompts if each.turn <= ended.turn]:
            self._prompts.remove(prompt)
            if not prompt.ended.done():
                prompt.ended.set_result(ended)

    async def _answer(self, question: ApprovalAsked) -> ApprovalGiven | None:
        """Asks the client, once it knows what the question is about."""
        await self._told.setdefault(question.call, asyncio.Event()).wait()
        assert self._updates is not None  # noqa: S101 - a question comes from an open session
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
