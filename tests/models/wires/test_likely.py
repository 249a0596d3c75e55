"""What servers tell of other tokens, in the forms that there are."""

from __future__ import annotations

import msgspec
import pytest

from mainspring.models.wires.likely import Likely


def told(*tokens: tuple[str, dict[str, float | None]]) -> msgspec.Raw:
    content = [
        {"token": token, "top_logprobs": [{"token": other, "logprob": log} for other, log in others.items()]}
        for token, others in tokens
    ]
    return msgspec.Raw(msgspec.json.encode({"content": content}))


def test_the_likeliest_comes_first_with_its_place_in_the_text() -> None:
    likely = Likely()
    likely.add(told(("ab", {"ab": -0.1, "x": -3.0}), ("c", {"d": -1.0, "e": None, "f": -9.0})), 0)
    likely.add(told(("é", {"y": -2.0})), 3)
    assert [(each.at, each.text, each.instead) for each in likely.alternatives()] == [
        (2, "d", "c"),
        (3, "y", "é"),
        (0, "x", "ab"),
    ]
    assert likely.alternatives()[0].probability == pytest.approx(0.3679)


@pytest.mark.parametrize(
    "form",
    [
        b"null",
        b"1",
        b"[]",
        b"{}",
        b'{"content":null}',
        b'{"tokens":["a"],"token_logprobs":[-0.1]}',
        b'{"content":[{"t":1}]}',
    ],
)
def test_a_form_that_is_not_known_says_nothing(form: bytes) -> None:
    likely = Likely()
    likely.add(msgspec.Raw(form), 0)
    assert likely.alternatives() == ()
