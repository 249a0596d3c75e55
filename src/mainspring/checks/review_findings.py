"""Whether the findings of a reviewer are about what is there: the file, the line and the code that it quotes.

A finding that quotes code which stands elsewhere in its file gets the line where it stands. One whose file or
quote is not there is told apart, with the reason, and never among those that were verified. Pure.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated

import msgspec

from mainspring.events import ReviewFinding, Severity
from mainspring.events.counts import plural
from mainspring.workspace.parsed_diff import DiffedFile

_MAX_QUOTE = 40
SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")
"""The worst first."""


class FoundProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong in a change, as a reviewer answers."""

    file: str
    line: int
    severity: Severity
    title: str
    why: str
    quote: str = ""
    reproduction: str = ""
    verified: str = ""
    confidence: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None


class ReviewAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that a reviewer answers."""

    summary: str
    findings: tuple[FoundProblem, ...] = ()
    confidence: Annotated[int, msgspec.Meta(ge=0, le=100)] | None = None
    reasons: tuple[str, ...] = ()


class Sorted(msgspec.Struct, frozen=True):
    """Findings that were verified, the worst first, and those that could not be."""

    verified: tuple[ReviewFinding, ...] = ()
    unverified: tuple[ReviewFinding, ...] = ()


def verify(
    found: Sequence[FoundProblem], diffs: Sequence[DiffedFile], content: Callable[[str], str | None]
) -> Sorted:
    """Looks at each finding where it says that it is: in the change itself, or in the file as it is now.
    `content` gives that, and None where there is no such file."""
    by_path = {each.path: each for each in diffs}
    verified: list[ReviewFinding] = []
    unverified: list[ReviewFinding] = []
    named = (
        msgspec.structs.replace(each, file=_path_meant(each.file, by_path.keys(), content)) for each in found
    )
    for each in dict.fromkeys(named):
        place = _place(each, by_path.get(each.file), content)
        finding = msgspec.convert(each, ReviewFinding, from_attributes=True)
        if isinstance(place, int):
            is_gone = not stands_in(finding, content(each.file) or "")
            verified.append(msgspec.structs.replace(finding, line=place, is_gone=is_gone))
        else:
            unverified.append(msgspec.structs.replace(finding, problem=place))
    return Sorted(_ordered(verified), _ordered(unverified))


def asked_again(unverified: Sequence[ReviewFinding]) -> str:
    """What a reviewer is told of findings that could not be verified."""
    lines = [f"- {each.file}:{each.line} {each.title}: {each.problem}" for each in unverified]
    return (
        f"{plural(len(unverified), 'finding')} could not be verified:\n" + "\n".join(lines) + "\n"
        "Look again with your tools. Answer once more with all findings that hold, each with the file, the"
        " line and the code there, quoted exactly; leave out what does not hold."
    )


def at_least(findings: Sequence[ReviewFinding], severity: Severity) -> list[ReviewFinding]:
    """Those that are at least this bad."""
    return [each for each in findings if SEVERITIES.index(each.severity) <= SEVERITIES.index(severity)]


def stands_in(finding: ReviewFinding, text: str) -> bool:
    """Whether the code that a finding quotes is still in a text."""
    lines = dict(enumerate(text.split("\n"), 1))
    return bool(_found(_quoted(finding.quote), lines))


def _ordered(findings: Sequence[ReviewFinding]) -> tuple[ReviewFinding, ...]:
    return tuple(sorted(findings, key=lambda each: (SEVERITIES.index(each.severity), each.file, each.line)))


def _path_meant(name: str, changed: Collection[str], content: Callable[[str], str | None]) -> str:
    """The path that a reviewer means: many write it as the diff does, with `a/` or `b/` before it."""
    path = posixpath.normpath(name)
    bare = path.removeprefix("a/" if path.startswith("a/") else "b/")
    return bare if bare in changed and path not in changed and content(path) is None else path


def _place(each: FoundProblem, diff: DiffedFile | None, content: Callable[[str], str | None]) -> int | str:
    """The line where a finding stands, or why it cannot be verified."""
    text = content(each.file)
    if diff is None and text is None:
        return "there is no such file, here or in the change"
    quote = _quoted(each.quote)
    if not quote:
        return "it quotes no code"
    texts = [text] if text is not None else []
    lines: list[Mapping[int, str]] = [dict(enumerate(one.split("\n"), 1)) for one in texts]
    if diff is not None:  # what went counts as well: a finding may be about that
        lines = [diff.shown, *lines, diff.removed]
    for one in lines:
        if places := _found(quote, one):
            return min(places, key=lambda line: abs(line - each.line))
    return "the code that it quotes is not there"


def _quoted(quote: str) -> list[str]:
    lines = [" ".join(line.split()) for line in quote.strip("\n`").split("\n")]
    return [line for line in lines if line][:_MAX_QUOTE]


def _found(quote: Sequence[str], lines: Mapping[int, str]) -> list[int]:
    """The numbers of lines at which a quote begins: whole lines, or for one line a part of it; blank lines
    do not count."""
    if not quote:
        return []
    texts = [(number, " ".join(line.split())) for number, line in lines.items() if line.strip()]
    if len(quote) == 1:
        return [number for number, line in texts if quote[0] in line]
    starts = (index for index, (_, line) in enumerate(texts) if line.endswith(quote[0]))
    rest = [*quote[1:-1]]
    return [
        texts[index][0]
        for index in starts
        if [line for _, line in texts[index + 1 : index + len(quote) - 1]] == rest
        and index + len(quote) <= len(texts)
        and texts[index + len(quote) - 1][1].startswith(quote[-1])
    ]
