"""JSON that is not quite JSON: read as it was meant, or not at all."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.models.loose_json import loads, read

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 2]))
def test_json_is_read_as_json(value, indent):
    assert loads(json.dumps(value, indent=indent)) == value


@given(st.dictionaries(st.text("ab_", min_size=1, max_size=3), st.text(), max_size=3))
def test_what_comes_behind_a_value_changes_nothing_of_it(value):
    assert read(json.dumps(value) + "\nand so on") == (value, "\nand so on")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": "say "hello" to him"}', {"a": 'say "hello" to him'}),
        ('{"code": "x = {"a": 1, "b": 2}", "path": "p"}', {"code": 'x = {"a": 1, "b": 2}', "path": "p"}),
        ('{"a": [1, 2, 3,], }', {"a": [1, 2, 3]}),
        ("{'a': 'it is', 'b': True, 'c': None}", {"a": "it is", "b": True, "c": None}),
        (r'{"pattern": "\d+\.\w"}', {"pattern": r"\d+\.\w"}),
        ('{"a": "tab\there"}', {"a": "tab\there"}),
    ],
)  # fmt: skip
def test_what_models_write_is_read_as_it_was_meant(text, value):
    assert loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a"',
        '{"command": "rm -r build',
        '{"a": "b"',
        '{"a": 1} {"b": 2}',
        "[" * 5000,
        "{a}",
        "nothing",
    ],
)
def test_half_a_value_is_none(text):
    with pytest.raises(ValueError):
        loads(text)


def test_missing_brackets_are_forgiven_on_request_and_missing_ends_of_texts_never():
    assert read('{"a": {"b": [1') == ({"a": {"b": [1]}}, "")
    with pytest.raises(ValueError, match="does not end"):
        read('{"a": {"b": "half')
