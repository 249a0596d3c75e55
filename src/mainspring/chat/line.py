"""The input line: history of the project, pasted text as chips, images from the clipboard."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, ThreadedCompleter
from prompt_toolkit.history import History

from mainspring.errors import UsageError
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


class EnteredLines(asyncio.Queue[str]):
    """What was entered and is not begun yet; it can be looked at, and the last taken back."""

    def _init(self, maxsize: int) -> None:  # noqa: ARG002
        self._queue = deque[str]()

    @property
    def texts(self) -> Sequence[str]:
        return tuple(self._queue)

    def take_back(self) -> str | None:
        return self._queue.pop() if self._queue else None


class Chips:
    """What is too long for the line, or no text, and stands in it as a few words."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._images: dict[int, bytes] = {}

    def paste(self, text: str) -> str:
        """What to insert for a pasted text: itself, or its chip."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.removesuffix("\n").count("\n") + 1
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
        """The images whose chips stand in a line, each with its chip."""
        found = {int(each[1]): each[0] for each in _CHIP.finditer(line)}
        return [(chip, self._images[number]) for number, chip in found.items() if number in self._images]

    def take_over(self, line: str, images: Sequence[tuple[str, bytes]]) -> str:
        """A line of a chat before this one, with chips of this one in the place of its images' chips."""
        here = dict(self.images_in(line))
        new = {chip: chip if here.get(chip) == data else self.image(data) for chip, data in images}
        return _CHIP.sub(lambda found: new.get(found[0], found[0]), line)


def image_name(chip: str) -> str:
    """The name of a file for the image of a chip."""
    return f"{chip.strip('[]').replace(' ', '-')}.png"


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


async def clipboard_image() -> bytes:
    """The image in the clipboard, by the first program that gives one; `UsageError` when none does."""
    programs = [argv for argv in _CLIPBOARDS if shutil.which(argv[0])]
    for argv in programs:
        if data := await asyncio.to_thread(_output_of, argv):
            return data
    if programs:
        raise UsageError("There is no image in the clipboard.", remedy="Or write the path of one.")
    names = ", ".join(argv[0] for argv in _CLIPBOARDS)
    raise UsageError("No program can read the clipboard.", remedy=f"Install one of {names}, or write a path.")


def _output_of(argv: Sequence[str]) -> bytes:
    try:
        ran = subprocess.run(argv, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return b""  # a clipboard whose owner does not answer has nothing for us
    return ran.stdout if ran.returncode == 0 else b""


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
