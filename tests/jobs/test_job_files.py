"""What another machine sends back is taken for what it may be, and bounded."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from mainspring.app import job_files
from mainspring.app.job_files import unpack
from mainspring.errors import JobHostError, UsageError


def archive(folder: Path, *files: tuple[str, bytes]) -> Path:
    target = folder / "outputs.tar"
    with tarfile.open(target, "w") as opened:
        link = tarfile.TarInfo("out/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        opened.addfile(link)
        for name, data in files:
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            opened.addfile(entry, io.BytesIO(data))
    return target


def test_only_files_that_were_wanted_are_taken(tmp_path: Path) -> None:
    names = ("./out/a", "../b", "/c", "out/../../d", "outer", "out/link/e")
    left_out: dict[str, str] = {}
    found = unpack(archive(tmp_path, *((name, b"x") for name in names)), ("out",), left_out)
    assert [name for name, _, _ in found] == ["out/a", "out/link/e"]
    assert left_out == {"out/link": "a link, or no regular file"} | dict.fromkeys(
        ("../b", "/c", "../d", "outer"), "nobody asked for it"
    )


def test_a_second_name_of_a_file_is_that_file_and_no_name_is_lost(tmp_path: Path) -> None:
    target, left_out = tmp_path / "outputs.tar", dict[str, str]()
    with tarfile.open(target, "w") as opened:
        for name, second_of in (
            ("out/a", ""),
            ("out/b", "out/a"),
            ("out/c", "out/b"),
            ("out/d", "/etc/passwd"),
        ):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = (tarfile.LNKTYPE, second_of) if second_of else (tarfile.REGTYPE, "")
            entry.size = 0 if second_of else 1
            opened.addfile(entry, io.BytesIO(b"x"))
        opened.addfile(tarfile.TarInfo("out/\udcff"), io.BytesIO())
    found = [(name, data) for name, data, _ in unpack(target, ("out",), left_out)]
    assert found == [("out/a", b"x"), ("out/b", b"x"), ("out/c", b"x")]
    assert left_out == {"out/d": "a link, or no regular file", "out/\\udcff": "its name is no text"}


@pytest.mark.parametrize("data", [b"Welcome to gpu1!\n", b"x" * 2000])
def test_what_is_no_archive_is_a_fault_of_the_machine(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "outputs.tar").write_bytes(data)
    with pytest.raises(JobHostError, match="What came back is no tar archive"):
        list(unpack(tmp_path / "outputs.tar", ("out",), {}))


def test_an_archive_that_was_cut_off_is_one_too(tmp_path: Path) -> None:
    whole = archive(tmp_path, ("out/a", b"x" * 5000)).read_bytes()
    (tmp_path / "outputs.tar").write_bytes(whole[:3000])
    with pytest.raises(JobHostError, match="no tar archive"):
        list(unpack(tmp_path / "outputs.tar", ("out",), {}))


def test_outputs_are_bounded_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "MAX_BYTES", 10)
    found = unpack(archive(tmp_path, ("out/a", b"x" * 6), ("out/b", b"x" * 6)), ("out",), {})
    assert next(found)[0] == "out/a"
    with pytest.raises(UsageError, match="more than 10 bytes"):
        next(found)
