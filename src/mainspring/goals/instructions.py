"""Instructions that outside engines read by themselves: `AGENTS.md`, and pointers to it for those who look
elsewhere. They are written when absent, or between marks of our own; whatever else is there stays as it is.
"""

from __future__ import annotations

from mainspring.errors import PathRefused
from mainspring.sandbox.files import Files

BEGIN, END = "<!-- mainspring: begin -->", "<!-- mainspring: end -->"
FILE = "AGENTS.md"
_POINTERS = ("CLAUDE.md", "GEMINI.md")
_MAX_BYTES = 1_000_000


def write_instructions(files: Files, text: str) -> list[str]:
    """Brings our part of each file up to date; gives what could not be written, and why."""
    problems: list[str] = []
    wanted = {FILE: text, **dict.fromkeys(_POINTERS, f"Read {FILE}: it holds for every agent.")}
    for name, body in wanted.items():
        try:
            _write(files, name, body)
        except (PathRefused, OSError, UnicodeDecodeError) as error:
            problems.append(f"{name} was left alone: {error}")
    return problems


def with_ours(text: str, body: str) -> str:
    """The text with our part brought up to date; unchanged when it has none."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    return f"{before}{BEGIN}\n{body.strip()}\n{END}{after}" if begun and ended else text


def _write(files: Files, name: str, body: str) -> None:
    try:
        found = files.read(name, max_bytes=_MAX_BYTES)
    except FileNotFoundError:
        files.write(name, with_ours(f"{BEGIN}{END}\n", body).encode(), is_new=True)
        return
    if found.size > _MAX_BYTES:
        raise PathRefused(f"{name} is larger than {_MAX_BYTES:,} bytes.")
    text = found.data.decode()
    changed = with_ours(text, body)
    if changed != text:
        files.write(name, changed.encode(), unchanged_since=found.version)
