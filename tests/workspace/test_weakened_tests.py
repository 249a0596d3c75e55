"""What a change takes from tests is seen; what it adds, moves or renames is not held against it."""

from __future__ import annotations

import pytest

from mainspring.workspace.weakened_tests import weakened

BEFORE = """\
import pytest

def test_add():
    assert add(2, 2) == 4
    assert add(0, 0) == 0

@pytest.mark.parametrize("x", [1, 2, 3])
def test_many(x):
    with pytest.raises(ValueError):
        add(x, None)

class TestShop:
    def test_total(self):
        assert total([1]) == 1
"""


def changed(old: str, new: str) -> str:
    assert old in BEFORE
    return BEFORE.replace(old, new)


@pytest.mark.parametrize(
    ("after", "rules"),
    [
        (BEFORE + "\ndef test_more():\n    assert add(1, 1) == 2\n", []),
        (BEFORE.replace("add(", "plus("), []),
        (changed("def test_add", "def test_adding"), []),
        (changed("    assert add(0, 0) == 0\n", ""), ["asserts-less"]),
        (changed("== 4", "== 0"), ["asserts-other"]),
        (changed("assert add(2, 2) == 4", "assert add(2, 2)"), ["asserts-other"]),
        (changed("== 4\n    assert add(0, 0) == 0", "is not None\n    assert True"), ["asserts-less"]),
        (changed("assert total([1]) == 1", "assert True"), ["emptied"]),
        (changed("assert total([1]) == 1", "value = total([1])\n        assert value == value"), ["emptied"]),
        (changed("assert total([1]) == 1", "assert total([1]) == 1 or True"), ["emptied"]),
        (
            changed(
                "        assert total([1]) == 1",
                "        try:\n            assert total([1]) == 1\n        except Exception:\n            pass",
            ),
            ["emptied"],
        ),
        (changed("def test_add", "@pytest.mark.skip\ndef test_add"), ["skipped"]),
        (changed("    assert add(2", "    pytest.skip('später')\n    assert add(2"), ["skipped"]),
        (changed("    assert add(2", "    return\n    assert add(2"), ["skipped"]),
        (changed("class TestShop:", "@unittest.skip('x')\nclass TestShop:"), ["skipped"]),
        ("pytestmark = pytest.mark.skip\n" + BEFORE, ["skipped"] * 3),
        (changed("[1, 2, 3]", "[1]"), ["fewer-cases"]),
        (BEFORE[: BEFORE.index("class")], ["deleted"]),
        (None, ["deleted"] * 3),
        (BEFORE + "\ndef test_new():\n    assert True\n", ["empty"]),
        ("def broken(:\n", []),
    ],
)
def test_python_is_read_as_a_tree(after: str | None, rules: list[str]) -> None:
    found = weakened("tests/test_shop.py", BEFORE, after)
    assert [each.rule for each in found] == rules
    assert all(each.severity == "warning" for each in found)


def test_a_test_that_moved_to_another_file_is_not_gone() -> None:
    assert not weakened("tests/test_shop.py", BEFORE, BEFORE[: BEFORE.index("class")], {"test_total"})


def test_files_that_are_no_tests_are_not_looked_at() -> None:
    assert not weakened("shop.py", BEFORE, None)


@pytest.mark.parametrize(
    ("path", "before", "after", "rules"),
    [
        ("a.test.js", "test('a', () => { expect(f()).toBe(1) })", "test.skip('a', () => { expect(f()).toBe(1) })", ["skipped"]),
        ("a.test.ts", "it('a', () => { expect(f()).toBe(1) })", "it('a', () => { f() })", ["asserts-less"]),
        ("a.test.ts", "it('a', () => { expect(f()).toBe(1) })", "it('a', () => { expect(true).toBe(true) })", ["asserts-less"]),
        ("a.test.js", "test('a', () => { expect(f()).toBe(1) })", "// test('a', () => { expect(f()).toBe(1) })", ["deleted", "asserts-less"]),
        ("a_test.go", "func TestA(t *testing.T) { t.Error() }", "func TestA(t *testing.T) { t.Skip(); t.Error() }", ["skipped"]),
        ("a_test.go", "func TestA(t *testing.T) { t.Error() }", None, ["deleted"]),
        ("a_test.rb", "def test_a\n  assert_equal 1, f\nend", "def test_a\n  skip\n  assert_equal 1, f\nend", ["skipped"]),
        ("CalcTest.java", "@Test void a() { assertEquals(1, f()); }", "@Disabled @Test void a() { assertEquals(1, f()); }", ["skipped"]),
        ("a.test.js", "test('a', () => {})", "test('a', () => {}); test('b', () => {})", []),
        ("test_a.c", "int main(void) { if (f() != 1) return 1; return 0; }", "int main(void) { f(); return 0; }", ["asserts-less"]),
        ("a_test.cpp", "TEST(A, B) { EXPECT_EQ(f(), 1); }", "TEST(A, DISABLED_B) { EXPECT_EQ(f(), 1); }", ["skipped"]),
        ("test.sh", "set -e\nf | grep -q x\n", "set -e\nf  # | grep -q x\n", ["asserts-less"]),
        ("a.bats", "@test 'a' {\n  [ $(f) = 1 ]\n}\n", "@test 'a' {\n  skip\n  [ $(f) = 1 ]\n}\n", ["skipped"]),
        ("a.bats", "@test 'a' {\n  [ $(f) = 1 ]\n}\n", "@test 'a' {\n  test $(f) = 1\n  diff a b\n}\n", []),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = '--deselect=tests/test_a.py::test_b'\n", ["left-out"]),
        ("conftest.py", "", "collect_ignore = ['test_a.py']\n", ["left-out"]),
    ],
)  # fmt: skip
def test_other_languages_are_counted(path: str, before: str, after: str | None, rules: list[str]) -> None:
    assert [each.rule for each in weakened(path, before, after)] == rules
