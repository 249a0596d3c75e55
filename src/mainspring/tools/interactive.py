"""Whether a command failed because it wanted a terminal or an answer, and what to do instead. Pure.

A command here has no terminal and its input is empty, so whatever asks gets the end of its input. That
leaves traces: an error about the terminal, a prompt as the last thing written, or nothing at all from a
program that is known to ask. Only such a trace is told, never a suspicion about a command that did its work.
"""

from __future__ import annotations

import re

from mainspring.approvals.shell import SimpleCommand, read
from mainspring.sandbox import CommandResult

_TAIL_BYTES = 4000
_MAX_QUOTE = 120

_TERMINAL = re.compile(
    r".*(?:/dev/tty: No such device|(?:is|are|must be|not) (?:not )?(?:to |from )?a (?:terminal|tty)\b"
    r"|Inappropriate ioctl for device|failed tty get|[Ee]rror opening terminal|terminal is required"
    r"|from a terminal|no tty present|EOF when reading a line).*",
    re.IGNORECASE,
)
_ASKED = re.compile(
    r".*(?:\[y(?:es)?/no?\]|\(y(?:es)?/no?\)|could not read (?:Username|Password)|terminal prompts disabled"
    r"|a password is required|Host key verification failed).*",
    re.IGNORECASE,
)
_EDITOR = re.compile(r".*(?:Aborting commit due to empty commit message|problem with the editor).*")
_PROMPT = re.compile(r"[^\n]*[\w)\]?#][:?>)\]] ?\Z")

_ASKS = frozenset({"read", "select"})
_CONVERSES = frozenset(
    "python python3 ipython node irb ghci lua R julia psql mysql sqlite3 gdb bc ed bash sh zsh".split()  # noqa: SIM905
)
_FILLS_SCREEN = frozenset("vim vi nvim view nano pico emacs htop top watch mc tmux screen less more".split())  # noqa: SIM905

_INSTEAD = (
    "There is no terminal here and the input is empty. Give the answer in the command (a flag such as -y, -m"
    " or --no-input, an argument, or a pipe), use a command that does not ask, or run it with background=true"
    " and terminal=true and answer it with the tool process."
)


def asked_for_somebody(command: str, finished: CommandResult) -> str:
    """What to tell the model about a command that wanted a terminal or an answer; empty when none did."""
    trace = _trace(command, finished)
    return f"({trace}. {_INSTEAD})" if trace else ""


def _trace(command: str, finished: CommandResult) -> str:
    if finished.exit_code == 0 and not finished.stopped:
        return _silence(command, finished)
    out = finished.stdout[-_TAIL_BYTES:].decode("utf-8", errors="replace")
    err = finished.stderr[-_TAIL_BYTES:].decode("utf-8", errors="replace")
    for pattern, what in ((_TERMINAL, "a terminal"), (_ASKED, "an answer"), (_EDITOR, "an editor")):
        if found := pattern.search(err) or pattern.search(out):
            return f"It wanted {what}: {_quoted(found[0])}"
    for text in (out, err):
        if found := _PROMPT.search(text):
            return f"It asked something and got no answer: {_quoted(found[0])}"
    if finished.stopped and (name := screen_program(command)):
        return f"`{name}` fills a screen and waits for keys"
    return _silence(command, finished)


def _silence(command: str, finished: CommandResult) -> str:
    """A program that talks with somebody, was given nothing to do, and had nothing to say."""
    if finished.stdout.strip() or finished.stderr.strip():
        return ""
    for simple in read(command).commands:
        program = simple.argv[0].program if simple.argv else ""
        if program in _ASKS and finished.exit_code and _is_unfed(simple):
            return f"`{program}` found the end of its input"
        if program in _CONVERSES and len(simple.argv) == 1 and _is_unfed(simple):
            return f"`{program}` was given nothing to do and found the end of its input"
    return ""


def screen_program(command: str) -> str:
    """The program of a command line that takes a whole screen for itself, if there is one."""
    for simple in read(command).commands:
        programs = (argv[0].program for argv in (*simple.via, simple.argv) if argv)
        if name := next((program for program in programs if program in _FILLS_SCREEN), ""):
            return name
    return ""


def _is_unfed(simple: SimpleCommand) -> bool:
    return not simple.upstream and simple.stdin is None


def _quoted(text: str) -> str:
    line = text.strip()
    return f"“{line if len(line) <= _MAX_QUOTE else line[:_MAX_QUOTE] + '…'}”"
