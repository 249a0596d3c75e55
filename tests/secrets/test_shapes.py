"""A text is searched for keys only when something in it hints at one."""

import pytest

from mainspring.secrets import shapes


@pytest.mark.parametrize("hint", shapes._HINTS)
def test_every_hint_is_seen_wherever_it_stands(hint: str) -> None:
    assert shapes.is_hinted(hint)
    assert shapes.is_hinted(f"before {hint} after")


def test_what_has_only_the_sign_of_a_hint_is_not_searched() -> None:
    assert not shapes.is_hinted("a-b_c=d.e/f: nothing that looks like a key")
    assert list(shapes.shapes_in("a-b_c=d.e/f:")) == []
