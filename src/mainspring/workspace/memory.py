"""What is remembered about a project beyond one session: a Markdown file of bounded size, one line for each
thing and where it came from. People may edit it. It lies in mainspring's data folder, never in the workspace.

A change is written whole or not at all, and two processes that change it do not lose each other's lines. When
it is full, the oldest lines go. Secrets are replaced by their names when a line is written, and again when it
is read: a placeholder would mean nothing to a later session.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from mainspring.disk.files import locked, write_private
from mainspring.disk.formats import KEY, refuse_newer
from mainspring.disk.untrusted import read_start
from mainspring.errors import ConfigError, UsageError
from mainspring.events.escaping import whole_characters
from mainspring.patterns import lazy_pattern
from mainspring.secrets.vault import PLACEHOLDER, secret_name

MAX_BYTES = 16 * 1024
_FORMAT = 1
_MAX_LINE = 1000
_VERSION = lazy_pattern(rf"^# {KEY}: (\d+)$", re.MULTILINE)
_LINE = lazy_pattern(r"^- (?P<text>.*?)(?: \((?P<source>[^()]*)\))?$")
_SLUG = lazy_pattern(r"[^a-zA-Z0-9]+")


class Remark(msgspec.Struct, frozen=True):
    """One thing that is remembered, and who said it when."""

    text: str
    source: str = ""


def project_name(project: Path) -> str:
    """What the files are called that are about the project in a folder."""
    slug = _SLUG.sub("-", project.name).strip("-")[:40] or "project"
    return f"{slug}-{hashlib.sha256(os.fsencode(project)).hexdigest()[:10]}"


class ProjectMemory:
    def __init__(self, home: Path, project: Path, *, hide: Callable[[str], str]) -> None:
        """The memory of the project in a folder, kept under mainspring's home. `hide` replaces secrets by
        placeholders."""
        self.path = home / "memory" / f"{project_name(project)}.md"
        self.project = project
        self._hide = hide

    def load(self) -> list[Remark]:
        return _parse(self._without_secrets(self._read().decode("utf-8", "replace")))

    def add(self, text: str, source: str) -> list[Remark]:
        """Remembers a text, once; gives what had to go to make room for it."""
        line = " ".join(self._without_secrets(whole_characters(text)).split())
        if not line:
            raise UsageError("The text to remember is empty.")
        if len(line) > _MAX_LINE:
            raise UsageError(
                f"That has {len(line):,} characters; a line of memory has at most {_MAX_LINE:,}.",
                remedy="Say it shorter, or write it to a file and remember where that is.",
            )
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        with self._changing() as remarks:
            if any(remark.text == line for remark in remarks):
                return []
            remarks.append(Remark(line, re.sub(r"[()\n]", " ", f"{source}, {day}")))
            gone: list[Remark] = []
            while len(self._rendered(remarks)) > MAX_BYTES:
                gone.append(remarks.pop(0))
            return gone

    def forget(self, number: int) -> Remark:
        """Forgets the line with a number, counted from 1."""
        with self._changing() as remarks:
            if not 1 <= number <= len(remarks):
                raise UsageError(f"There is no line {number}.", remedy="`mainspring memory` numbers them.")
            return remarks.pop(number - 1)

    @contextmanager
    def _changing(self) -> Generator[list[Remark]]:
        with locked(self.path):
            self.path.parent.chmod(0o700)
            before = self._read()
            remarks = _parse(self._without_secrets(before.decode("utf-8", "replace")))
            yield remarks
            after = self._rendered(remarks)
            if after != before:
                write_private(self.path, after)

    def _read(self) -> bytes:
        try:
            data = read_start(self.path, max_bytes=4 * MAX_BYTES)
            with suppress(PermissionError):  # somebody else's file, or a folder that cannot be written
                self.path.chmod(0o600)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise ConfigError(
                f"The memory in {self.path} cannot be read: {error.strerror}.", remedy="Move it away."
            ) from error
        text = data.decode("utf-8", "replace")
        refuse_newer(self.path, int(found[1]) if (found := _VERSION.search(text)) else 1, _FORMAT)
        return data

    def _without_secrets(self, text: str) -> str:
        return PLACEHOLDER.sub(lambda found: f"[secret {secret_name(found[0])}]", self._hide(text))

    def _rendered(self, remarks: list[Remark]) -> bytes:
        lines = [f"- {remark.text}" + (f" ({remark.source})" if remark.source else "") for remark in remarks]
        head = [f"# What to remember about {self.project}", f"# {KEY}: {_FORMAT}", ""]
        return "\n".join([*head, *lines, ""]).encode("utf-8", "replace")


def _parse(text: str) -> list[Remark]:
    """The lines of a file that a person may have edited: what is not a list item is one all the same."""
    remarks: list[Remark] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.match(line if line.startswith("- ") else f"- {line.strip()}")
        if found and found["text"].strip():
            remarks.append(Remark(found["text"].strip(), found["source"] or ""))
    return remarks
