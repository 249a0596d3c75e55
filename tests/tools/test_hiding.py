"""Secrets are hidden before anything is cut: half a key that slipped through would be half a key too much."""

import pytest

from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.process import TOOL as PROCESS
from mainspring.tools.read import TOOL as READ
from mainspring.tools.shell import TOOL as SHELL
from tests.tools.workshop import Workshop

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 4
LINES = "\n".join(f"MIIEvQIBADANBgkqhkiG9w0BAQEFAASC{number:032}" for number in range(20))
PEM = f"-----BEGIN PRIVATE KEY-----\n{LINES}\n-----END PRIVATE KEY-----"


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, READ, GREP, EDIT, SHELL, PROCESS)


def test_a_key_across_the_end_of_a_long_line_is_not_half_shown(shop):
    shop.put("a.txt", "x" * 1980 + " " + KEY + " " + "y" * 500)
    text = shop.text("read", path="a.txt")
    assert KEY[:12] not in text
    assert "__secret_" in text


def test_a_key_of_many_lines_is_not_shown_by_a_page_that_ends_in_it(shop):
    shop.put("a.txt", f"first\n{PEM}\nlast\n")
    assert "MIIE" not in shop.text("read", path="a.txt", limit=5)
    assert "MIIE" not in shop.text("read", path="a.txt", offset=3, limit=5)


def test_what_a_page_hides_can_be_written_back_whole(shop):
    shop.put("a.txt", f"first\n{PEM}\nlast\n")
    text = shop.text("read", path="a.txt")
    (line,) = [line for line in text.splitlines() if "__secret_" in line]
    assert shop.vault.expand(line.partition("\t")[2]) == PEM


@pytest.mark.parametrize("path", [None, "/nowhere"])
def test_a_match_in_a_long_line_does_not_show_half_a_key(tmp_path, path):
    shop = Workshop(tmp_path, GREP, path=path)
    shop.put("a.txt", "needle " + "x" * 370 + " " + KEY)
    assert KEY[:12] not in shop.text("grep", pattern="needle")


def test_an_edit_beside_a_key_shows_no_line_of_it(shop):
    shop.put("a.txt", f"first\n{PEM}\nlast\n")
    shop.text("read", path="a.txt")
    assert "MIIE" not in shop.text("edit", path="a.txt", edits=[{"old": "last", "new": "end"}])
    wanted = "-----BEGIN PRIVATE KEYS-----\nMIIE"
    assert "MIIEvQ" not in shop.error("edit", path="a.txt", edits=[{"old": wanted, "new": "x"}])


def test_a_look_at_output_ends_with_a_line_when_more_is_there(shop):
    shop.room = 2000
    shop.text("shell", command=f"for i in $(seq 100); do echo {KEY}; done", background=True)
    first = shop.text("process", action="output", handle="p1", wait_s=20)
    assert all(line in (KEY, "") or "(" in line or "p1:" in line for line in first.splitlines())
    for process in shop.processes.all:
        shop.call("process", action="stop", handle=process.handle)
