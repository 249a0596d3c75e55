"""What each mode says by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mainspring.approvals import (
    LEVELS,
    MODES,
    Allowance,
    Answer,
    Effect,
    Mode,
    ModePolicy,
    Proposed,
    absolute,
    by_level,
    is_inside,
)
from mainspring.errors import ConfigError


def proposed(effect: Effect, *, is_contained: bool = False, path: str = "/w/a.py") -> Proposed:
    return Proposed(tool="t", effect=effect, paths=(path,), workspace="/w", is_contained=is_contained)


def policy(mode: Mode) -> ModePolicy:
    return ModePolicy(mode, max_cost_usd=5.0)


@pytest.mark.parametrize(
    ("mode", "read", "write", "execute", "network"),
    [
        ("plan", "allow", "deny", "deny", "deny"),
        ("ask", "allow", "ask", "ask", "ask"),
        ("edits", "allow", "allow", "ask", "ask"),
        ("auto", "allow", "ask", "ask", "ask"),
        ("yolo", "allow", "allow", "allow", "allow"),
    ],
)
def test_each_mode_answers_as_its_name_says(
    mode: Mode, read: Answer, write: Answer, execute: Answer, network: Answer
) -> None:
    effects: tuple[Effect, ...] = ("read", "write", "execute", "network")
    assert [policy(mode).judge(proposed(effect)).answer for effect in effects] == [
        read,
        write,
        execute,
        network,
    ]


def test_auto_is_free_inside_the_sandbox() -> None:
    for effect in ("write", "execute", "network", "other"):
        assert policy("auto").judge(proposed(effect, is_contained=True)).answer == "allow"


def test_bookkeeping_is_free_in_every_mode() -> None:
    assert {policy(mode).judge(proposed("none")).answer for mode in MODES} == {"allow"}


@pytest.mark.parametrize("path", ["/etc/passwd", "/w/../etc/passwd", "../x", "/workspace2/a", "/"])
def test_edits_mode_asks_for_an_edit_outside_the_workspace(path: str) -> None:
    assert policy("edits").judge(proposed("write", path=path)).answer == "ask"


def test_edits_mode_asks_for_a_write_that_does_not_say_where() -> None:
    assert policy("edits").judge(Proposed(tool="t", effect="write", workspace="/w")).answer == "ask"
    assert policy("edits").judge(Proposed(tool="t", effect="write", paths=("a",))).answer == "ask"


def test_a_refusal_says_why_and_by_which_rule() -> None:
    verdict = policy("plan").judge(proposed("execute"))
    assert verdict.rule == "mode:plan"
    assert "only reads" in verdict.reason


@pytest.mark.parametrize("cap", [None, 0.0, -1.0, float("inf"), float("nan")])
def test_yolo_needs_a_budget(cap: float | None) -> None:
    with pytest.raises(ConfigError):
        ModePolicy("yolo", max_cost_usd=cap)


@pytest.mark.parametrize("mode", ["edits", "auto", "yolo"])
def test_what_recurs_or_has_no_known_price_is_asked(mode: Mode) -> None:
    kind = {"tool": "t", "effect": "write", "paths": ("a",), "workspace": "/w", "is_contained": True}
    free = Proposed(**kind, cost_usd=4.0)
    assert policy(mode).judge(free).answer == "allow"
    for held in (
        Proposed(**kind, is_recurring=True),
        Proposed(**kind, cost_usd=None),
        Proposed(**kind, cost_usd=6.0),
    ):
        assert policy(mode).judge(held).answer == "ask"
    verdict = policy(mode).judge(Proposed(**kind, cost_usd=6.0))
    assert (verdict.blocked_by, verdict.allowance) == ("over_cap", Allowance(cap_usd=5.0, left_usd=5.0))
    assert ModePolicy("auto").judge(free).answer == "ask"


def test_levels_map_onto_modes() -> None:
    assert [by_level(level, max_cost_usd=1.0).mode for level in LEVELS] == [
        "plan", "ask", "edits", "auto", "auto", "yolo",
    ]  # fmt: skip
    for level in ("L4", "L5", "L6", ""):
        with pytest.raises(ConfigError):
            by_level(level)
    assert by_level("L3").max_cost_usd is None


def test_paths_are_compared_from_the_root() -> None:
    assert absolute("a/../b", cwd="/w") == "/w/b"
    assert absolute("//etc", cwd="/w") == "/etc"
    assert is_inside("/w", "/w")
    assert is_inside("/w/a", "/w/")
    assert not is_inside("/wa", "/w")
    assert not is_inside("/w", "")


def test_the_words_do_not_load_the_shell_parser() -> None:
    script = (
        "import sys, mainspring.approvals, mainspring.approvals.grants; print('tree_sitter' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
