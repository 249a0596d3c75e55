"""A page of Markdown that several people write: sections by their headings, and lines that are ours.

A line is ours when the mark at its end is the hash of the rest, so an edited or imitated line is somebody
else's and is never touched. Everything that is not ours is kept byte for byte. Pure.
"""

from __future__ import annotations

import hashlib
import re

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*)", re.DOTALL)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_MARK = re.compile(r"(.*) <!-- mainspring ([a-z0-9-]+) ([0-9a-f]{8}) -->\r?")
_MAX_LINE = 400


def own_line(key: str, text: str) -> str:
    """One line of ours, found again by its key."""
    flat = " ".join(text.split()).replace("<!--", "").replace("-->", "")
    body = f"- {flat if len(flat) <= _MAX_LINE else flat[: _MAX_LINE - 1] + '…'}"
    return f"{body} <!-- mainspring {key} {_check(key, body)} -->"


def owned(line: str) -> tuple[str, str] | None:
    """Key and text of a line that is ours and as we wrote it."""
    found = _MARK.fullmatch(line)
    if found is None or _check(found[2], found[1]) != found[3]:
        return None
    return found[2], found[1].removeprefix("- ")


def quoted(text: str) -> list[str]:
    """Somebody's words, so that no line of them can be taken for a heading."""
    return [f"> {line}".rstrip() for line in text.splitlines()] or [">"]


class MemoryPage:
    """The lines of a page; `str` gives them back."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        first = self._lines[0]
        self._end = "\r" if len(self._lines) > 1 and first.endswith("\r") else ""

    def __str__(self) -> str:
        return "\n".join(self._lines)

    def headings(self) -> list[tuple[int, int, str]]:
        """Line, level and name of each heading outside code; code that never ends is none."""
        found: list[tuple[int, int, str]] = []
        skipped_until = -1
        for number, line in enumerate(self._lines):
            if number <= skipped_until:
                continue
            if fence := _FENCE.match(line):
                skipped_until = self._end_of_code(number, fence[1])
            elif heading := _HEADING.match(line):
                found.append((number, len(heading[1]), heading[2].rstrip(" \t#\r")))
        return found

    def section(self, name: str) -> tuple[int, int] | None:
        """The lines after a heading of this name, up to the next heading."""
        headings = self.headings()
        for index, (number, _, found) in enumerate(headings):
            if found.casefold() == name.casefold():
                ends = headings[index + 1][0] if index + 1 < len(headings) else len(self._lines)
                return number + 1, ends
        return None

    def text(self, name: str) -> str:
        """What stands in a section, without our marks."""
        place = self.section(name)
        if place is None:
            return ""
        lines = (self._shown(line) for line in self._lines[place[0] : place[1]])
        return "\n".join(lines).strip()

    def own(self, name: str) -> list[tuple[int, str, str]]:
        """Number, key and text of our lines in a section."""
        start, end = self.section(name) or (0, 0)
        marked = ((number, owned(self._lines[number])) for number in range(start, end))
        return [(number, *mark) for number, mark in marked if mark]

    def put(self, name: str, key: str, text: str) -> None:
        """Writes our line of this key: in the place of the old one, else at the end of its section."""
        line = own_line(key, text)
        for number, found, _ in self.own(name):
            if found == key:
                self._lines[number] = line + self._end
                return
        self.append(name, [line])

    def drop(self, name: str, key: str) -> None:
        """Takes our line of this key out of a section."""
        for number, found, _ in reversed(self.own(name)):
            if found == key:
                del self._lines[number]

    def merge(self, name: str, keys: set[str], key: str, text: str) -> None:
        """Puts one line of ours in the place of several."""
        places = [number for number, found, _ in self.own(name) if found in keys]
        for number in reversed(places[1:]):
            del self._lines[number]
        if places:
            self._lines[places[0]] = own_line(key, text) + self._end

    def append(self, name: str, lines: list[str]) -> None:
        """Puts lines at the end of a section; a section that is missing is begun at the end of the page."""
        place = self.section(name)
        if place is None:
            self._begin(name)
            place = self.section(name) or (len(self._lines), len(self._lines))
        start, end = place
        while end > start and not self._lines[end - 1].strip():
            end -= 1
        added = [line + self._end for line in lines]
        if end == start or _is_other_block(self._lines[end - 1], lines[0]):
            added.insert(0, self._end)
        if end == len(self._lines):
            # The last line of a page has no line end of its own to keep.
            self._lines[-1] += self._end
            added.append("")
        elif self._lines[end].strip():
            added.append(self._end)
        self._lines[end:end] = added

    def take(self, name: str) -> list[str]:
        """Takes out all that stands in a section; gives its lines, without our marks."""
        taken = self.text(name).splitlines()
        if place := self.section(name):
            self._lines[place[0] : place[1]] = [self._end if place[1] < len(self._lines) else ""]
        return taken

    def field(self, name: str) -> str:
        """The value of a line `- name: value` above the first section."""
        for line in self._lines[: self._head()]:
            if line.startswith(f"- {name}:"):
                return line.partition(":")[2].strip()
        return ""

    def set_field(self, name: str, value: str) -> None:
        for number in range(self._head()):
            if self._lines[number].startswith(f"- {name}:"):
                end = "\r" if self._lines[number].endswith("\r") else ""
                self._lines[number] = f"- {name}: {value}{end}"
                return
        after = [number for number in range(self._head()) if self._lines[number].startswith("- ")]
        if after:
            self._lines.insert(after[-1] + 1, f"- {name}: {value}{self._end}")

    def _head(self) -> int:
        """Where the first section begins; a heading of the first line is the title."""
        return next((number for number, _, _ in self.headings() if number), len(self._lines))

    def _begin(self, name: str) -> None:
        if self._lines[-1]:
            self._lines[-1] += self._end
            self._lines.append("")
        self._lines[-1:] = [self._end, f"## {name}{self._end}", ""]

    def _end_of_code(self, start: int, fence: str) -> int:
        closing = re.compile(rf" {{0,3}}{fence[0]}{{{len(fence)},}}[ \t]*\r?")
        for number in range(start + 1, len(self._lines)):
            if closing.fullmatch(self._lines[number]):
                return number
        return start

    def _shown(self, line: str) -> str:
        mark = owned(line)
        return f"- {mark[1]}" if mark else line.removesuffix("\r")


def _is_other_block(last: str, first: str) -> bool:
    """Whether a blank line must stand between two lines, so that they do not run into one another."""
    return not (last.startswith("- ") and first.startswith("- "))


def _check(key: str, body: str) -> str:
    return hashlib.sha256(f"{key}\0{body}".encode()).hexdigest()[:8]
