"""`write` and `edit`: nothing is guessed, nothing unseen is overwritten, everything else stays as it was."""

import os
import stat

import pytest

from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.read import TOOL as READ
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.write import TOOL as WRITE
from tests.tools.workshop import Workshop


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path, READ, WRITE, EDIT, SHELL)


def edit(shop, path, *pairs, **more):
    return shop.call("edit", path=path, edits=[{"old": old, "new": new, **more} for old, new in pairs])


def test_a_new_file_is_written_with_its_folders(shop):
    assert shop.text("write", path="a/b/c.txt", content="hello") == "Wrote a/b/c.txt (5 bytes)."
    assert shop.path("a/b/c.txt").read_text() == "hello"


def test_a_file_that_was_not_read_is_not_overwritten(shop):
    shop.put("a.txt", "precious")
    assert "Read it first" in shop.error("write", path="a.txt", content="new")
    assert shop.path("a.txt").read_text() == "precious"


def test_a_file_that_was_read_is_overwritten_and_so_again(shop):
    shop.put("a.txt", "old")
    shop.text("read", path="a.txt")
    assert shop.text("write", path="a.txt", content="new").startswith("Replaced")
    assert shop.text("write", path="a.txt", content="newer").startswith("Replaced")
    assert shop.path("a.txt").read_text() == "newer"


def test_an_empty_file_has_nothing_to_lose(shop):
    shop.put("a.txt", "")
    assert shop.text("write", path="a.txt", content="new")


@pytest.mark.parametrize("way", ["write", "edit"])
def test_a_file_that_changed_after_it_was_read_is_left_alone(shop, way):
    shop.put("a.txt", "old")
    shop.text("read", path="a.txt")
    shop.text("shell", command="echo theirs > a.txt")
    if way == "write":
        said = shop.error("write", path="a.txt", content="mine")
    else:
        said = edit(shop, "a.txt", ("theirs", "mine")).text
    assert "changed after you read it" in said
    assert shop.path("a.txt").read_text() == "theirs\n"
    shop.text("read", path="a.txt")
    assert not edit(shop, "a.txt", ("theirs", "mine")).is_error


def test_a_file_that_was_never_read_may_be_edited(shop):
    shop.put("a.txt", "one two")
    assert "+1 two" in edit(shop, "a.txt", ("one", "1")).text


def test_a_write_outside_the_workspace_is_refused(shop, tmp_path):
    assert "outside the workspace" in shop.error("write", path="../a.txt", content="x")
    assert not (tmp_path / "a.txt").exists()


def test_edits_are_applied_in_order_all_or_none(shop):
    shop.put("a.txt", "one\ntwo\nthree\n")
    assert not edit(shop, "a.txt", ("one", "1"), ("1\ntwo", "1\n2")).is_error
    assert shop.path("a.txt").read_text() == "1\n2\nthree\n"
    failed = edit(shop, "a.txt", ("three", "3"), ("four", "4"))
    assert failed.is_error
    assert failed.text.startswith("Edit 2 of 2: the old text is not in a.txt; nothing was changed.")
    assert shop.path("a.txt").read_text() == "1\n2\nthree\n"


def test_a_text_that_occurs_twice_needs_more_of_it_or_every(shop):
    shop.put("a.txt", "x = 1\nx = 1\n")
    assert "occurs 2 times" in edit(shop, "a.txt", ("x = 1", "x = 2")).text
    assert not edit(shop, "a.txt", ("x = 1", "x = 2"), every=True).is_error
    assert shop.path("a.txt").read_text() == "x = 2\nx = 2\n"


def test_a_miss_shows_the_nearest_text_and_changes_nothing(shop):
    code = "import os\n\ndef area(width, height):\n    return width * height\n"
    missing = ("def area(width, heigth):\n  return width * height", "x")
    shop.put("a.py", code)
    assert edit(shop, "a.py", missing).text.endswith(code)  # a short file is shown whole
    shop.put("a.py", "# far\n" * 99 + code)
    said = edit(shop, "a.py", missing).text
    assert "from line 99" in said
    assert said.count("# far") == 1
    assert "def area(width, height):\n    return width * height" in said


def test_a_miss_finds_a_long_line_by_the_part_that_is_right(shop):
    lines = [
        f"width_{number} = {number}  # the width of a box, in the unit of the shop\n" for number in range(99)
    ]
    shop.put("a.py", "".join(lines))
    said = edit(shop, "a.py", ('width_7 = "1"', 'width_7 = "2"')).text
    assert lines[7] in said
    assert said.count("width_") == 7
    assert "Read the file again" in edit(shop, "a.py", ("height", "x")).text


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        ("if x:\n        pass\n", "if x:\n    pass", "if y:\n    go()", "if y:\n        go()\n"),
        ("def f():\n\tif x:\n\t\tgo()\n", "    if x:\n        go()", "    if y:\n        go()", "def f():\n\tif y:\n\t\tgo()\n"),
        ("a:\n    b:\n        c\n", "b:\n    c", "b:\n    c\n    d\ne", "a:\n    b:\n        c\n        d\n    e\n"),
        ("x = 1  \ny = 2\n", "x = 1\ny = 2\n", "x = 3\n", "x = 3\n"),
        ("        x = 1\r\n        y = 2\r\n", "x = 1\ny = 2", "x = 3\ny = 2", "        x = 3\r\n        y = 2\r\n"),
        ("a\n  b\nc\n", "   b", "", "a\nc\n"),
    ],
)  # fmt: skip
def test_white_space_is_forgiven_where_one_place_fits_and_told(shop, before, old, new, after):
    shop.put("a.py", before.encode())
    done = edit(shop, "a.py", (old, new))
    assert not done.is_error, done.text
    assert "at line" in done.text.partition("\n")[0]
    assert shop.path("a.py").read_bytes() == after.encode()


def test_white_space_is_not_forgiven_where_two_places_fit(shop):
    shop.put("a.py", "if a:\n    x = 1\nif b:\n        x = 1\n")
    assert edit(shop, "a.py", ("\t\tx = 1", "y")).is_error


def test_writing_what_stands_there_is_told_and_changes_nothing(shop):
    shop.put("a.py", "one\n")
    shop.text("read", path="a.py")
    before = shop.path("a.py").stat()
    assert "already" in shop.text("write", path="a.py", content="one\n")
    assert shop.path("a.py").stat() == before


@pytest.mark.parametrize(
    "line",
    [
        "# ... rest of the code ...",
        "// existing code",
        "/* … */",
        "    # unchanged",
        "<!-- ... -->",
        "-- ...",
        "# Der Rest bleibt unverändert",
        "// ... bestehender Code ...",
        "# 其余代码不变",
        "// ... 现有代码 ...",
        "# 残りのコードは変更なし",
        "# 나머지 코드는 동일",
        "# ... le reste du code reste inchangé",
        "# el resto del código permanece igual",
        "# остальной код без изменений",
        "[... rest of file unchanged ...]",
        "(* rest unchanged *)",
        "REM rest unchanged",
    ],
)
def test_text_that_stands_for_what_was_left_out_is_refused(shop, line):
    shop.put("a.py", "one\ntwo\nthree\n")
    assert edit(shop, "a.py", ("two", f"2\n{line}")).is_error
    shop.text("read", path="a.py")
    assert "in place of real lines" in shop.error("write", path="a.py", content=f"1\n{line}\n")
    assert shop.path("a.py").read_text() == "one\ntwo\nthree\n"
    shop.put("b.py", f"one\n{line}\n")  # what stands there already may stay
    assert not edit(shop, "b.py", (f"one\n{line}", f"1\n{line}")).is_error


@pytest.mark.parametrize(
    "line",
    [
        "# the rest is computed below",
        "x = ...",
        "# Other users see 403",
        "// 1..10",
        "# wait...",
        "...",
        "    ...",
        "# the same file",
        "# der Rest wird unten berechnet",
        "# 其他部分的代码处理异常",
        "# rest of 3",
        "- the rest",
    ],
)
def test_ordinary_comments_are_no_placeholders(shop, line):
    shop.put("a.py", "one\n")
    assert not edit(shop, "a.py", ("one", f"1\n{line}")).is_error


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"one\r\ntwo\r\nthree\r\n", b"one\r\n2\r\n2b\r\nthree\r\n"),
        (b"\xef\xbb\xbfone\ntwo\nthree", b"\xef\xbb\xbfone\n2\n2b\nthree"),
        ("one\ntwo\nthrée".encode("latin-1"), "one\n2\n2b\nthrée".encode("latin-1")),
        (
            b"\xff\xfe" + "one\ntwo\nthree\n".encode("utf-16-le"),
            b"\xff\xfe" + "one\n2\n2b\nthree\n".encode("utf-16-le"),
        ),
        (b"one\r\ntwo\nthree\r\n", b"one\r\n2\n2b\nthree\r\n"),
    ],
    ids=["CRLF", "BOM, no final newline", "latin-1", "utf-16", "mixed line ends"],
)
def test_line_ends_encoding_and_the_end_of_the_file_are_kept(shop, before, after):
    shop.put("a.txt", before)
    assert not edit(shop, "a.txt", ("two", "2\n2b")).is_error
    assert shop.path("a.txt").read_bytes() == after


def test_several_lines_match_in_a_file_with_crlf(shop):
    shop.put("a.txt", b"one\r\ntwo\r\n")
    assert not edit(shop, "a.txt", ("one\ntwo", "1\n2")).is_error
    assert shop.path("a.txt").read_bytes() == b"1\r\n2\r\n"


def test_a_file_that_mixes_line_ends_says_so(shop):
    shop.put("a.txt", b"one\r\ntwo\nthree\r\n")
    missed = edit(shop, "a.txt", ("one\ntwo", "1\n2"))
    assert missed.is_error
    assert "Some lines of the file end in CR LF" in missed.text
    assert not edit(shop, "a.txt", ("one\r\ntwo", "1\r\n2")).is_error
    assert shop.path("a.txt").read_bytes() == b"1\r\n2\nthree\r\n"


def test_a_sign_that_the_encoding_cannot_hold_is_refused(shop):
    shop.put("a.txt", "grün".encode("latin-1"))
    assert "latin-1, which cannot hold '✓'" in edit(shop, "a.txt", ("gr", "✓")).text


def test_mode_bits_are_kept(shop):
    path = shop.put("run.sh", "#!/bin/sh\n")
    os.chmod(path, 0o750)
    assert not edit(shop, "run.sh", ("sh\n", "sh\ntrue\n")).is_error
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_binary_file_is_not_edited(shop):
    shop.put("a.bin", b"\0\1\2")
    assert "binary" in edit(shop, "a.bin", ("a", "b")).text


def test_an_edit_that_changes_nothing_is_told(shop):
    shop.put("a.txt", "same")
    assert "change nothing" in edit(shop, "a.txt", ("same", "same")).text


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("s = “hi”  # it’s\n", 's = "hi"  # it\'s', 's = "ho"  # it\'s', "s = “ho”  # it’s\n"),
        ("f(x, s = “hi”)\n", 's = "hi"', 's = "ho"', "f(x, s = “ho”)\n"),
        ('s = "hi"\n', "s = “hi”", 's = "ho"', 's = "ho"\n'),
        ("x =\u00a01 – 2\n", "x = 1 - 2", "x = 1 - 3", "x =\u00a01 – 3\n"),
        ("x = 'cafe\u0301'\n", "x = 'caf\u00e9'", "x = 'tea'", "x = 'tea'\n"),
        ("a\n  b\nc\n", "     2\t  b\n     3\tc", "     2\t  B\n     3\tc", "a\n  B\nc\n"),
        ("a\n  b\nc\n", "2:   b\n3: c", "  B\nc", "a\n  B\nc\n"),
        ("a\n  b\nc\n", "```python\n  b\n```", "```python\n  B\n```", "a\n  B\nc\n"),
        ('s = "hi"\nt = 1\n', 's = \\"hi\\"\\nt = 1', 's = \\"ho\\"\\nt = 2', 's = "ho"\nt = 2\n'),
        ("a\nb", "b\n", "B\n", "a\nB"),
    ],
)
def test_an_edit_finds_the_one_place_that_is_meant_and_says_how(shop, text, old, new, after):
    shop.put("a.py", text)
    assert "where the old text differs in" in edit(shop, "a.py", (old, new)).text
    assert shop.path("a.py").read_text() == after


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("“a”\n“a”\n", '"a"'),
        ("1: b\n2: b\n", "3: b"),
        ("x\n  b\ny\n    b\n", "1\t b"),
    ],
)
def test_two_places_that_may_be_meant_are_none(shop, text, old):
    shop.put("a.py", text)
    assert edit(shop, "a.py", (old, "new")).is_error
    assert shop.path("a.py").read_text() == text
