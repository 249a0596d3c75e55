"""Writes pages into a folder of the workspace. Each ends with a line that has a hash of all before it: a file
without it, or changed since, is somebody else's and is left as it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec

from mainspring.errors import PathRefused
from mainspring.events import PageForm
from mainspring.forge.layout import file_of, index_of, index_text, page_text
from mainspring.forge.values import DocPage
from mainspring.patterns import lazy_pattern
from mainspring.sandbox.files import Files

_SEAL = lazy_pattern(r"\n<!-- written by mainspring docs forge; sha256 ([0-9a-f]{64}) -->\n\Z")
_MAX_BYTES = 16 << 20

PageOnDisk = Literal["current", "older", "missing", "foreign"]
"""How the file of a page is: as approved; ours, of an earlier draft; not there; a person's."""


class WrittenPages(msgspec.Struct, frozen=True):
    """Files that were written or removed, and files of a person that were left as they are."""

    written: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def sealed(text: str) -> str:
    text = text.rstrip("\n") + "\n"
    return f"{text}\n<!-- written by mainspring docs forge; sha256 {_hash(text)} -->\n"


def is_ours(text: str) -> bool:
    """Whether a text is one that was sealed, and not changed since."""
    found = _SEAL.search(text)
    return found is not None and _hash(text[: found.start()]) == found[1]


def look_at(files: Files, output: str, page: DocPage, form: PageForm) -> PageOnDisk:
    """How the file of an approved page is."""
    there = _read(files, f"{output}/{file_of(page.path, form)}")
    if there is None:
        return "missing"
    if there == sealed(page_text(page, form)):
        return "current"
    return "older" if is_ours(there) else "foreign"


def write_pages(files: Files, output: str, pages: Sequence[DocPage], form: PageForm) -> WrittenPages:
    """Writes the approved pages that are not there as they are, and their index."""
    texts = {file_of(page.path, form): page_text(page, form) for page in pages}
    if pages or _read(files, f"{output}/{index_of(form)}") is not None:
        texts[index_of(form)] = index_text(pages, form)
    done: list[str] = []
    left: list[str] = []
    for name, text in texts.items():
        path, whole = f"{output}/{name}", sealed(text)
        there = _read(files, path)
        if there == whole:
            continue
        if there is not None and not is_ours(there):
            left.append(path)
            continue
        files.write(path, whole.encode(), is_new=there is None)
        done.append(path)
    return WrittenPages(tuple(done), tuple(left))


def remove_pages(files: Files, output: str, pages: Sequence[DocPage], form: PageForm) -> WrittenPages:
    """Removes the files of pages, unless a person wrote or changed them."""
    done: list[str] = []
    left: list[str] = []
    for page in pages:
        path = f"{output}/{file_of(page.path, form)}"
        there = _read(files, path)
        if there is not None and is_ours(there):
            files.remove(path)
            done.append(path)
        elif there is not None:
            left.append(path)
    return WrittenPages(left_alone=tuple(left), removed=tuple(done))


def _read(files: Files, path: str) -> str | None:
    try:
        return files.read(path, max_bytes=_MAX_BYTES).data.decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except NotADirectoryError as error:
        raise PathRefused(f"`{path}` cannot be written: a file stands where a folder should be.") from error


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
