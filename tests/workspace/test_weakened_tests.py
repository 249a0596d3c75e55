"""What a change takes from tests is seen; what it adds, moves or renames is not held against it."""

from __future__ import annotations

import pytest

from mainspring.workspace.weakened_tests import cases_in, weakened

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


def test_a_test_that_moved_to_another_file_is_not_gone_but_compared() -> None:
    left, went = BEFORE[: BEFORE.index("class")], BEFORE[BEFORE.index("class") :]
    assert not weakened("tests/test_shop.py", BEFORE, left, cases_in(went))
    found = weakened("tests/test_shop.py", BEFORE, left, cases_in(went.replace("== 1", "== 2")))
    assert [each.rule for each in found] == ["asserts-other"]


FIXTURES = """\
import unittest, pytest

@pytest.fixture
def prices():
    return [1, 2]

def check(found):
    assert found == 3

@pytest.mark.parametrize("given,wanted", [(1, 1), (2, 4)])
def test_square(given, wanted):
    assert square(given) == wanted

class TestSum(unittest.TestCase):
    def setUp(self):
        self.prices = [1, 2]

    def test_sum(self):
        self.assertEqual(total(self.prices), 3)
        self.assertAlmostEqual(mean(self.prices), 1.5, places=7)
        with self.assertRaises(ValueError):
            total(None)
"""


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        ("return [1, 2]", "return [0, 2]", ["other-values"]),
        ("return [1, 2]", "return [1, 2, 3]", []),
        ("assert found == 3", "return found", ["emptied"]),
        ("(2, 4)]", "(2, 2)]", ["other-values"]),
        ("(2, 4)]", "(2, 4), (3, 9)]", []),
        ("self.prices = [1, 2]", "self.prices = []", ["other-values"]),
        ("def setUp(self):\n", "def setUp(self):\n        self.skipTest('x')\n", ["skipped"]),
        ("@pytest.fixture\n", "@pytest.fixture(autouse=True)\ndef none():\n    pytest.skip()\n\n@pytest.fixture\n", ["skipped"] * 2),
        ("self.assertEqual(", "self.assertIn(", ["asserts-other"]),
        ("self.assertEqual(", "self.assertEquals(", []),
        ("places=7", "places=0", ["asserts-other"]),
        ("assertRaises(ValueError)", "assertRaises(Exception)", ["asserts-other"]),
        ("assertRaises(ValueError)", "assertRaises(PriceError)", []),
        ("total(self.prices)", "add(self.prices)", []),
    ],
)  # fmt: skip
def test_what_tests_stand_on_is_looked_at_as_well(old: str, new: str, rules: list[str]) -> None:
    assert old in FIXTURES
    found = weakened("tests/test_shop.py", FIXTURES, FIXTURES.replace(old, new))
    assert [each.rule for each in found] == rules


def test_what_is_too_deep_or_too_long_is_left_alone() -> None:
    deep = f"def test_a():\n    assert {'+'.join(['1'] * 3000)}\n"
    assert weakened("test_a.py", deep, "def test_a():\n    assert 1\n") == []
    script = f'{{"scripts": {{"test": "{"test " * 200_000}"}}}}'
    assert weakened("package.json", "", script) == []
    quotes = "expect(1).toBe('" + "\\'" * 100_000
    assert weakened("a.test.js", quotes, quotes) == []


def test_a_class_of_another_name_is_not_found_by_runners() -> None:
    found = weakened("tests/test_shop.py", BEFORE, BEFORE.replace("TestShop", "ShopTests"))
    assert [each.rule for each in found] == ["deleted"]


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
        ("tests/conftest.py", "", "import pytest\n\ndef pytest_collection_modifyitems(items):\n    for each in items:\n        each.add_marker(pytest.mark.skip)\n", ["left-out"]),
        ("conftest.py", "import pytest\n\n@pytest.fixture\ndef prices():\n    return [1]\n", "import pytest\n\n@pytest.fixture\ndef prices():\n    return []\n", ["other-values"]),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = ['--deselect', 'tests/test_a.py::test_b']\n", ["left-out"]),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = ['-m', 'not slow']\n", ["left-out"]),
        ("pyproject.toml", "", "[tool.pytest.ini_options]\naddopts = ['-q']\ntestpaths = ['tests']\n", []),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest || true"}}', ["left-out"]),
        ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "echo ok"}}', ["left-out"]),
        ("Makefile", "test:\n\tpytest\n", "test:\n\t-pytest\n", ["left-out"]),
        ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest || :\n", ["left-out"]),
        ("Makefile", "clean:\n\trm a\n", "clean:\n\t-rm a || true\n", []),
        ("vitest.config.ts", "", "export default { test: { passWithNoTests: true } }\n", ["left-out"]),
        ("src/__snapshots__/a.test.js.snap", "exports[`a 1`] = `1`;\n", "exports[`a 1`] = `2`;\n", ["expects-other"]),
        ("src/__snapshots__/a.test.js.snap", "exports[`a 1`] = `1`;\n", "exports[`a 1`] = `1`;\nexports[`b 1`] = `2`;\n", []),
        ("src/__snapshots__/a.test.js.snap", "exports[`a 1`] = `1`;\n", None, ["deleted"]),
        ("tests/fixtures/prices.json", "[1, 2]\n", "[]\n", ["expects-other"]),
        ("pkg/testdata/want.txt", "1\n", "2\n", ["expects-other"]),
        ("data/prices.json", "[1, 2]\n", "[]\n", []),
        ("a.test.js", "test('a', () => {\n  expect(f()).toBe(1);\n})", "test('a', () => {\n  expect(f()).toBe(2);\n})", ["asserts-other"]),
        ("a.test.js", "test('a', () => {\n  expect(f()).toBe(x);\n})", "test('a', () => {\n  expect(f()).toBeDefined(x);\n})", ["asserts-other"]),
        ("a.test.js", "test('a', () => {\n  expect(f()).toBeCloseTo(1.5, 5);\n})", "test('a', () => {\n  expect(g()).toBeCloseTo(1.5, 5)\n})", []),
        ("a_test.go", "func TestA(t *testing.T) {\n\tif f() != 1 {\n\t\tt.Error(1)\n\t}\n}", "func TestA(t *testing.T) {\n\tif f() != 2 {\n\t\tt.Error(1)\n\t}\n}", ["asserts-other"]),
        ("tests/adds.rs", "#[test]\nfn a() { assert_eq!(f(), 3); }\n", "#[test]\n#[ignore]\nfn a() { assert_eq!(f(), 3); }\n", ["skipped"]),
        ("src/lib.rs", "fn f() { assert!(x); }\n#[cfg(test)]\nmod t {\n#[test]\nfn a() { assert_eq!(f(), 3); }\n}", "fn f() {}\n#[cfg(test)]\nmod t {\n#[test]\nfn a() { f(); }\n}", ["asserts-less"]),
        ("src/lib.rs", "fn f() { assert!(x); }\n", "fn f() {}\n", []),
        ("test_a.c", "int main(void) { if (f() != 1) return 1; return 0; }", "int main(void) { if (f() != 3) return 1; return 0; }", ["asserts-other"]),
        ("test.sh", "set -e\n[ $(f) = 1 ]\n", "set -e\n[ $(f) = 2 ]\n", ["asserts-other"]),
    ],
)  # fmt: skip
def test_other_languages_are_counted(path: str, before: str, after: str | None, rules: list[str]) -> None:
    assert [each.rule for each in weakened(path, before, after)] == rules
