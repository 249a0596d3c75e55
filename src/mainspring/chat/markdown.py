"""Markdown that is still being written, cut into blocks that are finished: those are never changed by what
follows, so each can be rendered once. Pure."""

from __future__ import annotations

import re

import msgspec

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_ITEM = re.compile(r"^(?:[-*+]|\d{1,9}[.)])(?:\s|$)")
_HEADING = re.compile(r"^#{1,6}(?:\s|$)")
_CODE_LINES = 24
_LIST_LINES = 8


class MarkdownBlock(msgspec.Struct, frozen=True):
    """`is_joined` says that it goes on with what the block before it was: a list, or lines of code."""

    text: str
    is_joined: bool = False


class MarkdownStream:
    """Takes text in pieces of any size; `rest` is what is not finished yet."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence = ""
        self._is_joined = False

    @property
    def rest(self) -> str:
        return "\n".join((*self._lines, self._partial))

    def feed(self, text: str) -> list[MarkdownBlock]:
        *lines, self._partial = (self._partial + text).split("\n")
        blocks: list[MarkdownBlock] = []
        for line in lines:
            blocks += self._take(line)
        return blocks

    def finish(self) -> list[MarkdownBlock]:
        """What is left, as if it ended here; then it begins anew."""
        last, self._partial = self._partial, ""
        blocks = [*(self._take(last) if last else ()), *self._cut()]
        self._fence, self._is_joined = "", False
        return blocks

    def _take(self, line: str) -> list[MarkdownBlock]:
        return self._take_code(line) if self._fence else self._take_text(line)

    def _take_code(self, line: str) -> list[MarkdownBlock]:
        self._lines.append(line)
        found = _FENCE.match(line)
        if found and found[2].startswith(self._fence) and not found[3].strip():
            self._fence = ""
            return [] if self._is_list else self._cut()
        if len(self._lines) <= _CODE_LINES or self._is_list:
            return []
        opening = self._lines[0]
        self._lines.append(self._fence)
        blocks = self._cut()
        self._lines, self._is_joined = [opening], True
        return blocks

    def _take_text(self, line: str) -> list[MarkdownBlock]:
        if not line.strip() and not self._is_list:
            return self._cut()
        blocks: list[MarkdownBlock] = []
        is_inner = line[:1] in (" ", "\t")
        is_after_gap = bool(self._lines) and not self._lines[-1].strip()
        is_long_list = self._is_list and len(self._lines) >= _LIST_LINES and bool(_ITEM.match(line))
        fence = _FENCE.match(line)
        if line.strip() and not (is_inner and self._is_list):
            is_same_list = self._is_list and bool(_ITEM.match(line))
            if is_after_gap or is_long_list or fence or _HEADING.match(line):
                blocks = self._cut()
                self._is_joined = bool(blocks) and is_same_list
        self._lines.append(line)
        if fence:
            self._fence = fence[2]
        elif _HEADING.match(line):
            blocks += self._cut()
        return blocks

    @property
    def _is_list(self) -> bool:
        return bool(self._lines) and bool(_ITEM.match(self._lines[0]))

    def _cut(self) -> list[MarkdownBlock]:
        text = "\n".join(self._lines).strip("\n")
        block = MarkdownBlock(text, self._is_joined)
        self._lines, self._is_joined = [], False
        return [block] if text.strip() else []
