"""`patch`: exact context, several files, all or nothing."""

import os
import stat
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.tools.diff import apply_hunks, parse_patch
from mainspring.tools.patch import TOOL as PATCH
from mainspring.tools.read import TOOL as READ
from tests.tools.workshop import Workshop

CHANGE = """\
--- a/one.txt
+++ b/one.txt
@@ -1,3 +1,3 @@
 a
-b
+B
 c
"""


@pytest.fixture
def shop(tmp_path):
    shop = Workshop(tmp_path, PATCH, READ)
    shop.put("one.txt", "a\nb\nc\n")
    shop.put("two.txt", "x\ny\nz\n")
    return shop


def content(shop):
    return {path.name: path.read_text() for path in shop.folder.rglob("*") if path.is_file()}


def test_a_hunk_is_applied(shop):
    assert shop.text("patch", patch=CHANGE) == "Changed one.txt (1 hunks)."
    assert content(shop)["one.txt"] == "a\nB\nc\n"


def test_files_are_created_removed_and_renamed_in_one_patch(shop):
    patch = """\
Some words before it.
diff --git a/new/run.sh b/new/run.sh
new file mode 100755
--- /dev/null
+++ b/new/run.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+true

diff --git a/two.txt b/moved.txt
similarity index 60%
rename from two.txt
rename to moved.txt
--- a/two.txt
+++ b/moved.txt
@@ -2 +2 @@
-y
+Y
--- a/one.txt
+++ /dev/null
@@ -1,3 +0,0 @@
-a
-b
-c
"""
    os.chmod(shop.path("two.txt"), 0o750)
    said = shop.text("patch", patch=patch)
    assert said.splitlines() == [
        "Created new/run.sh.",
        "Renamed two.txt to moved.txt (1 hunks).",
        "Removed one.txt.",
    ]
    assert content(shop) == {"run.sh": "#!/bin/sh\ntrue\n", "moved.txt": "x\nY\nz\n"}
    assert stat.S_IMODE(shop.path("moved.txt").stat().st_mode) == 0o750
    assert stat.S_IMODE(shop.path("new/run.sh").stat().st_mode) == 0o755


def test_one_hunk_that_does_not_fit_leaves_everything_as_it_was(shop):
    before = content(shop)
    patch = CHANGE + "--- a/two.txt\n+++ b/two.txt\n@@ -1 +1 @@\n-x\n+X\n@@ -3 +3 @@\n-q\n+Q\n"
    said = shop.error("patch", patch=patch)
    assert said.startswith("two.txt, hunk 2: its old lines are not in the file:\nq")
    assert content(shop) == before


def test_a_failure_while_writing_takes_back_what_was_written(shop):
    before = content(shop)
    os.chmod(shop.path("two.txt"), 0o444)
    said = shop.error("patch", patch=CHANGE + "--- a/two.txt\n+++ b/two.txt\n@@ -1 +1 @@\n-x\n+X\n")
    assert "read-only" in said
    assert said.endswith("Nothing was changed.")
    assert content(shop) == before


def test_a_wrong_line_number_is_forgiven_only_when_the_place_is_certain(shop):
    shop.put("one.txt", "0\n0\na\nb\nc\n")
    assert shop.text("patch", patch=CHANGE)
    shop.put("two.txt", "p\nq\np\nq\n")
    said = shop.error("patch", patch="--- a/two.txt\n+++ b/two.txt\n@@\n-p\n+P\n")
    assert "two.txt, hunk 1: its old lines stand at several places (lines 1, 3)" in said


def test_a_bare_header_needs_no_numbers(shop):
    assert shop.text("patch", patch="--- a/one.txt\n+++ b/one.txt\n@@\n b\n-c\n+C\n")
    assert content(shop)["one.txt"] == "a\nb\nC\n"


def test_counts_of_a_header_are_not_believed(shop):
    assert shop.text("patch", patch=CHANGE.replace("-1,3 +1,3", "-7,4 +9,30"))
    assert content(shop)["one.txt"] == "a\nB\nc\n"


def test_other_white_space_is_forgiven_where_one_place_fits_and_told(shop):
    shop.put("a.py", "class A:\n    def f(self):  \n        x = 1\n        return x\n")
    patch = "--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,4 @@\n def f(self):\n-    x = 1\n+    x = 2\n+    y = 3\n     return x\n"
    said = shop.text("patch", patch=patch)
    assert "a.py: hunk 1 at line 2" in said
    assert content(shop)["a.py"] == (
        "class A:\n    def f(self):  \n        x = 2\n        y = 3\n        return x\n"
    )
    shop.put("b.py", "if a:\n    x = 1\nif b:\n        x = 1\n")
    assert "several places" in shop.error("patch", patch="--- a/b.py\n+++ b/b.py\n@@\n-  x = 1\n+  x = 2\n")


def test_a_hunk_with_a_placeholder_is_refused(shop):
    patch = "--- a/one.txt\n+++ b/one.txt\n@@\n a\n-b\n+# ... rest of the code ...\n"
    assert "rest of the code" in shop.error("patch", patch=patch)
    assert content(shop)["one.txt"] == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc\r\n", b"a\r\nB\r\nc\r\n"),
        (b"a\nb\nc", b"a\nB\nc"),
        (b"\xef\xbb\xbfa\nb\nc\n", b"\xef\xbb\xbfa\nB\nc\n"),
    ],
    ids=["CRLF", "no final newline", "BOM"],
)
def test_line_ends_and_encoding_are_kept(shop, before, after):
    shop.put("one.txt", before)
    assert shop.text("patch", patch=CHANGE)
    assert shop.path("one.txt").read_bytes() == after


def test_a_patch_can_take_the_last_newline_away(shop):
    patch = "--- a/one.txt\n+++ b/one.txt\n@@ -3 +3 @@\n-c\n+c\n\\ No newline at end of file\n"
    assert shop.text("patch", patch=patch)
    assert content(shop)["one.txt"] == "a\nb\nc"


@pytest.mark.parametrize(
    ("patch", "words"),
    [
        ("nonsense", "names no file"),
        ("@@ -1 +1 @@\n-a\n+b\n", "a hunk without a file"),
        ("--- a/one.txt\n+++ b/one.txt\n@@ -1,2 +1,2 @@\n-a\n+b\n?x\n", "The file has:\na\nb\nc"),
        ("--- a/one.txt\n+++ b/one.txt\n", "no hunks"),
        ("--- a/one.txt\n+++ b/one.txt\n@@ x\n", "has no old lines"),
        ("--- a/none.txt\n+++ b/none.txt\n@@ -1 +1 @@\n-a\n+b\n", "There is no file none.txt"),
        ("--- /dev/null\n+++ b/one.txt\n@@ -0,0 +1 @@\n+b\n", "one.txt exists already"),
        ("--- a/one.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "not all of its lines"),
        ("--- /dev/null\n+++ b/../out.txt\n@@ -0,0 +1 @@\n+b\n", "outside the workspace"),
        ("--- /dev/null\n+++ b/.git/hooks/pre-commit\n@@ -0,0 +1 @@\n+b\n", "protected"),
        (CHANGE + CHANGE, "occurs twice"),
        (
            "diff --git a/one.txt b/two.txt\nrename from one.txt\nrename to two.txt\n",
            "two.txt exists already",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(shop, patch, words):
    before = content(shop)
    assert words in shop.error("patch", patch=patch)
    assert content(shop) == before


def test_a_file_that_changed_after_it_was_read_is_left_alone(shop):
    shop.text("read", path="one.txt")
    shop.put("one.txt", "a\nb\nc\nd\n")
    assert "changed after you read it" in shop.error("patch", patch=CHANGE)


def test_the_policy_sees_every_path_of_a_patch(shop):
    arguments = PATCH.arguments(CHANGE + "--- a/x\n+++ b/y\n@@\n-a\n")
    assert PATCH.paths(arguments) == ("one.txt", "x", "y")


LINES = st.lists(st.sampled_from(["a", "b", "", " c", "-d", "+e", "@f", "\\g"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(LINES, LINES, st.booleans(), st.booleans())
def test_what_diff_writes_patch_applies(tmp_path_factory, old, new, is_old_open, is_new_open):
    folder = tmp_path_factory.mktemp("diff")
    texts = [
        "\n".join(lines) + ("" if is_open or not lines else "\n")
        for lines, is_open in ((old, is_old_open), (new, is_new_open))
    ]
    for name, text in zip(("old", "new"), texts, strict=True):
        (folder / name).write_text(text)
    done = subprocess.run(
        ["diff", "-u", "old", "new"], cwd=folder, capture_output=True, text=True, check=False
    )
    if not done.stdout:
        assert texts[0] == texts[1]
        return
    (file,) = parse_patch(done.stdout)
    assert apply_hunks(texts[0], file) == (texts[1], ())


FORMS = {
    "in a fence": f"```diff\n{CHANGE}```",
    "with words behind it": f"{CHANGE}\nThis makes it large.",
    "without a header of its hunk": CHANGE.replace("@@ -1,3 +1,3 @@\n", ""),
    "without the spaces of context": CHANGE.replace("\n a", "\na").replace("\n c", "\nc"),
    "with other line ends": CHANGE.replace("\n", "\r\n"),
    "of another kind": "*** Begin Patch\n*** Update File: one.txt\n@@\n a\n-b\n+B\n c\n*** End Patch",
    "of another kind without a hunk": "*** Begin Patch\n*** Update File: one.txt\n a\n-b\n+B\n*** End Patch",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_patch_is_applied_in_the_form_that_models_give_it(shop, form):
    assert shop.text("patch", patch=FORMS[form]).startswith("Changed one.txt")
    assert shop.path("one.txt").read_bytes() == b"a\nB\nc\n"


def test_files_are_added_moved_and_deleted_in_another_form(shop):
    patch = (
        "*** Begin Patch\n*** Add File: new.txt\n+n\n*** Update File: one.txt\n*** Move to: moved.txt\n@@\n-b\n+B\n"
        "*** Delete File: two.txt\n*** End Patch\n"
    )
    shop.text("patch", patch=patch)
    assert content(shop) == {"new.txt": "n\n", "moved.txt": "a\nB\nc\n"}


def test_hunks_may_share_context_and_stand_in_another_order(shop):
    shop.put("n.txt", "1\n2\n3\n4\n5\n6\n7\n")
    head = "--- a/n.txt\n+++ b/n.txt\n"
    shop.text("patch", patch=f"{head}@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n@@ -3,3 +3,3 @@\n 3\n 4\n-5\n+five\n")
    assert shop.path("n.txt").read_text() == "1\ntwo\n3\n4\nfive\n6\n7\n"
    shop.text("patch", patch=f"{head}@@ -6,1 +6,1 @@\n-6\n+six\n@@ -1,1 +1,1 @@\n-1\n+one\n")
    assert shop.path("n.txt").read_text() == "one\ntwo\n3\n4\nfive\nsix\n7\n"


def test_a_hunk_that_does_not_fit_is_answered_with_what_stands_there(shop):
    shop.put("n.txt", "".join(f"line number {number}\n" for number in range(200)))
    said = shop.error("patch", patch="--- a/n.txt\n+++ b/n.txt\n@@ -90,1 +90,1 @@\n-line numbr 120\n+x\n")
    assert "line number 120" in said
    assert "line number 20\n" not in said


def test_signs_that_look_alike_are_the_same_in_context(shop):
    shop.put("q.txt", "it’s “so”\nb\n")
    shop.text("patch", patch='--- a/q.txt\n+++ b/q.txt\n@@ -1,2 +1,2 @@\n it\'s "so"\n-b\n+B\n')
    assert shop.path("q.txt").read_text() == "it’s “so”\nB\n"
