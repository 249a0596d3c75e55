"""Which names of models are close to one that nobody knows. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_LEAST = 0.6
_PART = 0.75
_DIGITS = re.compile(r"\d+")


def close_names(name: str, known: Iterable[str], *, most: int = 3) -> tuple[str, ...]:
    """The closest first; of equally close ones the one that was named first, of one family the newest."""
    wanted = _bare(name)
    if not wanted:
        return ()
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    scored: list[tuple[float, list[int], str]] = []
    for each in dict.fromkeys(known):
        score = max(_score(matcher, wanted, each.lower()), _score(matcher, wanted, _bare(each)))
        if score >= _LEAST and each != name:
            scored.append((round(score, 2), [int(digits) for digits in _DIGITS.findall(each)], each))
    scored.sort(key=lambda item: (-item[0], [-number for number in item[1]]))
    return tuple(each for _, _, each in scored[:most])


def _bare(name: str) -> str:
    """A model's own name, without who offers it, and where."""
    return name.rpartition("#")[2].rpartition("/")[2].lower()


def _score(matcher: SequenceMatcher[str], wanted: str, known: str) -> float:
    if len(wanted) >= 3 and wanted in known:
        return _PART + len(wanted) / len(known) / 4
    matcher.set_seq1(known)
    if matcher.real_quick_ratio() < _LEAST or matcher.quick_ratio() < _LEAST:
        return 0.0
    return matcher.ratio()
