"""Checks of a draft that need no model: every name that it mentions as code is one of the file or the
project, it says something, and it is not the form that the model was shown. Pure."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache

import msgspec

from mainspring.context.repetition import is_repetition
from mainspring.forge.prompts import FORMS
from mainspring.forge.values import OutlinedDefinition, PageNotes, PieceNotes, SourceFile
from mainspring.patterns import lazy_pattern

_LEAST_SUMMARY = 20
_LEAST_WORDS = 2
_MOST_TEXT = 3_000
_MAX_NAMED = 8
_SPAN = lazy_pattern(r"`+([^`\n]+)`+")
_WORD = lazy_pattern(r"[A-Za-z_$][\w$]*")
_PLAINLY_CODE = lazy_pattern(r"\b([A-Za-z_]\w+)\(|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")
_SPACED_CODE = lazy_pattern(r"\b([A-Za-z_]\w*)\(|\b(\w*_\w+)\b|\b([a-z]+[A-Z]\w+)\b")
_BARE = lazy_pattern(r"\w+")
_REFUSED = lazy_pattern(r"(?i)\b(?:as an ai|i cannot|i can't|i'm sorry|language model)\b")
_WORDS = """
string number boolean int bool void null undefined true false nil char float double long self this super main
Error Promise Array Map Set Object JSON console error std vector String Vec Option Result Some Ok Err Box
usize isize u8 u16 u32 u64 i8 i16 i32 i64 f32 f64 func fn let const var struct enum trait impl interface
type public private static final Integer Hash Symbol Boolean List Exception require import export default
async stdin stdout stderr argv json http https utf TODO FIXME py js ts go rs rb java"""
_COMMON = frozenset((*keyword.kwlist, *dir(builtins), *_WORDS.split()))
"""Words of languages that stand for themselves."""


def _bare(text: str) -> str:
    """A text without what a small model changes when it copies."""
    return " ".join(_BARE.findall(text.casefold()))


@cache
def _forms() -> tuple[str, ...]:
    return tuple(_bare(form) for form in FORMS)


def words_in(text: str) -> frozenset[str]:
    """All names of a file, those in its comments and texts included."""
    return frozenset(_WORD.findall(text))


def unknown_names(text: str, known: Collection[str]) -> list[str]:
    """What a text mentions as code and nothing has, once each."""
    missing = (name for name in _mentioned(text) if name not in known and name not in _COMMON)
    return list(dict.fromkeys(missing))


def _mentioned(text: str) -> Iterator[str]:
    for span in _SPAN.findall(text):
        if " " in span.strip():
            yield from ("".join(found) for found in _SPACED_CODE.findall(span))
        else:
            yield from (word for word in _WORD.findall(span) if len(word) > 1)
    plain = _SPAN.sub(" ", text)
    yield from (first or second for first, second in _PLAINLY_CODE.findall(plain))


def text_problem(text: str, known: Collection[str], holds_secrets: Callable[[bytes], bool]) -> str:
    """Why a text cannot be used; empty when it can."""
    if any(form in _bare(text) for form in _forms()):
        return "it repeats the form of the reply"
    if is_repetition(text) or len(text) > _MOST_TEXT:
        return "it repeats itself or does not end"
    if _REFUSED.search(text):
        return "it talks about the one who wrote it"
    if holds_secrets(text.encode()):
        return "it holds what looks like a secret"
    if missing := unknown_names(text, known):
        return f"these names are not in the project: {', '.join(missing[:_MAX_NAMED])}"
    return ""


def described(
    file: SourceFile,
    notes: Sequence[PieceNotes],
    known: Collection[str],
    holds_secrets: Callable[[bytes], bool],
) -> tuple[tuple[OutlinedDefinition, ...], list[str]]:
    """The definitions with what the model says of those of which the file says nothing, and what was dropped.
    A name that the file does not define is never taken."""
    said = {item.name: item.does.strip() for each in notes for item in each.items if item.does.strip()}
    found: list[OutlinedDefinition] = []
    dropped: list[str] = []
    for each in file.outline.definitions:
        does = said.get(each.name, "") if not each.doc else ""
        if does and (problem := text_problem(does, known, holds_secrets)):
            dropped.append(f"what was said of {each.name}: {problem}")
            does = ""
        found.append(msgspec.structs.replace(each, does=does) if does else each)
    return tuple(found), dropped


def page_problems(
    notes: PageNotes, known: Collection[str], holds_secrets: Callable[[bytes], bool]
) -> list[str]:
    """What is wrong with a summary."""
    if len(notes.summary.strip()) < _LEAST_SUMMARY:
        return ["the summary says nothing"]
    problem = text_problem(notes.summary, known, holds_secrets)
    return [f"the summary: {problem}"] if problem else []


def kept_directions(
    notes: PageNotes, known: Collection[str], holds_secrets: Callable[[bytes], bool]
) -> tuple[tuple[str, ...], list[str]]:
    """Those that hold, and what was dropped."""
    kept: list[str] = []
    dropped: list[str] = []
    for each in (direction.strip() for direction in notes.directions):
        problem = text_problem(each, known, holds_secrets) if each else ""
        if not problem and each and len(each.split()) < _LEAST_WORDS:
            problem = "it says nothing"
        if problem:
            dropped.append(f"a direction: {problem}")
        elif each:
            kept.append(each)
    return tuple(kept), dropped
