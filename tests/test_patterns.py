"""A lazy pattern is what `re.compile` would have made, and is made once, when it is used."""

from __future__ import annotations

import re

import pytest

from mainspring.patterns import lazy_pattern


def test_a_lazy_pattern_finds_what_a_compiled_one_finds() -> None:
    text, source = "One two\nthree", r"^t(\w+)"
    lazy, compiled = lazy_pattern(source, re.MULTILINE), re.compile(source, re.MULTILINE)
    assert lazy.findall(text) == compiled.findall(text) == ["hree"]
    assert lazy.sub("x", text) == compiled.sub("x", text)
    assert (lazy.pattern, lazy.flags, lazy.search("no")) == (compiled.pattern, compiled.flags, None)
    assert lazy_pattern(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_a_lazy_pattern_is_compiled_by_its_first_use_alone() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("")
    right = lazy_pattern("a")
    assert right.search is right.search
