"""File patterns and ignore files, matched the way git and ripgrep do.

A pattern without a slash meets a name at any depth; with one it starts at its root. `*` stays within a
folder, `**` does not, `{a,b}` is either. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
"""The first that says something about a path decides; within one kind the deepest folder does."""


@lru_cache(maxsize=512)
def glob_regex(pattern: str) -> re.Pattern[str]:
    """What a path relative to the root of the pattern must match whole."""
    rooted = "/" in pattern.rstrip("/")
    body = _translated(pattern.removeprefix("./").lstrip("/"))
    return re.compile(body if rooted else f"(?:.*/)?{body}", re.DOTALL)


def _translated(pattern: str) -> str:
    out: list[str] = []
    index = depth = 0
    while index < len(pattern):
        sign = pattern[index]
        index += 1
        if sign == "*":
            part, index = _stars(pattern, index)
        elif sign == "?":
            part = "[^/]"
        elif sign == "[":
            part, index = _class(pattern, index)
        elif sign == "\\" and index < len(pattern):
            part, index = re.escape(pattern[index]), index + 1
        elif sign == "{" and "}" in pattern[index:]:
            part, depth = "(?:", depth + 1
        elif sign == "}" and depth:
            part, depth = ")", depth - 1
        else:
            part = "|" if sign == "," and depth else re.escape(sign)
        out.append(part)
    return "".join(out) + ")" * depth


def _stars(pattern: str, index: int) -> tuple[str, int]:
    """One star was read. Two of them cross folders when they are a whole part of the path."""
    is_start = index == 1 or pattern[index - 2] == "/"
    if pattern[index : index + 1] == "*" and is_start:
        if pattern[index + 1 : index + 2] == "/":
            return "(?:.*/)?", index + 2
        if index + 1 == len(pattern):
            return ".*", index + 1
    while pattern[index : index + 1] == "*":
        index += 1
    return "[^/]*", index


def _class(pattern: str, index: int) -> tuple[str, int]:
    end = pattern.find("]", index + 1 + pattern.startswith("!", index))
    if end < 0:
        return r"\[", index
    body = pattern[index:end]
    is_negated = body[:1] in ("!", "^")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[is_negated:])
    return f"(?!/)[{'^' if is_negated else ''}{inner}]", end + 1


class IgnoreRule(msgspec.Struct, frozen=True):
    regex: re.Pattern[str]
    is_negated: bool
    is_for_folders: bool


def parse_ignore(text: str) -> tuple[IgnoreRule, ...]:
    """The rules of one ignore file; lines that are no pattern are passed over."""
    rules: list[IgnoreRule] = []
    for line in text.splitlines():
        line = _without_trailing_spaces(line)
        if not line or line.startswith("#"):
            continue
        is_negated = line.startswith("!")
        line = line[is_negated:]
        pattern = line.rstrip("/")
        try:
            regex = glob_regex(pattern)
        except re.error:
            continue
        if pattern:
            rules.append(IgnoreRule(regex, is_negated, line.endswith("/")))
    return tuple(rules)


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    return stripped + " " if stripped.endswith("\\") and stripped != line else stripped


def verdict(rules: Iterable[IgnoreRule], path: str, *, is_dir: bool) -> bool | None:
    """Whether the last rule that meets this path ignores it; None when no rule meets it."""
    found = None
    for rule in rules:
        if (is_dir or not rule.is_for_folders) and rule.regex.fullmatch(path):
            found = not rule.is_negated
    return found
