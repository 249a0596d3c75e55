"""The interface for plugins, pinned: what is written for a version must go on working with it."""

from __future__ import annotations

import msgspec
import pytest

from mainspring import plugins
from mainspring.plugins import Plugin

FIELDS = "name api tools models engines checks commands subscribers hooks"


def test_version_1_has_these_fields_and_all_but_two_have_a_default() -> None:
    assert plugins.API_VERSION == 1
    assert plugins.ENTRY_POINTS == "mainspring.plugins"
    assert Plugin.__struct_fields__ == tuple(FIELDS.split())
    assert Plugin.__struct_config__.frozen
    least = Plugin(name="least", api=1)
    empty = ((), {}, {}, {}, {}, (), None)
    assert msgspec.structs.astuple(least) == ("least", 1, *empty)
    for given in ({"name": "x"}, {"api": 1}):
        with pytest.raises(TypeError, match="Missing"):
            Plugin(**given)  # pyright: ignore[reportArgumentType, reportCallIssue]
