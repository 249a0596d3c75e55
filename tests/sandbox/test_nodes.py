"""Which of many paths are there, asked again before every command."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from mainspring.sandbox.rungs.nodes import KnownPaths, node_at


def make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def make_below_a_link(path: Path) -> None:
    elsewhere = path.parents[2] / "elsewhere"
    make(elsewhere / path.name)
    path.parent.parent.mkdir(exist_ok=True)
    path.parent.symlink_to(elsewhere)


def make_a_link(path: Path) -> None:
    make(path.parents[2] / "elsewhere" / path.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(path.parents[2] / "elsewhere" / path.name)


@pytest.mark.parametrize("settled_ns", [0, 1 << 62])
@pytest.mark.parametrize("come", [make, make_below_a_link, make_a_link])
def test_what_comes_goes_and_comes_again_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, come: Callable[[Path], None], settled_ns: int
) -> None:
    """Whether or not the times of folders can be relied on."""
    monkeypatch.setattr("mainspring.disk.scan.SETTLED_NS", settled_ns)
    secret = tmp_path / "home/.config/secret"
    asked = (tmp_path / "home/.netrc", secret, tmp_path / "nowhere/token")
    known = KnownPaths()
    assert known.nodes(asked) == known.nodes(asked) == []
    for _ in range(2):
        come(secret)
        assert known.nodes(asked) == known.nodes(asked) == [(secret.resolve(), node_at(secret))]
        parent = secret.parent
        (secret if not parent.is_symlink() else parent).unlink()
        assert known.nodes(asked) == []
        if parent.exists():
            parent.rmdir()
        elif parent.is_symlink():
            parent.unlink()


def test_a_link_is_followed_once_it_leads_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainspring.disk.scan.SETTLED_NS", 0)
    (tmp_path / "link").symlink_to(tmp_path / "far/secret")
    known = KnownPaths()
    assert known.nodes([tmp_path / "link"]) == []
    times = os.stat(tmp_path)
    make(tmp_path / "far/secret")
    os.utime(tmp_path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert known.nodes([tmp_path / "link"]) == [(tmp_path / "far/secret", node_at(tmp_path / "far/secret"))]


def test_other_paths_are_asked_for_when_they_are_asked_for(tmp_path: Path) -> None:
    make(tmp_path / "one")
    make(tmp_path / "other")
    known = KnownPaths()
    for name in ("one", "other", "none"):
        assert [path.name for path, _ in known.nodes([tmp_path / name])] == [name] * (name != "none")
