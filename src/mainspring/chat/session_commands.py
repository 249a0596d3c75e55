"""Slash commands that tell the session something, or open another one."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import cast, get_args

import msgspec

from mainspring.app.modes import MODE_NAMES
from mainspring.app.operations.branches import HowToLand, land
from mainspring.app.operations.forks import fork
from mainspring.app.operations.sessions import list_sessions, rows_in
from mainspring.app.policies import MODE_ABOUT
from mainspring.chat.choosing import EFFORTS, choose, known_models
from mainspring.chat.cli_output import cli_output
from mainspring.chat.desk import Desk, SlashCommand
from mainspring.chat.seat import ChatOptions
from mainspring.chat.surface import Choice
from mainspring.chat.width import wrapped
from mainspring.documents.figures import local_time, money
from mainspring.documents.lines import change_line
from mainspring.errors import UsageError
from mainspring.events import Effort, Extent, UserSaid
from mainspring.secrets.screen import plain, plain_name

_EXTENTS = get_args(Extent)
_TITLE = 70
_CHOICES = 2
_NO_OTHER = (
    "No other model is known here. `mainspring keys add PROVIDER` stores a key, `mainspring models` lists"
    " providers, /model NAME goes on with any, and /model pull fetches a small one."
)


async def _model(desk: Desk, name: str) -> None:
    word, _, rest = name.partition(" ")
    if word == "pull":
        desk.write(await cli_output(desk, "models", "pull", *filter(None, (rest.strip(),))))
        return
    known = {} if name else await known_models(desk)
    if not name and len(known) < _CHOICES:
        text = f"model {plain_name(desk.session.state.model)}\n{_NO_OTHER}"
        desk.write(text if desk.surface.takes_lines else wrapped(text, desk.surface.columns))
    elif name := name or await choose(desk, "Model", desk.session.state.model, known):
        await desk.own.set_model(name)


async def _effort(desk: Desk, name: str) -> None:
    now = desk.session.state.effort or "auto"
    name = name or await choose(desk, "Effort", now, EFFORTS)
    if name and name not in EFFORTS:
        raise UsageError(f"{name!r} is no effort; it is {now}.", remedy=f"/effort {'|'.join(EFFORTS)}")
    if name:
        await desk.own.set_effort(None if name == "auto" else cast("Effort", name))


async def _mode(desk: Desk, name: str) -> None:
    now = desk.session.state.mode
    desk.check_idle()
    name = name or await choose(desk, "Mode", now, MODE_ABOUT)
    if name and name not in MODE_NAMES:
        raise UsageError(f"{name!r} is no mode; it is {now}.", remedy=f"/mode {'|'.join(MODE_NAMES)}")
    if name:
        desk.change(msgspec.structs.replace(desk.options, session=desk.own.id, mode=name))


async def _note(desk: Desk, text: str) -> None:
    if not text:
        raise UsageError("The note is empty.", remedy="/btw TEXT")
    await desk.session.note(text)


async def _say(desk: Desk, text: str) -> None:
    await desk.say(text)


async def _proceed(desk: Desk, _: str) -> None:
    if not await desk.own.proceed():
        raise UsageError("There is nothing to continue: the last turn is done.")


async def _compact(desk: Desk, how: str) -> None:
    if how not in ("", "undo"):
        raise UsageError(f"{how!r} says nothing about compacting.", remedy="/compact, or /compact undo")
    await (desk.own.expand() if how else desk.own.compact())


async def _stop(desk: Desk, handle: str) -> None:
    if handle:
        desk.write(await cli_output(desk, "stop", desk.session.id, handle))
    elif not desk.chat.stop():
        raise UsageError("No turn is running.")


async def _undo(desk: Desk, scope: str) -> None:
    said = await desk.own.undo(_extent(scope))
    desk.surface.set_input(said.text)


async def _rewind(desk: Desk, words: str) -> None:
    number, _, scope = words.partition(" ")
    if number.removeprefix("--") in _EXTENTS:
        number, scope = "", number
    said = await _said(desk)
    if not number:
        choices = [Choice(str(seq), f"{_clock(time_us)[11:]} {_title(text)}", _preview(text))
                   for seq, time_us, text in reversed(said)]  # fmt: skip
        number = await desk.surface.pick("Go back to before", choices) or ""
    if not number:
        return
    if not number.isdecimal():
        raise UsageError(f"{number!r} is no number of an event.", remedy="/rewind without a number chooses.")
    went = await desk.own.rewind(max(int(number) - 1, 1), _extent(scope))
    for change in went.changes:
        desk.surface.write(f"  {plain_name(change_line(change))}")
    for left in went.left:
        desk.surface.write(f"! not put back: {plain(left)}")
    desk.surface.set_input(next((text for seq, _, text in said if str(seq) == number), ""))


async def _retry(desk: Desk, how: str) -> None:
    desk.check_idle()
    if not await _said(desk):
        raise UsageError("There is no answer to ask for again.")
    if how in get_args(Effort):
        await desk.own.set_effort(cast("Effort", how))
    elif how:
        await desk.own.set_model(how)  # a wrong name must not cost the answer that is there
    said = await desk.own.undo("both")
    await desk.own.say(said.text, said.media)


async def _clear(desk: Desk, _: str) -> None:
    state, options = desk.session.state, desk.options
    desk.change(
        ChatOptions(
            folder=state.workspace,
            models=(state.model, *state.fallbacks) if state.model else (),
            mode=state.level or state.mode,
            sandbox=options.sandbox,
            max_cost_usd=options.max_cost_usd,
            allow_unpriced=options.allow_unpriced,
            allow_home=options.allow_home,
        )
    )


async def _fork(desk: Desk, at: str) -> None:
    if at and not at.isdecimal():
        raise UsageError(f"{at!r} is no number of an event.", remedy="/fork, or /fork NUMBER")
    made = await fork(desk.config, desk.session.id, at=int(at) if at else None)
    shown = 0 if at else made.shared_events
    desk.change(msgspec.structs.replace(desk.options.again(made.session), shown_seq=shown))


async def _resume(desk: Desk, name: str) -> None:
    desk.check_idle(otherwise=f"Another terminal can: mainspring chat --resume {name or 'ID'}")
    if not name:
        rows = await rows_in(desk.session.state.workspace, await list_sessions(desk.config), desk.config)
        choices = [
            Choice(
                row.id,
                f"{row.id}  {_clock(row.updated_us)}  {row.state:<11} {_title(row.title)}",
                f"{money(row.cost_usd)}, {row.events} events: {_preview(row.last_line)}",
            )
            for row in rows
            if row.id != desk.session.id and row.title
        ]
        name = await desk.surface.pick("Sessions here", choices) or ""
    if name:
        desk.change(desk.options.again(name))


async def _land(desk: Desk, how: str) -> None:
    words = how.split()
    is_agreed = "--yes" in words
    how = next((each.removeprefix("--") for each in words if each != "--yes"), "merge")
    if how not in get_args(HowToLand):
        raise UsageError(
            "A branch is merged, squashed or discarded.", remedy="/land [merge|squash|discard] [--yes]"
        )

    session = desk.own.id

    async def between() -> None:
        landed = await land(desk.config, session, cast("HowToLand", how), is_agreed=is_agreed)
        for each in landed.left:
            desk.surface.write(f"! not put back: {plain(each)}")

    desk.change(desk.options, between=between)


async def _said(desk: Desk) -> list[tuple[int, int, str]]:
    """What people said in this session: number, time and text, the oldest first."""
    found: list[tuple[int, int, str]] = []
    after = 0
    while page := await desk.session.journal.read(after=after, kinds=("UserSaid",)):
        found += [
            (item.seq, item.time_us, item.event.text) for item in page if isinstance(item.event, UserSaid)
        ]
        after = page[-1].seq
        await asyncio.sleep(0)
    return found


def _extent(scope: str) -> Extent:
    scope = scope.removeprefix("--") or "both"
    if scope not in _EXTENTS:
        raise UsageError(f"{scope!r} cannot be taken back.", remedy=f"Choose one of {', '.join(_EXTENTS)}.")
    return cast("Extent", scope)


def _clock(time_us: int) -> str:
    """The day and the time as the clock of this machine shows them."""
    zone = datetime.fromtimestamp(time_us / 1e6).astimezone().tzinfo
    return local_time(time_us, zone or UTC)[:16].replace("T", " ")


def _title(text: str) -> str:
    return plain_name(text.partition("\n")[0])[:_TITLE]


def _preview(text: str) -> str:
    return plain_name(" ".join(text.split()))[:300]


SESSION_COMMANDS: dict[str, SlashCommand] = {
    "model": SlashCommand(_model, "Go on with another model, or fetch one.", "[NAME|pull NAME]"),
    "effort": SlashCommand(_effort, "How hard the model thinks.", "[LEVEL|auto]"),
    "mode": SlashCommand(_mode, "What needs approval.", "[NAME]"),
    "btw": SlashCommand(_note, "Tell the model something without asking for anything.", "TEXT"),
    "say": SlashCommand(_say, "Say something that begins with a mark.", "TEXT"),
    "continue": SlashCommand(_proceed, "Go on with a turn that was interrupted."),
    "retry": SlashCommand(_retry, "The last answer again, perhaps by another model.", "[MODEL|EFFORT]"),
    "stop": SlashCommand(_stop, "Stop the turn, or a background process.", "[HANDLE]"),
    "undo": SlashCommand(_undo, "Take the last turn back.", "[both|files|conversation]"),
    "rewind": SlashCommand(_rewind, "Go back to before an earlier message; SCOPE as of /undo.",
    "[NUMBER] [SCOPE]"),
    "compact": SlashCommand(_compact, "Shorten the history; nothing is lost.", "[undo]"),
    "clear": SlashCommand(_clear, "Begin a new session here."),
    "resume": SlashCommand(_resume, "Go on with another session of this folder.", "[SESSION]"),
    "fork": SlashCommand(_fork, "Go on in a new session with the same history.", "[NUMBER]"),
    "land": SlashCommand(_land, "What becomes of the session's git branch.", "[merge|squash|discard]"),
}  # fmt: skip
