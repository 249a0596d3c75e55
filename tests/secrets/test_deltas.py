"""What is shown while a model speaks holds no secrets, however the stream cuts them."""

from __future__ import annotations

import pytest

from mainspring.events import CallDelta, Delta, TextDelta, ThinkingDelta
from mainspring.secrets.deltas import RedactedDeltas
from mainspring.secrets.vault import PLACEHOLDER, Vault

TOKEN = "xyzzy-Plugh-4242-token"
TEXT = f'say "{TOKEN}" now'


def shown_of(*deltas: TextDelta | ThinkingDelta | CallDelta) -> list[Delta]:
    shown: list[Delta] = []
    with RedactedDeltas(Vault({"A_TOKEN": TOKEN}), shown.append) as showing:
        for delta in deltas:
            showing.feed(delta)
    return shown


@pytest.mark.parametrize("kind", [TextDelta, ThinkingDelta])
def test_texts_and_thoughts_hold_no_secret_wherever_they_are_cut(
    kind: type[TextDelta | ThinkingDelta],
) -> None:
    for cut in range(len(TEXT) + 1):
        shown = shown_of(kind(text=TEXT[:cut]), kind(text=TEXT[cut:]))
        text = "".join(each.text for each in shown if isinstance(each, kind))
        assert PLACEHOLDER.sub("#", text) == 'say "#" now'


def test_arguments_of_calls_side_by_side_hold_no_secret_wherever_they_are_cut() -> None:
    for cut in range(len(TEXT) + 1):
        shown = shown_of(
            CallDelta(index=0, name="do", arguments=TEXT[:cut], provider_id="p0"),
            CallDelta(index=1, name="do", arguments=TEXT[:cut]),
            CallDelta(index=0, arguments=TEXT[cut:]),
            CallDelta(index=1, arguments=TEXT[cut:]),
        )
        for index in (0, 1):
            mine = [each for each in shown if isinstance(each, CallDelta) and each.index == index]
            assert PLACEHOLDER.sub("#", "".join(each.arguments for each in mine)) == 'say "#" now'
            assert "".join(each.name for each in mine) == "do"
        assert [each.provider_id for each in shown if isinstance(each, CallDelta)].count("p0") == 1


def test_what_is_held_back_is_shown_before_what_follows_it() -> None:
    shown = shown_of(
        ThinkingDelta(text="one two", opaque="sealed"), TextDelta(text="three"), CallDelta(index=0, name="do")
    )
    thought = "".join(each.text for each in shown if isinstance(each, ThinkingDelta))
    assert thought == "one two"
    kinds = [type(each) for each in shown]
    assert kinds.index(TextDelta) > max(at for at, kind in enumerate(kinds) if kind is ThinkingDelta)
    assert kinds[-1] is CallDelta
    assert [each.opaque for each in shown if isinstance(each, ThinkingDelta)].count("sealed") == 1
