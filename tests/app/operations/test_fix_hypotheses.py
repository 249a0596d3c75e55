"""What an agent suspects is read from its own lines; its word alone confirms nothing."""

from __future__ import annotations

from mainspring.app.operations.fix_hypotheses import read_hypotheses, told_hypotheses, without_repeats

SAID = [
    "HYPOTHESIS 1: the index is wrong\n- **HYPOTHESIS 2**: the file is empty\n\n> HYPOTHESIS 8: a quotation",
    "```\nHYPOTHESIS 9: code\n```\nREFUTED 1: it is 3\nCONFIRMED 2: size 0\nHYPOTHESIS 3: never looked at",
]


def judged(*texts: str, is_passed: bool) -> list[tuple[int, str]]:
    found = read_hypotheses(texts, attempt=1, is_passed=is_passed)
    return [(each.number, each.verdict) for each in found]


def test_a_hypothesis_is_confirmed_only_by_an_attempt_that_passed() -> None:
    assert judged(*SAID, is_passed=True) == [(1, "refuted"), (2, "confirmed"), (3, "open")]
    assert judged(*SAID, is_passed=False) == [(1, "refuted"), (2, "open"), (3, "open")]


def test_lines_without_a_number_are_about_the_last_one() -> None:
    text = "HYPOTHESIS: a\nREFUTED: no\nHYPOTHESIS: b\nCONFIRMED: yes"
    assert judged(text, is_passed=True) == [(1, "refuted"), (2, "confirmed")]
    assert judged("CONFIRMED 4: of nothing", is_passed=True) == []


def test_the_next_attempt_is_told_each_once_as_it_was_judged_last() -> None:
    first = read_hypotheses(["HYPOTHESIS 1: It is empty."], attempt=1, is_passed=False)
    second = read_hypotheses(["HYPOTHESIS 1: it is empty\nREFUTED 1: 3 lines"], attempt=2, is_passed=False)
    told = told_hypotheses(without_repeats([*first, *second]))
    assert told.count("empty") == 1
    assert "refuted: it is empty (3 lines)" in told
    assert told_hypotheses([]) == ""
