"""The input line: history of the project, pasted text as chips, images from the clipboard."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections.abc import AsyncGenerator, Callable, Iterable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.history import History

from mainspring.events.counts import plural

_CHIP_LINES = 8
_CHIP_CHARS = 1500
_CHIP = re.compile(r"\[(?:paste|image) (\d+)[^\]\n]*\]")
_CLIPBOARDS = (
    ("wl-paste", "--no-newline", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
FILE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
"""Files that are attached to a message that names them."""
_MARKS = ("/", "!", "#")
_MENTION = re.compile(r"@[\w.-]+:")
_COPIERS = (("wl-copy",), ("xclip", "-selection", "clipboard"), ("pbcopy",))
_TIMEOUT_S = 5.0


class ProjectHistory(History):
    """What was entered before, from the operation that keeps it."""

    def __init__(self, load: Callable[[], list[str]], keep: Callable[[str], None]) -> None:
        super().__init__()
        self._read = load
        self._keep = keep

    def load_history_strings(self) -> Iterable[str]:
        return reversed(self._read())

    async def load(self) -> AsyncGenerator[str]:
        if not self._loaded:
            self._loaded_strings = await asyncio.to_thread(lambda: list(reversed(self._read())))
            self._loaded = True
        for text in self._loaded_strings:
            yield text

    def store_string(self, string: str) -> None:
        self._keep(string)


class Chips:
    """What is too long for the line, or no text, and stands in it as a few words."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._images: dict[int, bytes] = {}

    def paste(self, text: str) -> str:
        """What to insert for a pasted text: itself, or its chip."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= _CHIP_LINES and len(text) <= _CHIP_CHARS:
            return text
        number = len(self._texts) + len(self._images) + 1
        self._texts[number] = text
        return f"[paste {number}: {plural(lines, 'line')}]"

    def image(self, data: bytes) -> str:
        number = len(self._texts) + len(self._images) + 1
        self._images[number] = data
        return f"[image {number}]"

    def whole(self, line: str) -> str:
        """The line with pasted texts in the place of their chips."""
        return _CHIP.sub(lambda found: self._texts.get(int(found[1]), found[0]), line)

    def images_in(self, line: str) -> list[tuple[str, bytes]]:
        """The images whose chips stand in a line, each with a name."""
        numbers = [int(found[1]) for found in _CHIP.finditer(line)]
        return [(f"image-{each}.png", self._images[each]) for each in numbers if each in self._images]


def is_more_than_words(line: str) -> bool:
    """Whether a line may be a command, or name what is sent with it."""
    names_file = any(suffix in line.lower() for suffix in FILE_SUFFIXES)
    return line.startswith(_MARKS) or names_file or _MENTION.search(line) is not None


def make_buffer(completer: Completer, history: History) -> Buffer:
    return Buffer(
        multiline=True,
        completer=ThreadedCompleter(completer),
        complete_while_typing=True,
        history=history,
        tempfile_suffix=".md",
        enable_history_search=False,
    )


def clipboard_image() -> bytes:
    """The image in the clipboard, by the first program that gives one; empty when none does."""
    for argv in _CLIPBOARDS:
        if shutil.which(argv[0]):
            ran = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S, check=False)
            if ran.returncode == 0 and ran.stdout:
                return ran.stdout
    return b""


def copy_with_program(text: str) -> bool:
    """Puts a text into the clipboard by a program of this machine; False when there is none that works."""
    for argv in _COPIERS:
        if shutil.which(argv[0]):
            ran = subprocess.run(
                argv, input=text.encode(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
            if ran.returncode == 0:
                return True
    return False
