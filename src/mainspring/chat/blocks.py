"""Events as finished text for the scrollback. Pure: what stands here is written once and never again.

What `documents/lines.py` says of an event is what is shown; only what a chat shows otherwise has a function.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mainspring.chat.palette import Palette
from mainspring.chat.width import clipped, clipped_name, get_width, packed, wrapped
from mainspring.documents.call_lines import call_line
from mainspring.documents.lines import as_text, attachment_lines, change_line, ended_line
from mainspring.events import (
    ApprovalAsked,
    ApprovalGiven,
    CallAsked,
    CallEnded,
    ChildEnded,
    Event,
    FileChange,
    FilesChanged,
    NoteAdded,
    Origin,
    SandboxChosen,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    UserSaid,
)
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain, plain_name

if TYPE_CHECKING:
    from mainspring.app.operations.status import SessionStatus

SHELL_SOURCE = "command of the user"
"""The source of notes about what a person ran with `!`."""
DIFF_LINES = 24
_HINT = "/help lists commands and keys. Esc stops a turn, Ctrl-C twice quits."
_HINT_WITHOUT_KEYS = "/help lists commands. /stop stops a turn, /quit or Ctrl-C leaves."
_FEW_WORDS = 60
_WIDE = 10_000
_CALL_CHARS = 100
_LEAST_CHARS = 12
_ROOM_FOR_WORDS = 50
_SHOWN_FILES = 4
_SAID_LINES = 20
_SAID_CHARS = 4000
_ABOUT = ("why it is asked", "always would allow")
_MARGIN = " " * 7
_TAB = 4
_UNSHOWN = (SessionStarted, SessionResumed, SandboxChosen, ApprovalAsked)
"""What the head of a chat, its bar or the question itself says."""


def head_block(
    version: str,
    folder: Path,
    status: SessionStatus,
    palette: Palette,
    *,
    columns: int = _WIDE,
    has_keys: bool = True,
) -> str:
    """How a chat begins: where it is, and with what."""
    paint = palette.paint
    place = plain_name(str(folder))
    facts = [plain_name(status.model), f"mode {status.mode}", f"session {status.session}"]
    facts += [f"run by {plain_name(status.owner)}"] if status.owner else []
    shown = "\n".join(packed(facts, columns))
    hint = paint(wrapped(_HINT if has_keys else _HINT_WITHOUT_KEYS, columns), "dim")
    return f"{paint('mainspring', 'bold')} {version} · {place}\n{paint(shown, 'dim')}\n{hint}"


def event_block(event: Event, palette: Palette, *, columns: int = _WIDE) -> str:
    """What a chat shows of an event that has no block of its own; empty for bookkeeping."""
    is_own = isinstance(event, NoteAdded) and event.source == SHELL_SOURCE
    return "" if is_own or isinstance(event, _UNSHOWN) else palette.marked(wrapped(as_text(event), columns))


def said_block(
    said: UserSaid, palette: Palette, *, is_steering: bool, here: Origin, columns: int = _WIDE
) -> str:
    """What a person said, and from where when that is not this chat; of what was pasted the beginning."""
    given = [line[:_SAID_CHARS] + "…" * (len(line) > _SAID_CHARS) for line in plain(said.text).split("\n")]
    left = len(given) - _SAID_LINES
    shown = given[:_SAID_LINES] if left > 1 else given
    first, *rest = (part for line in shown for part in wrapped(line, columns - 2).split("\n"))
    where = sender(said.origin, here)
    hints = [*(["steers the turn"] if is_steering else []), *([where] if where else [])]
    hint = palette.paint(f"  ({', '.join(hints)})", "dim") if hints else ""
    lines = [palette.paint("› ", "cyan", "bold") + palette.paint(first, "bold") + hint]
    lines += ["  " + palette.paint(line, "bold") for line in rest]
    lines += [palette.paint(f"  … {plural(left, 'more line')}", "dim")] if left > 1 else []
    return "\n".join([*lines, *(palette.paint(line, "dim") for line in attachment_lines(said.media))])


def sender(origin: Origin | None, here: Origin) -> str:
    """Who gave a command, when it did not come from here."""
    if origin is None or origin == here:
        return ""
    who = origin.user if origin.user != here.user or origin.device != here.device else ""
    return f"from {' on '.join(filter(None, (who, origin.device if who else '')))} {origin.face}".replace(
        "  ", " "
    ).strip()


def wrapped_question(text: str, columns: int) -> str:
    """What is asked about stands as it is: only words about it are broken at words."""
    lines = text.split("\n")
    return "\n".join(wrapped(line, columns) if line.lstrip().startswith(_ABOUT) else line for line in lines)


def question_block(text: str, palette: Palette) -> str:
    """A question, with its diff in colour."""
    paint = palette.paint
    lines = text.strip("\n").split("\n")
    shown = [paint(f"? {lines[0]}", "magenta", "bold")]
    for line in lines[1:]:
        sign = line.strip()[:2]
        shown.append(paint(line, "green") if sign == "+ " else paint(line, "red") if sign == "- " else line)
    return "\n".join(["", *shown])


def answer_block(
    given: ApprovalGiven, palette: Palette, here: Origin, *, title: str = "", columns: int = _WIDE
) -> str:
    """An answer, from where it came when that is elsewhere, and the call that it is about."""
    where = sender(given.origin, here)
    text = as_text(given) + (f" ({where})" if where else "")
    room = columns - get_width(text) - 3
    about = f" · {clipped(title, room)}" if title and room >= _LEAST_CHARS and "\n" not in text else ""
    return palette.marked(text + about)


def call_title(call: CallAsked) -> str:
    """The tool and what it is asked to do, on one line."""
    title = plain_name(call_line(call)).removeprefix("→ ")
    return title if len(title) <= _CALL_CHARS else title[: _CALL_CHARS - 1] + "…"


def call_block(
    call: CallAsked,
    ended: CallEnded,
    palette: Palette,
    *,
    columns: int = _CALL_CHARS,
    has_changes: bool = False,
    child: ChildEnded | None = None,
) -> str:
    """One line: what was called, a few words about its result, and how long it took. What it changed, when
    that is shown below, says more than its words. What was asked is cut first, where the line is short."""
    name, _, rest = call_title(call).partition(" ")
    is_ok = ended.outcome == "ok"
    mark = palette.paint("✓", "green") if is_ok else palette.paint("✗", "red")
    words = _child_words(child) if child else "" if has_changes and is_ok else few_words(ended)
    ending = "" if is_ok else f"exit code {ended.exit_code}" if ended.exit_code else ended.outcome
    words = "" if words == ending else words
    room = columns - len(name) - 3
    end = " · ".join(filter(None, (ending, took(ended.duration_s))))
    if get_width(" · ".join((rest, words, end))) > room:
        left = room - get_width(rest) - get_width(end) - 6
        words = clipped(words, max(room // 3, left)) if room >= _ROOM_FOR_WORDS else ""
    said = " · ".join(filter(None, (words, end)))
    if ending and room - get_width(said) - 3 < _LEAST_CHARS:
        said = ending  # how it ended says more than how long it took
    tail = palette.paint(f" · {said}", "dim") if said else ""
    asked = clipped_name(rest, max(room - (get_width(said) + 3 if said else 0), _LEAST_CHARS))
    line = f"{mark} {palette.paint(name, 'bold')} {asked}".rstrip() + tail
    warned = [palette.paint(f"  ! reads like orders: {plain(each)}", "yellow") for each in ended.suspicious]
    if child and child.conflicts:
        clash = plain_name(", ".join(child.conflicts))
        warned.append(palette.paint(f"  ! in conflict, not taken over: {clash}", "yellow"))
    return "\n".join([line, *warned])


def _child_words(child: ChildEnded) -> str:
    """What a child said, or why it did not come to its end, and how much that took."""
    said = next((line.strip() for line in (child.detail or child.text).splitlines() if line.strip()), "")
    state = "" if child.state == "done" else child.state
    cost = f"${child.cost_usd:.4f}" if child.cost_usd else ""
    told = clipped(plain_name(said), _FEW_WORDS)
    return " · ".join(filter(None, (state, told, plural(child.steps, "step"), cost)))


def few_words(ended: CallEnded) -> str:
    """What a result comes to: its only line, its last one when it failed, else how long it is."""
    lines = [line.strip() for line in ended.output.splitlines() if line.strip()]
    if not lines:
        return "no output"
    if len(lines) > 1 and ended.outcome == "ok":
        last = plain_name(lines[-1])
        return last if len(last) <= _FEW_WORDS and ended.exit_code is not None else plural(len(lines), "line")
    word = plain_name(lines[0] if len(lines) == 1 else lines[-1])
    return word if len(word) <= _FEW_WORDS else word[: _FEW_WORDS - 1] + "…"


def took(seconds: float) -> str:
    """A duration as people say it."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)}:{int(seconds % 60):02d} min"


def ended_block(event: TurnEnded, palette: Palette, *, columns: int = _WIDE) -> str:
    tones = () if event.ending == "done" else ("yellow",)
    return palette.paint(wrapped(plain(ended_line(event)), columns), *(tones or ("dim",)))


def changes_block(
    changed: FilesChanged,
    diffs: Sequence[Sequence[str]],
    palette: Palette,
    *,
    columns: int = _WIDE,
    limit: int = DIFF_LINES,
    named: str = "",
) -> str:
    """What became of files, each with its diff, as far as they fit; `/diff` shows all. The file that the line
    above has named is not named again."""
    lines: list[str] = []
    shown = [(at, each) for at, each in enumerate(changed.changes) if not _is_way(each, changed.changes)]
    for number, (at, change) in enumerate(shown):
        if len(lines) >= limit or number >= _SHOWN_FILES:
            lines.append(palette.paint(f"  … {plural(len(shown) - number, 'more file')}: /diff", "dim"))
            break
        body = diff_lines(diffs[at], palette, columns=columns) if at < len(diffs) else []
        if len(shown) > 1 or change.path != named or not body:
            mark, _, path = plain_name(change_line(change)).partition(" ")
            lines.append("  " + palette.marked(f"{mark} {clipped_name(path, columns - 4)}"))
        room = max(limit - len(lines), 1)
        lines += body[:room]
        if len(body) > room:
            lines.append(palette.paint(f"       … {plural(len(body) - room, 'more line')}: /diff", "dim"))
    lines += [palette.paint(f"  ! not covered: {plain(note)}", "yellow") for note in changed.not_covered]
    return "\n".join(lines)


def _is_way(change: FileChange, changes: Sequence[FileChange]) -> bool:
    """Whether it is a folder that came or went with what is in it."""
    state = change.after or change.before
    is_folder = state is not None and state.kind == "folder"
    return is_folder and any(
        each.path.startswith(f"{change.path}/") and each.kind == change.kind for each in changes
    )


def diff_lines(diff: Sequence[str], palette: Palette, *, columns: int = _WIDE) -> list[str]:
    """A unified diff with the numbers of its lines, in colour; long lines are broken at words."""
    shown: list[str] = []
    old = new = 0
    for raw in diff:
        line = plain(raw.rstrip("\n"))
        if line.startswith(("--- ", "+++ ")):
            continue
        if line.startswith("@@"):
            old, new = _starts(line)
            if shown:
                shown.append(palette.paint("     ⋮", "dim"))
            continue
        sign, text = line[:1], line[1:]
        number = old if sign == "-" else new
        tone = {"+": "green", "-": "red"}.get(sign)
        margin = f"{number:>6} " if sign in ("+", "-", " ") else _MARGIN
        first, *rest = wrapped(text.expandtabs(_TAB), columns - len(_MARGIN) - 2).split("\n")
        for lead, mark, part in ((margin, sign or " ", first), *((_MARGIN, " ", each) for each in rest)):
            body = f"{mark} {part}"
            painted = palette.paint(body, "green" if sign == "+" else "red") if tone else body
            shown.append(palette.paint(lead, "dim") + painted)
        old += sign in ("-", " ")
        new += sign in ("+", " ")
    return shown


def _starts(header: str) -> tuple[int, int]:
    """Where a hunk begins in both files: `@@ -1,2 +3,4 @@`."""
    _, before, after, *_ = header.split(" ")
    return abs(int(before.partition(",")[0])), abs(int(after.partition(",")[0]))
