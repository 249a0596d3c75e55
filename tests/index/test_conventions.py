"""What is usual in a repository: counted, with examples, and silent where there is too little."""

from __future__ import annotations

from mainspring.index import ImportedAt
from mainspring.index.conventions import convention_line, conventions

TESTS = [f"tests/shop/test_{name}.py" for name in ("a", "b", "c", "d", "e", "f")]
PATHS = [*TESTS, "src/shop/a.py", "src/shop/b.py", "src/shop/a_test.py"]
SYMBOLS = [("src/shop/a.py", f"do_thing_{number}", "function") for number in range(9)]
SYMBOLS += [("src/shop/a.py", "doThing", "function"), ("src/shop/a.py", "x", "function")]
IMPORTS = [
    (
        "src/shop/a.py",
        [ImportedAt(n, f"from shop.m{n} import x") for n in range(6)] + [ImportedAt(9, "import os")],
    )
]
COMMITS = [f"Add part {number} to the shop" for number in range(9)] + ["fix stuff."]


def test_conventions_are_counted_with_examples() -> None:
    found = {each.text: (each.count, each.total) for each in conventions(PATHS, SYMBOLS, IMPORTS, COMMITS)}
    assert found["test files are named test_*.py"] == (6, 7)
    assert found["tests lie in tests/"] == (6, 7)
    assert found["folders of tests mirror those of the source"] == (6, 6)
    assert found["functions in Python: snake_case"] == (9, 10)
    assert found["imports in Python: absolute, from x import y"] == (6, 7)
    assert found["commits begin with a capital letter"] == (9, 10)
    assert "commits begin with a type (`fix: `)" not in found
    first = conventions(PATHS, SYMBOLS, IMPORTS, COMMITS)[0]
    assert first.examples == tuple(TESTS[:3])


def test_commits_with_types_are_told_and_few_files_tell_nothing() -> None:
    (first, *_) = conventions(
        [], [], [], ["fix(shop): mend it", "feat: add", "docs: say", "fix: x", "fix: y"]
    )
    assert first.text == "commits begin with a type (`fix: `)"
    assert conventions(["a.py", "tests/test_a.py"], [("a.py", "do_it", "function")], [], ["one"]) == []


def test_the_line_of_a_map_has_only_what_is_clear() -> None:
    line = convention_line(conventions(PATHS, SYMBOLS, IMPORTS, COMMITS))
    assert line.startswith("usual here: test files are named test_*.py (6/7); tests lie in tests/ (6/7);")
    assert convention_line([]) == ""
