"""Files to import whose lines no decoder takes: refused with a sentence, whatever is wrong with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.app.operations.imports import import_session
from mainspring.errors import MainspringError
from mainspring.events import SessionStarted
from mainspring.workspace.contents import Contents
from tests.app.operations.test_deletion import config_of
from tests.crafted import crafted

HEADER = crafted("a", [SessionStarted(session="a", workspace="/", version="1")]).splitlines(keepends=True)[0]
EVENT = b'{"line":"event","seq":1,"time_us":1,"kind":"X","hash":"","body":'
DEEP, FOREIGN = b"[" * 200_000, b'"\xff"'


@pytest.mark.parametrize("is_salvaged", [False, True])
@pytest.mark.parametrize("value", [DEEP, FOREIGN], ids=["deep", "no UTF-8"])
@pytest.mark.parametrize(
    "lines",
    [(b'{"format":',), (HEADER, EVENT), (b'{"type":"user","sessionId":"x","x":',)],
    ids=["header", "event", "transcript"],
)
def test_lines_that_cannot_be_decoded_are_refused(
    tmp_path: Path, lines: tuple[bytes, ...], value: bytes, *, is_salvaged: bool
) -> None:
    given = [*lines[:-1], lines[-1] + value + b"}\n"]
    importing = import_session(config_of(tmp_path), given, here=tmp_path, is_salvaged=is_salvaged)
    with pytest.raises(MainspringError):
        asyncio.run(importing)
    assert not list((tmp_path / "home").glob("sessions/*"))


def test_a_damaged_log_of_contents_is_begun_again(tmp_path: Path) -> None:
    contents = Contents(tmp_path / "c")
    contents.keep("0" * 64, b"data")
    contents.close()
    log = tmp_path / "c-0" / "log"
    log.write_bytes(log.read_bytes().replace(b"0000", b"\xff\xff\xff\xff"))
    again = Contents(tmp_path / "c")
    assert again.load() in (None, {})
    again.close()
