"""`find` and `grep` give the same with ripgrep and without it."""

import asyncio
import os
import shutil

import pytest

from mainspring.errors import SandboxError
from mainspring.events import CallAsked
from mainspring.tools.find import TOOL as FIND
from mainspring.tools.find import tree
from mainspring.tools.globs import glob_regex, parse_ignore, verdict
from mainspring.tools.grep import TOOL as GREP
from tests.tools.workshop import Workshop

WAYS = [
    pytest.param(
        None, id="ripgrep", marks=pytest.mark.skipif(not shutil.which("rg"), reason="no ripgrep here")
    ),
    pytest.param("/nowhere", id="python"),
]

TREE = {
    ".gitignore": "*.log\n/build/\nnode_modules\n!keep.log\nsecret-*\ndocs/*.tmp\n",
    ".ignore": "ignored.txt\n",
    ".github/ci.yml": "run: tests\n",
    ".env": "TOKEN=needle\n",
    ".git/config": "needle\n",
    "a.log": "needle\n",
    "keep.log": "needle\n",
    "build/out.py": "needle\n",
    "sub/build/out.py": "needle here\n",
    "node_modules/x/index.js": "needle\n",
    "sub/.gitignore": "*.txt\n!yes.txt\n",
    "sub/no.txt": "needle\n",
    "sub/yes.txt": "first\r\nNeedle in sub\r\nlast\r\n",
    "ignored.txt": "needle\n",
    "docs/a.tmp": "needle\n",
    "docs/deep/b.tmp": "needle\n",
    "src/main.py": "import os\n\ndef needle():\n    return 'needle'\n",
    "src/wide/ünïcode.py": "# grün needle\n",
    "src/blob.bin": b"\0\0needle\n",
}


@pytest.fixture(params=WAYS)
def shop(request, tmp_path):
    shop = Workshop(tmp_path, FIND, GREP, path=request.param)
    for name, data in TREE.items():
        shop.put(name, data)
    return shop


def test_ignored_files_secrets_and_git_are_not_listed(shop):
    assert shop.text("find", glob="**").splitlines() == [
        ".github/ci.yml",
        ".gitignore",
        ".ignore",
        "docs/deep/b.tmp",
        "keep.log",
        "src/blob.bin",
        "src/main.py",
        "src/wide/ünïcode.py",
        "sub/.gitignore",
        "sub/build/out.py",
        "sub/yes.txt",
    ]


def test_a_folder_is_listed_as_a_tree(shop):
    assert shop.text("find", depth=2).splitlines() == [
        ".github/",
        "  ci.yml",
        ".gitignore",
        ".ignore",
        "docs/",
        "  deep/ (1 files)",
        "keep.log",
        "src/",
        "  blob.bin",
        "  main.py",
        "  wide/ (1 files)",
        "sub/",
        "  .gitignore",
        "  build/ (1 files)",
        "  yes.txt",
    ]


def test_a_pattern_without_a_slash_meets_names_at_any_depth(shop):
    assert shop.text("find", glob="*.py").splitlines() == [
        "src/main.py",
        "src/wide/ünïcode.py",
        "sub/build/out.py",
    ]
    assert shop.text("find", glob="*/*.py") == "src/main.py"
    assert shop.text("find", path="src", glob="**/*.py").splitlines() == ["main.py", "wide/ünïcode.py"]


def test_rules_of_the_folders_above_hold_below(shop):
    assert "There are no files" in shop.text("find", path="docs", glob="a.tmp")
    assert "Nothing matches" in shop.text("grep", pattern="needle", path="docs", glob="a.tmp")


def test_an_ignored_folder_is_listed_when_it_is_named(shop):
    assert shop.text("find", path="node_modules/x", glob="*") == "index.js"


def test_long_lists_say_how_much_is_left_out(shop):
    for number in range(30):
        shop.put(f"many/{number:02}.txt", "needle\n")
    assert shop.text("find", path="many", glob="*", limit=10).endswith(
        "09.txt\n(20 more are left out; narrow the search)"
    )
    said = shop.text("grep", pattern="needle", path="many", limit=10)
    assert said.endswith("(20 more matches in 20 files left out; narrow the search)")


def test_matches_come_by_file_and_line(shop):
    assert shop.text("grep", pattern="needle").splitlines() == [
        "docs/deep/b.tmp",
        "  1: needle",
        "keep.log",
        "  1: needle",
        "src/main.py",
        "  3: def needle():",
        "  4:     return 'needle'",
        "src/wide/ünïcode.py",
        "  1: # grün needle",
        "sub/build/out.py",
        "  1: needle here",
    ]


def test_case_context_glob_and_a_single_file(shop):
    assert shop.text("grep", pattern="^needle.*sub$", ignore_case=True, context=1).splitlines() == [
        "sub/yes.txt",
        "  1- first",
        "  2: Needle in sub",
        "  3- last",
    ]
    assert shop.text("grep", pattern="needle", glob="*.tmp").splitlines() == [
        "docs/deep/b.tmp",
        "  1: needle",
    ]
    assert shop.text("grep", pattern="needle", glob="sub/**").splitlines() == [
        "sub/build/out.py",
        "  1: needle here",
    ]
    assert shop.text("grep", pattern="o.", path="src/main.py").splitlines() == ["main.py", "  1: import os"]


def test_patterns_that_ripgrep_cannot_do_are_searched_all_the_same(shop):
    assert shop.text("grep", pattern="needle(?! here)", glob="*.py").count("needle") == 3


def test_a_pattern_that_is_none_is_told(shop):
    assert "not a regular expression" in shop.error("grep", pattern="(unclosed")


def test_a_pattern_that_looks_like_an_option_is_a_pattern(shop):
    shop.put("b.py", "x --files y\n")
    assert "b.py" in shop.text("grep", pattern="--files")


def test_long_lines_are_cut(shop):
    shop.put("min.js", "needle" + "x" * 10_000)
    line = shop.text("grep", pattern="needle", glob="min.js").splitlines()[1]
    assert len(line) < 500
    assert line.endswith("…")


def test_symbolic_links_are_not_followed(shop, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.py").write_text("needle outside")
    shop.path("link").symlink_to(tmp_path / "outside")
    assert "outside" not in shop.text("grep", pattern="needle")
    assert "link" not in shop.text("find", glob="**")


def test_a_missing_folder_is_told(shop):
    assert "There is no file nowhere" in shop.error("find", path="nowhere")
    assert "There is no file nowhere" in shop.error("grep", pattern="x", path="nowhere")


def test_secrets_are_not_searched_when_they_are_named(shop):
    assert "hold secrets" in shop.error("grep", pattern="TOKEN", path=".env")


@pytest.mark.parametrize(
    ("pattern", "path", "is_met"),
    [
        ("*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/c.py", "a/c.py", True),
        ("a/**/c.py", "a/x/y/c.py", True),
        ("**/c.py", "c.py", True),
        ("a/**", "a/b/c", True),
        ("*.{py,md}", "x/README.md", True),
        ("[!a]b", "cb", True),
        ("[!a]b", "ab", False),
        ("a?c", "a/c", False),
        (r"\*", "*", True),
        ("a+b", "a+b", True),
        ("[", "[", True),
    ],
)
def test_patterns_mean_what_git_means(pattern, path, is_met):
    assert bool(glob_regex(pattern).fullmatch(path)) is is_met


def test_the_last_rule_of_an_ignore_file_decides():
    rules = parse_ignore("# comment\n*.a\n!b.a\nfolder/\n\\#x\ntrailing  \n")
    assert verdict(rules, "x/a.a", is_dir=False) is True
    assert verdict(rules, "b.a", is_dir=False) is False
    assert verdict(rules, "folder", is_dir=False) is None
    assert verdict(rules, "folder", is_dir=True) is True
    assert verdict(rules, "#x", is_dir=False) is True
    assert verdict(rules, "trailing", is_dir=False) is True


def test_a_tree_stays_small_however_many_files_there_are():
    paths = [f"a/{number // 100}/{number}" for number in range(10_000)]
    assert tree(paths, 1) == ["a/ (10,000 files)"]
    assert len(tree(paths, 2)) == 101


class Blind:
    """A sandbox that does not show the folder that a search begins in."""

    name = "blind"
    is_containing = True

    async def run(self, command, on_output=None):
        raise SandboxError("there is no such folder here")


def test_a_folder_that_the_sandbox_does_not_show_is_searched_all_the_same(tmp_path):
    async def searching(shop):
        asked = CallAsked(call="c1", name="grep", arguments='{"pattern": "needle"}')
        return await shop.toolbox.run(shop.toolbox.prepare(asked), shop._place(Blind()))

    shop = Workshop(tmp_path, GREP)
    shop.put("a.txt", "needle")
    assert asyncio.run(searching(shop)).text == "a.txt\n  1: needle"


def test_a_pattern_that_would_take_for_ever_is_refused_or_answered(shop):
    shop.put("slow.md", "word " * 40 + "\n")
    said = shop.call("grep", pattern=r"(\w+\s*)+:done", path="slow.md").text
    assert "takes too long" in said or "Nothing matches" in said


def test_files_whose_names_are_not_text_are_told(shop):
    try:
        shop.path(os.fsdecode(b"src/\xff.py")).write_text("needle\n")
    except OSError:
        pytest.skip("names of files are text here")
    assert shop.text("find", path="src", glob="*.py").splitlines() == [
        "main.py",
        "wide/ünïcode.py",
        "(1 file left out: the name is not UTF-8)",
    ]
