"""What most of a repository stands on: by uses, always the same, within its tokens."""

from __future__ import annotations

from mainspring.index import IndexedSymbol
from mainspring.index.ranking import UsingFile, rank
from mainspring.index.repository_map import RankedFile, render_map

DEFINED = [
    (1, 1, "Base", "class", ""),
    (2, 2, "helper", "function", ""),
    (3, 3, "run", "function", ""),
    (4, 4, "run", "function", ""),
]
PATHS = {1: "a/base.py", 2: "a/helper.py", 3: "b/one.py", 4: "b/two.py"}
USED = [
    UsingFile(2, PATHS[2], {"Base": [1, 2]}, "from a.base import Base"),
    UsingFile(3, PATHS[3], {"Base": [1], "helper": [3]}, "from a.base import Base\nfrom a import helper"),
    UsingFile(4, PATHS[4], {"Base": [1], "run": [1]}, "from a.base import Base"),
]


def test_what_others_use_ranks_higher_and_the_order_is_always_the_same() -> None:
    files, symbols = rank(DEFINED, USED, PATHS)
    assert max(files, key=lambda each: files[each]) == 1
    assert symbols[1] > symbols[2] > symbols.get(3, 0)
    assert rank(DEFINED, USED, PATHS) == (files, symbols)


def test_a_name_that_is_not_imported_counts_for_little() -> None:
    near = [UsingFile(3, "b/one.py", {"Base": [1]}, "from a.base import Base")]
    far = [UsingFile(3, "b/one.py", {"Base": [1], "helper": [1]}, "from a.base import Base")]
    _, with_import = rank(DEFINED, near, PATHS)
    _, both = rank(DEFINED, far, PATHS)
    assert both[1] > both[2] * 10
    assert with_import[1] > both[1]


def symbol(path: str, name: str) -> IndexedSymbol:
    return IndexedSymbol(path=path, name=name, kind="class", line=1, score=1.0)


def test_a_map_fits_its_tokens_and_leaves_out_tests_and_files_that_are_gone() -> None:
    paths = [f"src/part{number}/file{number}.py" for number in range(200)]
    files = [RankedFile(path, 1.0 / (n + 1), [symbol(path, f"Name{n}")]) for n, path in enumerate(paths)]
    files.append(RankedFile("tests/test_all.py", 5.0, [symbol("tests/test_all.py", "Testing")]))
    text = render_map(files, paths, tokens=300, is_there=lambda path: "part1/" not in path)
    assert len(text.encode()) <= 300 * 4
    assert "src/part0/file0.py: Name0" in text
    assert "part1/" not in text.split("\n", 2)[2]
    assert "Testing" not in text
    assert text == render_map(files, paths, tokens=300, is_there=lambda path: "part1/" not in path)


def test_words_lift_what_has_them_and_nothing_is_drawn_of_nothing() -> None:
    files = [
        RankedFile("a.py", 1.0, [symbol("a.py", "Engine")]),
        RankedFile("b.py", 0.5, [symbol("b.py", "Wing")]),
    ]
    first = render_map(files, ["a.py", "b.py"], tokens=300, about="mend the wing").split("\n")[2]
    assert first == "b.py: Wing"
    assert not render_map([], ["a.py"], tokens=300)
