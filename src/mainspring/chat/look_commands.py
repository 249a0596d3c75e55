"""Slash commands that show something. What the command line shows too is what it prints."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

from mainspring.app.operations.memory import remember
from mainspring.app.operations.status import session_status
from mainspring.app.prompt import skills_of
from mainspring.chat.blocks import event_block, wrapped_question
from mainspring.chat.choosing import REASONINGS, THEMES, choose
from mainspring.chat.cli_output import cli_output
from mainspring.chat.desk import Desk, SlashCommand
from mainspring.chat.line import copy_with_program
from mainspring.chat.message_queues import ChatWaiting
from mainspring.chat.width import wrapped
from mainspring.cli.ask import question_text
from mainspring.errors import UsageError
from mainspring.secrets.screen import plain, plain_name

if TYPE_CHECKING:
    from mainspring.chat.palette import Theme
    from mainspring.chat.view import Reasoning

_PAGE = 40
_NEEDS_TERMINAL = {("goal", "resume"), ("config", "edit"), ("mcp", "login")}


def _cli(name: str, *usual: str) -> Callable[[Desk, str], Awaitable[None]]:
    """The command of the same name; `{session}` in its usual arguments is this session."""

    async def run(desk: Desk, words: str) -> None:
        given = _words(words) or [each.replace("{session}", desk.session.id) for each in usual]
        if (name, *given[:1]) in _NEEDS_TERMINAL:
            raise UsageError(
                f"`mainspring {name} {given[0]}` needs a terminal for itself.",
                remedy="Type it in another one, or suspend the chat with Ctrl-Z.",
            )
        await _show_words(desk, await cli_output(desk, name, *given))

    return run


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"The arguments cannot be read: {error}.") from error


def _text_words(text: str) -> list[str]:
    """`start TEXT`: what people write needs no quotes, unless there are options with it."""
    name, _, rest = text.partition(" ")
    return _words(text) if " --" in f" {rest}" else [each for each in (name, rest.strip()) if each]


async def _show(desk: Desk, text: str) -> None:
    """Short texts stay in the scrollback, long ones are shown in the pager."""
    if text.count("\n") > _PAGE:
        await desk.surface.show_pages(text)
    else:
        desk.write(text)


async def _show_words(desk: Desk, text: str) -> None:
    """As `_show`, broken at words: a terminal and its pager break anywhere."""
    await _show(desk, text if desk.surface.takes_lines else wrapped(text, desk.surface.columns))


async def _diff(desk: Desk, words: str) -> None:
    palette = desk.surface.palette
    text = await cli_output(desk, "diff", desk.session.id, *_words(words))
    tones = {"+": "green", "-": "red", "@": "cyan"}
    shown = [
        palette.paint(line, "green" if tone == "green" else "red" if tone == "red" else "cyan")
        if (tone := tones.get(line[:1]))
        else line
        for line in text.split("\n")
    ]
    await _show(desk, "\n".join(shown))


async def _goal(desk: Desk, words: str) -> None:
    """As the command line, but a goal that is begun here works in the daemon, so that the chat goes on."""
    given = _text_words(words)
    if given[:1] != ["start"] or "--background" in given:
        await _GOAL(desk, words)
        return
    state = desk.session.state
    how = ["-C", str(state.workspace)]
    if state.model and not {"--model", "--engine"} & {each.partition("=")[0] for each in given}:
        how += [each for name in (state.model, *state.fallbacks) for each in ("--model", name)]
        how += ["--allow-unpriced"] if desk.options.allow_unpriced else []
    session = await cli_output(desk, "goal", "start", "--background", *how, *given[1:])
    desk.write(f"{plain(session)}\n  /resume {plain(session.split()[-1])} enters it; /goal lists goals.")


async def _export(desk: Desk, file: str) -> None:
    file = file or f"session-{desk.session.id}.md"
    said = await cli_output(desk, "export", desk.session.id, "-o", file)
    desk.write(f"{said}: {plain(file)}")


async def _plan(desk: Desk, _: str) -> None:
    found = await desk.session.journal.last("PlanSet")
    if found is None:
        raise UsageError("There is no plan yet: the agent makes one when it has a list of things to do.")
    desk.write(event_block(found.event, desk.surface.palette, columns=desk.surface.columns))


async def _tasks(desk: Desk, words: str) -> None:
    folder = str(desk.session.state.workspace)
    await _show_words(desk, await cli_output(desk, "sessions", "open-tasks", "-C", folder, *_words(words)))


async def _skills(desk: Desk, _: str) -> None:
    skills, broken = skills_of(desk.session.state.workspace, desk.config)
    lines = [f"  {each.name}: {each.description}" for each in skills]
    lines += [f"! {each.path}: {each.problem}" for each in broken]
    await _show_words(desk, plain("\n".join(lines) or "No skills: they lie in skills/ or .agents/skills/."))


async def _memory(desk: Desk, words: str) -> None:
    folder = str(desk.session.state.workspace)
    given = _text_words(words) if words.startswith("add ") else _words(words)
    await _show_words(desk, await cli_output(desk, "memory", "-C", folder, *given))


async def _agents(desk: Desk, words: str) -> None:
    given = _words(words) or ["list"]
    text = await cli_output(desk, "agents", *given, "-C", str(desk.session.state.workspace))
    lines = [*([] if words else _children(desk)), *text.split("\n")]
    await _show_words(desk, "\n".join(lines))


def _children(desk: Desk) -> list[str]:
    """Those of the last turn, and those that are at work; another terminal can look into each."""
    children = desk.session.state.children
    lines: list[str] = []
    for each in children.calls.values():
        ended = children.ended.get(each.child)
        state = ended.state if ended else "at work"
        lines.append(plain_name(f"⑂ {each.agent} {each.child} {state}: {' '.join(each.task.split())}"))
    hint = "  In another terminal `mainspring chat --resume ID` watches one."
    return [*lines, hint, ""] if lines else []


async def _review(desk: Desk, words: str) -> None:
    state = desk.session.state
    model = ("--model", state.model) if state.model else ()
    shown = await cli_output(desk, "review", *_words(words), *model, "-C", str(state.workspace))
    await _show_words(desk, shown)


async def _fix(desk: Desk, words: str) -> None:
    """As the command line, in a session of its own; a command is given as it would be in a shell."""
    state = desk.session.state
    given = _words(words) if words.startswith("--") else [words]
    model = ("--model", state.model) if state.model else ()
    status = session_status(desk.own)
    how = ["--quiet", "--mode", status.mode, "-C", str(state.workspace)]
    how += ["--max-cost-usd", str(status.left_usd)] if status.left_usd else []
    how += ["--allow-unpriced"] if desk.options.allow_unpriced else []
    await _show_words(desk, await cli_output(desk, "fix", *given, *model, *how))


async def remember_line(desk: Desk, text: str) -> None:
    """`#text`: remembered about the project."""
    gone = remember(desk.config, desk.session.state.workspace, text)
    lines = [f"· remembered: {text}", *(f"· forgotten because memory is full: {each.text}" for each in gone)]
    desk.write(desk.surface.palette.marked(plain("\n".join(lines))))


async def _view(desk: Desk, _: str) -> None:
    asked = desk.chat.questions.waiting
    texts = [question_text(each, number=number, limit=sys.maxsize) for number, each in enumerate(asked, 1)]
    if not texts:
        raise UsageError("No question is open.")
    await desk.surface.show_pages(wrapped_question(plain("\n".join(texts)), desk.surface.columns))


async def _reasoning(desk: Desk, how: str) -> None:
    view = desk.chat.view
    how = how or await choose(desk, "Reasoning", view.reasoning, REASONINGS)
    if how and how not in REASONINGS:
        raise UsageError(f"Reasoning is {view.reasoning}.", remedy="/reasoning on|off|auto")
    if how:
        view.reasoning = cast("Reasoning", how)
        _confirm(desk, f"reasoning: {how}")


async def _theme(desk: Desk, name: str) -> None:
    now = desk.surface.palette.theme
    name = name or await choose(desk, "Theme", now, THEMES)
    if name and name not in THEMES:
        raise UsageError(f"The theme is {now}.", remedy="/theme dark|light|mono")
    if name:
        desk.chat.recolour(cast("Theme", name))
        _confirm(desk, f"theme: {name}")


async def _copy(desk: Desk, _: str) -> None:
    text = desk.session.state.last_reply.text
    if not text:
        raise UsageError("There is no answer to copy yet.")
    if not copy_with_program(text):
        desk.surface.copy(text)
    _confirm(desk, f"copied {len(text):,} characters")


def _confirm(desk: Desk, text: str) -> None:
    desk.write(desk.surface.palette.paint(f"· {text}", "dim"))


async def _queue(desk: Desk, words: str) -> None:
    """A number takes one back into the line; `drop` and `clear` remove. What steers the turn comes first."""
    if (waiting := desk.chat.waiting) is None:
        raise UsageError("No session is open.")
    if words and words != "clear":
        number = words.removeprefix("drop ").strip()
        text = _taken_back(waiting, int(number) - 1 if number.isdecimal() else -1)
        if number == words:
            desk.surface.set_input(desk.chat.chips.paste(text))
        desk.surface.refresh()
        return
    if words:
        for each in (waiting.steers, waiting.queue):
            each.take_all_back()
    steering = [f"{each}  (enters between two steps)" for each in waiting.steers.texts]
    lines = [f"  {number}  {plain(each)}" for number, each in enumerate([*steering, *waiting.queue.texts], 1)]
    desk.write("\n".join(lines) or "Nothing waits. Alt-Enter queues a message for after the turn.")


def _taken_back(waiting: ChatWaiting, at: int) -> str:
    first_queued = len(waiting.steers.texts)
    if not 0 <= at < first_queued + len(waiting.queue.texts):
        raise UsageError("No such message waits.", remedy="/queue lists those that do, with numbers.")
    is_steer = at < first_queued
    text = waiting.steers.take_back(at) if is_steer else waiting.queue.take_back(at - first_queued)
    if text is None:
        raise UsageError("The model has it already.", remedy="Say what shall be otherwise.")
    return text


async def _quit(desk: Desk, _: str) -> None:
    desk.chat.quit()


_GOAL = _cli("goal", "list")
LOOK_COMMANDS: dict[str, SlashCommand] = {
    "diff": SlashCommand(_diff, "What the session did to files.", "[--step N] [--stat]"),
    "plan": SlashCommand(_plan, "The agent's list of things to do."),
    "tasks": SlashCommand(_tasks, "What plans of this project's sessions left unfinished.", "[--all]"),
    "cost": SlashCommand(_cli("cost", "{session}"), "What was spent.", "[--today] [--by KEY]"),
    "context": SlashCommand(_cli("context", "{session}"), "What fills the context window."),
    "ps": SlashCommand(_cli("ps", "{session}"), "Background processes."),
    "goal": SlashCommand(_goal, "Goals: start, list, show, pause, stop, best.", "[start TEXT|COMMAND]"),
    "memory": SlashCommand(_memory, "What is remembered about this project.", "[add TEXT|forget N]"),
    "agents": SlashCommand(_agents, "Whom the agent can give work to.", "[show NAME]"),
    "fix": SlashCommand(_fix, "Make a command pass that fails, in a session of its own.", "COMMAND"),
    "review": SlashCommand(_review, "What is wrong with a change, by a fresh pair of eyes.",
    "[REF|FILE.diff]"), "skills": SlashCommand(_skills, "The skills that the agent can read here."),
    "sessions": SlashCommand(_cli("sessions", "--limit", "15"), "All sessions, the newest first."),
    "artifacts": SlashCommand(_cli("artifacts", "{session}"), "The files that a goal made."),
    "approvals": SlashCommand(_cli("approvals", "list"), "Grants and rules.", "[list|rules|revoke ID]"),
    "export": SlashCommand(_export, "Write the session to a file (.md, .html, .jsonl).", "[FILE]"),
    "doctor": SlashCommand(_cli("doctor"), "Check this machine."),
    "config": SlashCommand(_cli("config", "list"), "Settings, and where each comes from.", "[get|set KEY]"),
    "mcp": SlashCommand(_cli("mcp", "list"), "MCP servers and their tools.", "[list|tools|test NAME]"),
    "queue": SlashCommand(_queue, "Messages that wait for the turn.", "[NUMBER|drop NUMBER|clear]"),
    "reasoning": SlashCommand(_reasoning, "Thoughts in full, not at all, or folded.", "[on|off|auto]"),
    "copy": SlashCommand(_copy, "Copy the last answer to the clipboard."),
    "theme": SlashCommand(_theme, "Colours for a dark or light terminal, or none.", "[dark|light|mono]"),
    "view": SlashCommand(_view, "Everything about the open questions."),
    "quit": SlashCommand(_quit, "Leave the chat; the session is kept."),
}  # fmt: skip
