"""The memory file of a goal: what the next iteration must know, written by a person, the agent and us.

We own the header, the request, the changes of the goal and lines with our mark; all else is kept as it is.
A change is made to the file as it is now and written only if it is still that, so nobody's words are lost.
The journal stays the only state: a file that was deleted, damaged or is not ours costs nothing but its text,
which is put aside. Reading and writing are synchronous, meant for a thread, and bound to the policy.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

import msgspec

from mainspring.errors import PathRefused, WorkspaceConflict
from mainspring.events import ArtifactsChanged, MemoryKeptAside
from mainspring.events.moments import date_of
from mainspring.goals.pages import MemoryPage, quoted
from mainspring.sandbox.files import Files, Version

DEFAULT_PATH = "projects/memory.md"
SCHEMA = 1
MAX_BYTES = 2_000_000
MAX_LOG_LINES = 40
KEPT_LOG_LINES = 20

_MAX_GOAL_CHARACTERS = 8_000
_MAX_EARLIER_CHARACTERS = 200_000
_EARLIER = re.compile(r"^(?=Goal \S[^>]*, started )", re.MULTILINE)
_SHOWN_PATHS = 8
_ATTEMPTS = 50
_LOG_LINE = re.compile(r"\S+ iteration (\d+) (\w+)(?:: (.*))?")
_FOLDED = re.compile(r"iterations (\d+)-(\d+): ((?:\d+ \w+(?:, )?)+)")
_COUNTED = re.compile(r"(\d+) (\w+)")
_UNUSABLE = "The memory file {} cannot be used"
_ANOTHER = "Move away what is in its place, or name another file with --memory."


class Sections(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the sections. Our progress lines stand in `log`, our other lines in `notes`."""

    title: str = "Memory of a goal"
    """Title of the file."""
    request: str = "Original request"
    """Section of the goal's text."""
    changes: str = "Changes of the goal"
    """Section of later changes of the goal."""
    short_term: tuple[str, ...] = ("Plan", "Pending work", "Progress log")
    """Sections about work in progress."""
    long_term: tuple[str, ...] = (
        "History",
        "Data inventory",
        "State",
        "Safety notes",
        "Suggested skills updates",
    )
    """Sections that are kept."""
    log: str = "Progress log"
    """Section of our progress lines."""
    notes: str = "State"
    """Section of our other lines."""
    earlier: str = "Earlier goals"
    """Section of the goals that this file was for before."""


class Damaged(msgspec.Struct, frozen=True):
    """What stands in the place of the memory file and cannot be used."""

    reason: str


class GoalMemory(msgspec.Struct, frozen=True):
    """The file as it is or will be. `version` is that of the file it was read from; None for a new one."""

    text: str
    sections: Sections
    version: Version | None = None

    def section(self, name: str) -> str:
        return MemoryPage(self.text).text(name)

    @property
    def told(self) -> str:
        """The text as an agent is told it: earlier goals stand in the file alone."""
        page, name = MemoryPage(self.text), self.sections.earlier
        if page.take(name):
            page.append(name, ["They stand in the file."])
        return str(page)

    def of_goal(self, goal: str, begun: GoalMemory, at_us: int) -> GoalMemory:
        """The memory of this goal. That of another one is kept: its request, changes and log are put with the
        earlier goals, and what else stands in the file stays."""
        page, names, wanted = MemoryPage(self.text), self.sections, MemoryPage(begun.text)
        known = page.field("goal")
        if known == goal:
            return self
        if known or page.text(names.request) != wanted.text(names.request):
            title = f"Goal {known or 'of an earlier version'}, started {page.field('started')}:"
            earlier = [title, "", *page.take(names.request)]
            for lines in (page.take(names.changes), _take_log(page, names.log)):
                earlier += ["", *lines] if lines else []
            kept = "\n".join([*page.take(names.earlier), "", *earlier]).strip()
            page.append(names.earlier, _newest_goals(kept).splitlines())
            page.append(names.request, wanted.text(names.request).splitlines())
            for field in ("started", "prompt source"):
                page.set_field(field, wanted.field(field))
        page.set_field("goal", goal)
        return self._with(page, at_us)

    def with_progress(self, iteration: int, outcome: str, detail: str, at_us: int) -> GoalMemory:
        """One line in the log for each iteration; the old ones become one line together."""
        page, log = MemoryPage(self.text), self.sections.log
        page.put(log, f"log-{iteration}", f"{_time(at_us)} iteration {iteration} {outcome}: {detail}")
        _fold_log(page, log)
        return self._with(page, at_us)

    def with_goal(self, text: str, at_us: int, by: str = "user") -> GoalMemory:
        """The goal was changed; the request it began with stays."""
        page = MemoryPage(self.text)
        page.append(self.sections.changes, [f"{_time(at_us)}, by {by}:", "", *quoted(_bounded(text))])
        return self._with(page, at_us)

    def with_message(self, text: str) -> GoalMemory:
        """What the agent said last, for one that cannot write it down itself."""
        page = MemoryPage(self.text)
        page.append(self.sections.log, ["What you said at the end of the last turn:", "", *quoted(text)])
        return msgspec.structs.replace(self, text=str(page))

    def with_note(self, key: str, text: str, at_us: int) -> GoalMemory:
        """The one line of ours under this key (lower-case letters, digits and `-`), such as processes that
        still run. An empty text takes it away."""
        page, notes = MemoryPage(self.text), self.sections.notes
        if text:
            page.put(notes, key, text)
        else:
            page.drop(notes, key)
        return self._with(page, at_us)

    def with_artifacts(self, changed: ArtifactsChanged, handle: str, at_us: int) -> GoalMemory:
        """How many files changed, the first of them, and the handle under which all can be read."""
        counts = {kind: getattr(changed, kind) for kind in ("new", "modified", "deleted", "renamed")}
        total = sum(counts.values())
        said = ", ".join(f"{count:,} {kind}" for kind, count in counts.items() if count)
        first = ", ".join(_short(change.path) for change in changed.changes[:_SHOWN_PATHS])
        more = f" and {total - _SHOWN_PATHS:,} more" if total > _SHOWN_PATHS else ""
        text = f"artifacts of iteration {changed.iteration}: {said} ({first}{more}); all: {handle}"
        return self.with_note("artifacts", text, at_us)

    def _with(self, page: MemoryPage, at_us: int) -> GoalMemory:
        page.set_field("updated", _time(at_us))
        return msgspec.structs.replace(self, text=str(page))


class Updated(msgspec.Struct, frozen=True):
    """The memory as it was written, and the event to record when another file had to make room."""

    memory: GoalMemory
    kept_aside: MemoryKeptAside | None = None


def new_memory(sections: Sections, *, request: str, source: str, at_us: int, goal: str = "") -> GoalMemory:
    head = [
        f"# {sections.title}",
        "",
        f"- schema: {SCHEMA}",
        f"- started: {_time(at_us)}",
        f"- updated: {_time(at_us)}",
        f"- prompt source: {' '.join(source.split()) or 'text'}",
        *([f"- goal: {goal}"] if goal else []),
    ]
    body = ["", f"## {sections.request}", "", *quoted(_bounded(request)), "", f"## {sections.changes}"]
    for above, names in (("Short-term", sections.short_term), ("Long-term", sections.long_term)):
        body += ["", f"## {above}"]
        for name in names:
            body += ["", f"### {name}"]
    return GoalMemory("\n".join([*head, *body, ""]), sections)


def read_memory(files: Files, path: str, sections: Sections) -> GoalMemory | Damaged | None:
    """The memory; None when there is no file, or an empty one."""
    place = files.policy.workspace / path
    if not os.path.lexists(place):
        return None
    try:
        content = files.read(path, max_bytes=MAX_BYTES + 1)
        if files.policy.mode != "read-only":
            files.writable(path)
    except FileNotFoundError:
        return Damaged("it is a link that leads nowhere") if place.is_symlink() else None
    except PathRefused as refusal:
        return Damaged(refusal.message)
    if len(content.data) > MAX_BYTES:
        return Damaged(f"it is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        text = content.data.decode()
    except UnicodeDecodeError:
        return Damaged("it is not UTF-8 text")
    if not text.strip():
        return GoalMemory("", sections, content.version)
    return _recognised(GoalMemory(text, sections, content.version))


def update_memory(
    files: Files,
    path: str,
    begun: GoalMemory,
    change: Callable[[GoalMemory], GoalMemory] = lambda memory: memory,
) -> Updated:
    """Makes a change to the file as it is now. Where there is none, or none that can be used, it is made to
    `begun`: the request and the goal as the journal has them."""
    kept_aside = None
    for _ in range(_ATTEMPTS):
        try:
            found = read_memory(files, path, begun.sections)
            if isinstance(found, Damaged):
                kept_aside = _put_aside(files, path, found.reason)
                continue
            base = found if found and found.text else begun
            memory = change(_with_aside(base, kept_aside) if kept_aside else base)
            if found and memory.text == found.text:
                return Updated(memory, kept_aside)
            if written := _written(files, path, memory, found.version if found else None):
                return Updated(msgspec.structs.replace(memory, version=written), kept_aside)
        except PathRefused as error:
            raise PathRefused(f"{_UNUSABLE.format(path)}: {error.message}", remedy=_ANOTHER) from error
        except OSError as error:
            raise WorkspaceConflict(
                f"{_UNUSABLE.format(path)}: {error.strerror}.", remedy=_ANOTHER
            ) from error
    raise WorkspaceConflict(
        f"The memory file {path} changes too quickly to be written.",
        remedy="End whatever else writes it, and go on with the goal.",
    )


def _written(files: Files, path: str, memory: GoalMemory, version: Version | None) -> Version | None:
    """Writes the file if it is still of this version; None when somebody else wrote it meanwhile."""
    data = memory.text.encode("utf-8", "replace")
    try:
        return files.write(path, data, unchanged_since=version, is_new=version is None)
    except PathRefused:
        now = read_memory(files, path, memory.sections)
        if not isinstance(now, Damaged) and (now.version if now else None) == version:
            raise  # it is as it was: the refusal has another reason
        return None


def _with_aside(memory: GoalMemory, kept: MemoryKeptAside) -> GoalMemory:
    page = MemoryPage(memory.text)
    page.put(memory.sections.notes, "aside", f"what was here before is in {kept.path}: {kept.reason}")
    return msgspec.structs.replace(memory, text=str(page))


def _recognised(memory: GoalMemory) -> GoalMemory | Damaged:
    if "\0" in memory.text:
        return Damaged("it is not text")
    schema = MemoryPage(memory.text).field("schema")
    if not schema:
        return Damaged("it has no header of ours")
    if schema != str(SCHEMA):
        return Damaged(f"its schema is {schema[:20]}, and this version knows {SCHEMA}")
    return memory


def _put_aside(files: Files, path: str, reason: str) -> MemoryKeptAside:
    """Gives whatever is there, a link itself and not what it leads to, another name beside it."""
    given = files.policy.workspace / path
    folder = files.resolve(given.parent)
    files.writable(folder / f"{given.stem}.aside")
    number = 1
    while os.path.lexists(aside := folder / f"{given.stem}.aside-{number}{given.suffix}"):
        number += 1
    (folder / given.name).rename(aside)
    try:
        shown = aside.relative_to(files.policy.workspace)
    except ValueError:
        shown = aside
    return MemoryKeptAside(path=str(shown), reason=reason)


def _take_log(page: MemoryPage, log: str) -> list[str]:
    """Takes our lines out of the log; those of others stay."""
    taken: list[str] = []
    for _, key, text in page.own(log):
        if key == "folded" or key.startswith("log-"):
            taken.append(f"- {text}")
            page.drop(log, key)
    return taken


def _newest_goals(text: str) -> str:
    """The newest of the earlier goals, as many as there is room for; all are on record."""
    goals = _EARLIER.split(text)
    while len(goals) > 1 and sum(map(len, goals)) > _MAX_EARLIER_CHARACTERS:
        del goals[0]
    return "".join(goals)


def _fold_log(page: MemoryPage, log: str) -> None:
    lines = [(key, text) for _, key, text in page.own(log) if key.startswith("log-")]
    if len(lines) <= MAX_LOG_LINES:
        return
    folded = lines[:-KEPT_LOG_LINES]
    numbers: list[int] = []
    counts: dict[str, int] = {}
    for _, key, text in page.own(log):
        if key == "folded" and (found := _FOLDED.match(text)):
            numbers += [int(found[1]), int(found[2])]
            counts |= {word: int(count) for count, word in _COUNTED.findall(found[3])}
    last = ""
    for _, text in folded:
        if found := _LOG_LINE.fullmatch(text):
            numbers.append(int(found[1]))
            counts[found[2]] = counts.get(found[2], 0) + 1
            last = found[3] or last
    said = ", ".join(f"{count} {word}" for word, count in counts.items())
    summary = f"iterations {min(numbers, default=0)}-{max(numbers, default=0)}: {said}; last: {last[:160]}"
    page.merge(log, {"folded", *(key for key, _ in folded)}, "folded", summary)


def _bounded(text: str) -> str:
    if len(text) <= _MAX_GOAL_CHARACTERS:
        return text
    left = len(text) - _MAX_GOAL_CHARACTERS
    return f"{text[:_MAX_GOAL_CHARACTERS]}\n[… {left:,} more characters: `mainspring goal show`]"


def _short(path: str) -> str:
    return path if len(path) <= 80 else f"…{path[-79:]}"


def _time(at_us: int) -> str:
    return f"{date_of(at_us):%Y-%m-%dT%H:%M:%SZ}"
