"""Takes one turn without a screen. What the agent says goes to standard output, what it does to standard
error, and the exit code tells how it ended.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click
from msgspec.structs import replace

from mainspring.app import build as app
from mainspring.app.operations.usual_attempts import usual_attempts
from mainspring.app.policies import rule_warnings
from mainspring.app.workspaces import AllowHome
from mainspring.cli.ask import approver
from mainspring.cli.config import load_config
from mainspring.cli.session_branch import begin_branch, commit_branch
from mainspring.cli.streams import OutputLost, is_person_there
from mainspring.cli.system import say_limits
from mainspring.documents.json_lines import as_json
from mainspring.errors import UsageError
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    AssistantSaid,
    AttemptsEnded,
    AttemptsStarted,
    Cap,
    Effort,
    Ending,
    Event,
    Limits,
    Media,
    Profile,
    Recorded,
    SessionStarted,
    StatusDelta,
    TextDelta,
    TurnEnded,
    UserSaid,
)
from mainspring.events.escaping import escape_json
from mainspring.secrets.screen import plain
from mainspring.session.session import Session
from mainspring.settings import Config
from mainspring.system import stop_signals

if TYPE_CHECKING:
    from mainspring.app.operations.attachments import Attached

Code = TypeVar("Code", int, int | None)
_ATTACHMENTS = "mainspring.app.operations.attachments"
_LINES = "mainspring.documents.lines"
_OUTPUTS = "mainspring.app.operations.outputs"
_EXIT_CODES: dict[Ending, int] = {
    "done": 0,
    "failed": 1,
    "blocked": 3,
    "waiting": 3,
    "budget": 4,
    "limit": 5,
    "interrupted": 130,
}


async def take_turn(
    text: str,
    session: str,
    folder: Path | None = None,
    *,
    is_branched: bool = False,
    is_retry: bool = False,
    is_json: bool,
    is_quiet: bool = False,
    engine: str,
    models: Sequence[str],
    fallback: Sequence[str],
    effort: Effort | None,
    mode: str | None,
    sandbox: str | None,
    machine: str = "",
    max_steps: int | None,
    max_tokens: int | None,
    max_cost_usd: float | None,
    max_cost_usd_today: float | None,
    max_calls: int | None,
    allow_unpriced: bool,
    timeout: float | None,
    allow_home: AllowHome = False,
    profile: Profile | None = None,
    attach: Sequence[Path] = (),
    output_schema: Path | None = None,
    answers: Sequence[ApprovalGiven] = (),
    attempts: int | None = None,
    checks: Sequence[str] = (),
    control: Control | None = None,
) -> int:
    """Says something, or gives answers, or just goes on; prints what happens; gives the exit code."""
    files, config = _attached_files(attach, text), _config(machine)
    limits = Limits(max_tokens=max_tokens, max_cost_usd=max_cost_usd, day=Cap(usd=max_cost_usd_today))
    opened = app.open(
        folder or Path(),
        session=session,
        engine=engine,
        model=next(iter(models), ""),
        fallback=(*models[1:], *fallback),
        effort=effort,
        profile=profile,
        mode=mode or "",
        sandbox=sandbox or "",
        output=import_module(_OUTPUTS).load_schema(output_schema) if output_schema else None,
        limits=replace(limits, max_steps=max_steps, max_calls=max_calls, timeout_s=timeout),
        allow_unpriced=allow_unpriced,
        allow_home=allow_home,
        approver=control or approver(),
        config=config,
        beginning=partial(begin_branch, folder or Path(), text) if is_branched else None,
    )
    async with opened as running:
        await _begin(running, config, answers, is_new=not session)
        said = await _said(running, text, files, is_retry=is_retry)
        print_events = partial(_print, running, is_json=is_json, is_quiet=is_quiet)
        code = await _work(running, *said, control, attempts, checks, print_events)
        await commit_branch(running)
    return code


class Control(Protocol):
    """Who drives a session from here on, and answers its questions."""

    async def __call__(self, question: ApprovalAsked, /) -> ApprovalGiven | None: ...

    async def drive(self, session: Session, text: str, media: Sequence[Media]) -> TurnEnded | None: ...


async def _work(
    session: Session,
    text: str,
    media: Sequence[Media],
    control: Control | None,
    attempts: int | None,
    checks: Sequence[str],
    print_events: Callable[[AsyncGenerator[Recorded]], Awaitable[int]],
) -> int:
    """Says something and prints what happens, or lets a program do both; gives the exit code."""
    if control is None:
        try:
            return await print_events(await _events(session, text, media, attempts, checks))
        except asyncio.CancelledError:
            return _stopped(session)
    with say_lost_output(f"mainspring resume {session.id}"):
        ended = await control.drive(session, text, media)
    return _EXIT_CODES[ended.ending] if ended else 0


async def _said(
    session: Session, text: str, files: Sequence[Attached], *, is_retry: bool
) -> tuple[str, Sequence[Media]]:
    """What a person says; with `is_retry` what they said last, which is taken back."""
    if is_retry:
        again = await session.undo("both")
        return again.text, again.media
    return text, await import_module(_ATTACHMENTS).keep(session, files) if files else ()


def _stop(session: Session, task: asyncio.Task[Any] | None) -> None:
    """Stops the running turn, or else what is done between turns: the checks of attempts."""
    if session.is_running:
        session.stop_soon()
    elif task:
        task.cancel()


def _stopped(session: Session) -> int:
    """The exit code of work that a signal stopped between two turns."""
    if task := asyncio.current_task():
        task.uncancel()
    click.echo(f"stopped while checks ran. Go on: mainspring resume {session.id}", err=True)
    return _EXIT_CODES["interrupted"]


def _config(machine: str) -> Config:
    say_limits()
    return replace(load_config(), machine=machine)


async def _begin(session: Session, config: Config, answers: Sequence[ApprovalGiven], *, is_new: bool) -> None:
    for warning in rule_warnings(config) if is_new else ():
        click.echo(plain(f"note: {warning}"), err=True)
    collect_garbage_again()
    task = asyncio.current_task()
    obey_signals(lambda _: _stop(session, task))
    for given in answers:
        await session.answer(given)


async def _events(
    session: Session,
    text: str,
    media: Sequence[Media],
    attempts: int | None,
    checks: Sequence[str],
) -> AsyncGenerator[Recorded]:
    """What happens from here on. Attempts that another process left go on, unless something else is said."""
    is_usual = attempts is None and not checks
    attempts = await usual_attempts(session, text) if is_usual else attempts or 1
    if not session.opened_seq and attempts == 1 and not checks:
        return session.watch(text, media)
    attempted = import_module("mainspring.app.operations.attempts")  # a plain question has no need of it
    if attempts > 1 or checks:
        take = attempted.take_attempts
        return take(session, text, media, attempts=attempts, checks=checks, is_usual=is_usual)
    if text:
        await attempted.leave_attempts(session, "a person said something else")
    elif await attempted.are_attempts_open(session):
        return attempted.continue_attempts(session)
    return session.watch(text, media)


@contextmanager
def say_lost_output(command: str) -> Generator[None]:
    """Says that work ends because its output cannot be written, and how to go on."""
    try:
        yield
    except OutputLost:
        click.echo(f"stopping: standard output cannot be written. Go on: {command}", err=True)
        raise


def collect_garbage_again() -> None:
    """What was loaded by now stays, and is not looked at again."""
    gc.freeze()
    gc.enable()


def _attached_files(attach: Sequence[Path], text: str) -> list[Attached]:
    if attach and not text:
        raise UsageError("--attach needs a message.", remedy="Give the message that the files belong to.")
    return [import_module(_ATTACHMENTS).attached(path) for path in attach]


def obey_signals(stop: Callable[[signal.Signals], None]) -> None:
    """The first signal stops the work and lets it be recorded, the second ends everything at once; but a
    terminal that is closed sends SIGHUP, and its shell once more."""
    loop, received = asyncio.get_running_loop(), list[signal.Signals]()

    def on_signal(number: signal.Signals) -> None:
        if received and number.name != "SIGHUP":
            os._exit(130)
        if not received:
            received.append(number)
            click.echo("stopping; press again to quit at once", err=True)
            stop(number)

    for number in stop_signals():
        loop.add_signal_handler(number, on_signal, number)


async def _print(session: Session, events: AsyncGenerator[Recorded], *, is_json: bool, is_quiet: bool) -> int:
    with say_lost_output(f"mainspring resume {session.id}"):
        return await (_print_json(events) if is_json else _print_text(session, events, is_quiet=is_quiet))


async def _print_json(events: AsyncGenerator[Recorded]) -> int:
    code = 0
    write = sys.stdout.buffer.write
    async with aclosing(events):
        async for recorded in events:
            if recorded.seq:
                write(as_json(recorded) + b"\n")
                sys.stdout.flush()
            code = exit_code(recorded.event, code)
    return code


async def _print_text(session: Session, events: AsyncGenerator[Recorded], *, is_quiet: bool) -> int:
    if not is_quiet:
        click.echo(f"session {session.id}", err=True)
    code: int | None = None
    is_alone = is_quiet or not sys.stdout.isatty()
    lines = Lines(is_structured=session.output is not None, is_alone=is_alone, is_quiet=is_quiet)
    async with aclosing(events):
        async for recorded in events:
            lines.show(recorded)
            code = exit_code(recorded.event, code)
    lines.end()
    if code is None:
        click.echo("Nothing to continue: the last turn is done. Give a new message.", err=True)
        return 0
    if session.output is not None and code == 0:
        click.echo(
            escape_json(import_module(_OUTPUTS).as_output(session.state.last_reply.text, session.output))
        )
    return code


def exit_code(event: Event, before: Code) -> int | Code:
    """What the exit code is by this event; attempts none of which passed are never a success."""
    match event:
        case TurnEnded(ending=ending):
            return _EXIT_CODES[ending]
        case AttemptsEnded(is_passed=is_passed, ending=ending):
            return 0 if is_passed else _EXIT_CODES[ending] or 1
        case _:
            return before


class Lines:
    """Events as they come: what the agent says to standard output, what it does to standard error. When the
    answer is structured, it alone goes to standard output, by whoever has it whole. `is_alone` is the same
    for a text: for a program that reads it, what is said between calls is no answer. A turn `in_goal` is told
    as a part of it; `is_quiet` tells only how a turn ended that is not done."""

    def __init__(
        self,
        *,
        is_structured: bool = False,
        is_alone: bool = False,
        is_quiet: bool = False,
        in_goal: bool = False,
    ) -> None:
        self._in_goal = in_goal
        self._is_midline = False
        self._is_structured = is_structured
        self._is_alone = is_alone and not is_structured
        self._is_quiet = is_quiet
        self._answer = ""
        self._has_attempts = False

    def end(self) -> None:
        """Nothing more comes: the last reply is the answer."""
        if self._answer:
            click.echo(plain(self._answer.rstrip("\n")))
            self._answer = ""

    def show(self, recorded: Recorded) -> None:
        event = recorded.event
        if isinstance(event, AttemptsStarted):
            self._has_attempts = True
        if self._is_alone and isinstance(event, AssistantSaid):
            self._hold(event)
        if isinstance(event, TurnEnded) and not self._has_attempts:
            self.end()
        if self._is_quiet and not (isinstance(event, TurnEnded) and event.ending != "done"):
            return
        if isinstance(event, TextDelta) and self._is_alone:
            return
        if isinstance(event, TextDelta):
            click.echo(plain(event.text), nl=False, err=self._is_structured)
            self._is_midline = not event.text.endswith("\n")
            return
        if self._is_midline and (recorded.seq or isinstance(event, StatusDelta)):
            click.echo(err=self._is_structured)
            self._is_midline = False
        _print_event(recorded, in_goal=self._in_goal)

    def _hold(self, said: AssistantSaid) -> None:
        """A reply is the answer when no other one follows and it asks for no calls."""
        earlier = (self._answer, said.text if said.calls else "")
        self._answer = "" if said.calls else said.text
        for text in filter(str.strip, () if self._is_quiet else earlier):
            click.echo(plain(text.rstrip("\n")), err=True)


def _print_event(recorded: Recorded, *, in_goal: bool = False) -> None:
    event = recorded.event
    if isinstance(event, StatusDelta):
        click.echo(plain(f"◷ {event.text}"), err=True)
    if recorded.seq == 0 or isinstance(event, SessionStarted):
        return
    if isinstance(event, ApprovalAsked) and is_person_there():
        return  # whoever asks says it all
    for line in _lines_of(event, in_goal=in_goal):
        if line:
            click.echo(plain(line), err=True)


def _lines_of(event: Event, *, in_goal: bool) -> list[str]:
    texts: Any = import_module(_LINES)
    if isinstance(event, UserSaid):
        return texts.attachment_lines(event.media)
    if isinstance(event, AssistantSaid):
        return [texts.call_line(call) for call in event.calls]
    if isinstance(event, TurnEnded):
        return [texts.ended_line(event, in_goal=in_goal)]
    return [texts.as_text(event)]
