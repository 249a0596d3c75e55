"""Files that a repository brings are read as data, whatever stands in their place."""

import os
from pathlib import Path

import pytest

from mainspring.disk import untrusted
from mainspring.disk.untrusted import (
    open_resolved,
    read_start,
    read_untrusted,
    read_untrusted_lines,
    read_untrusted_text,
)
from tests.disk.hostile import HOSTILE, plant

REASONS = {
    "device": "leads out",
    "pipe": "pipe, socket or device",
    "socket": "pipe, socket or device",
    "large": "larger than 1 MiB",
    "loop": "symbolic links",
    "link-out": "leads out",
    "unreadable": "Permission denied",
    "folder": "it is a folder",
    "no-text": "not UTF-8",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_ordinary_file_is_refused_with_a_reason(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    plant(kind, root / "sub/file")
    with pytest.raises(OSError, match=REASONS[kind]) as refused:
        read_untrusted_text(root / "sub/file", max_bytes=1 << 20, root=root)
    assert refused.value.filename == str(root / "sub/file")


def test_a_device_is_refused_without_a_root_as_well() -> None:
    with pytest.raises(OSError, match="pipe, socket or device"):
        read_start(Path("/dev/zero"), max_bytes=10)


def test_links_inside_the_root_are_followed_and_files_elsewhere_that_a_person_named(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    root.mkdir()
    other.write_text("named")
    (root / "real").write_text("inside")
    (root / "link").symlink_to("real")
    (tmp_path / "named").symlink_to(other)
    assert read_untrusted(root / "link", max_bytes=10, root=root) == b"inside"
    assert read_untrusted(tmp_path / "named", max_bytes=10, root=root) == b"named"
    (tmp_path / "root-by-link").symlink_to(root)
    assert read_untrusted(tmp_path / "root-by-link/link", max_bytes=10, root=tmp_path / "root-by-link")


def test_a_folder_that_leads_out_is_a_way_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("hunter2")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/folder").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="leads out"):
        read_untrusted(tmp_path / "root/folder/file", max_bytes=10, root=tmp_path / "root")


def test_a_link_that_comes_after_the_path_was_resolved_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("hunter2")
    (tmp_path / "root/folder").mkdir(parents=True)
    (tmp_path / "root/folder/file").write_text("mine")

    def swapped(real: Path, flags: int) -> int:
        (tmp_path / "root/folder").rename(tmp_path / "root/away")
        (tmp_path / "root/folder").symlink_to(tmp_path / "outside")
        return open_resolved(real, flags)

    monkeypatch.setattr(untrusted, "open_resolved", swapped)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        read_untrusted(tmp_path / "root/folder/file", max_bytes=10, root=tmp_path / "root")


def test_lines_are_bounded_and_not_their_number(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\n" * 1000)
    assert len(list(read_untrusted_lines(path, max_line_bytes=4))) == 1000
    os.truncate(path, 1 << 30)
    with pytest.raises(OSError, match="a line of more than 1 MiB"):
        list(read_untrusted_lines(path, max_line_bytes=1 << 20))
