"""What files define, language by language, as their syntax trees have it."""

from __future__ import annotations

import pytest

from mainspring.checks.grammars import NotRead, outline

PYTHON = '''
class Box(Base):
    """A box.

    More of it."""
    def __init__(self, size: int, *, name="x", **rest): ...
    def _hidden(self): pass

@cached
async def load(path, *args): # TODO: faster
    pass
'''
JAVASCRIPT = """
/** Adds numbers. */
export function add(a, b = 2, ...rest) { return a + b }
// Doubles.
export const twice = (x) => { return x * 2 }
class Cart extends Base { #secret() {} total({tax}) { return 1 } }
"""
TYPESCRIPT = """
/** A point. */
export interface Point { move(dx: number): void }
export abstract class Shape { private area(): number { return 1 } scale(by: number, deep?: boolean) {} }
"""
GO = """package a
// Add adds.
func Add(a, b int) (int, error) { return a + b, nil }
type Store struct { x int }
func (s *Store) get(key string) string { return "" }
"""
RUST = """
/// A stack.
#[derive(Debug)]
pub struct Stack<T> { items: Vec<T> }
impl<T> Stack<T> {
    /// Pushes.
    pub fn push(&mut self, item: T) -> bool { true }
}
// FIXME: more
fn run(args: &[String]) {}
"""
C = """/* Adds. */
int add(int a, const char *b) { return a; }
static void hidden(void) {}
char *name_of(struct node *n);
"""
CPP = """namespace geo {
class Point { public: int norm() const { return 1; } void move(int dx, int dy = 0); };
template <typename T> T twice(T value) { return value; }
}
"""
JAVA = """/** A shop. */
public class Shop {
  /** Sells. */
  public int sell(String item, int count) { return 1; }
  private void hide() {}
}
"""
RUBY = """# A dog.
class Dog < Animal
  # Barks.
  def bark(times = 1, loud:)
  end
end
"""
# kind, name, signature, parameters, documentation, whether it is public
CASES = [
    ("a.py", PYTHON, 0, ("class", "Box", "class Box(Base)", [], "A box.", True)),
    (
        "a.py",
        PYTHON,
        1,
        (
            "method",
            "Box.__init__",
            'def __init__(self, size: int, *, name="x", **rest)',
            ["self", "size", "name", "rest"],
            "",
            True,
        ),
    ),
    ("a.py", PYTHON, 2, ("method", "Box._hidden", "def _hidden(self)", ["self"], "", False)),
    ("a.py", PYTHON, 3, ("function", "load", "async def load(path, *args)", ["path", "args"], "", True)),
    (
        "a.js",
        JAVASCRIPT,
        0,
        ("function", "add", "function add(a, b = 2, ...rest)", ["a", "b", "rest"], "Adds numbers.", True),
    ),
    ("a.js", JAVASCRIPT, 1, ("function", "twice", "twice = (x)", ["x"], "Doubles.", True)),
    ("a.js", JAVASCRIPT, 3, ("method", "Cart.#secret", "#secret()", [], "", False)),
    ("a.ts", TYPESCRIPT, 0, ("interface", "Point", "interface Point", [], "A point.", True)),
    ("a.ts", TYPESCRIPT, 1, ("method", "Point.move", "move(dx: number): void", ["dx"], "", True)),
    ("a.ts", TYPESCRIPT, 3, ("method", "Shape.area", "private area(): number", [], "", False)),
    ("a.tsx", TYPESCRIPT, 2, ("class", "Shape", "abstract class Shape", [], "", True)),
    ("a.go", GO, 0, ("function", "Add", "func Add(a, b int) (int, error)", ["a", "b"], "Add adds.", True)),
    ("a.go", GO, 2, ("method", "Store.get", "func (s *Store) get(key string) string", ["key"], "", False)),
    ("a.rs", RUST, 0, ("struct", "Stack", "pub struct Stack<T>", [], "A stack.", True)),
    (
        "a.rs",
        RUST,
        1,
        (
            "method",
            "Stack.push",
            "pub fn push(&mut self, item: T) -> bool",
            ["&mut self", "item"],
            "Pushes.",
            True,
        ),
    ),
    ("a.rs", RUST, 2, ("function", "run", "fn run(args: &[String])", ["args"], "", False)),
    ("a.c", C, 0, ("function", "add", "int add(int a, const char *b)", ["a", "b"], "Adds.", True)),
    ("a.c", C, 1, ("function", "hidden", "static void hidden(void)", [], "", False)),
    ("a.h", C, 2, ("function", "name_of", "char *name_of(struct node *n)", ["n"], "", True)),
    ("a.cpp", CPP, 0, ("class", "geo.Point", "class Point", [], "", True)),
    (
        "a.hpp",
        CPP,
        2,
        ("method", "geo.Point.move", "void move(int dx, int dy = 0)", ["dx", "dy"], "", True),
    ),
    ("a.cc", CPP, 3, ("function", "geo.twice", "T twice(T value)", ["value"], "", True)),
    (
        "a.java",
        JAVA,
        1,
        (
            "method",
            "Shop.sell",
            "public int sell(String item, int count)",
            ["item", "count"],
            "Sells.",
            True,
        ),
    ),
    ("a.java", JAVA, 2, ("method", "Shop.hide", "private void hide()", [], "", False)),
    ("a.rb", RUBY, 0, ("class", "Dog", "class Dog < Animal", [], "A dog.", True)),
    (
        "a.rb",
        RUBY,
        1,
        ("method", "Dog.bark", "def bark(times = 1, loud:)", ["times", "loud"], "Barks.", True),
    ),
]


@pytest.mark.parametrize(("path", "text", "place", "wanted"), CASES)
def test_definitions_are_read_with_their_parameters_and_comments(
    path: str, text: str, place: int, wanted: tuple[str, str, str, list[str], str, bool]
) -> None:
    found = outline(path, text.encode())["definitions"][place]
    names = [each["name"] for each in found["parameters"]]
    assert (found["kind"], found["name"], found["signature"], names) == wanted[:4]
    assert (found["doc"], found["is_public"]) == wanted[4:]


def test_marks_are_found_in_comments_only_and_lines_are_right() -> None:
    found = outline("a.rs", RUST.encode())
    assert found["marks"] == [[9, "FIXME: more"]] or found["marks"] == [(9, "FIXME: more")]
    assert [each["line"] for each in found["definitions"]] == [4, 7, 10]
    assert not outline("a.py", b'x = "TODO: no comment"\n')["marks"]


def test_broken_files_tell_so_and_binary_ones_are_refused() -> None:
    found = outline("a.py", b"def good():\n    pass\n\ndef bad(:\n")
    assert found["is_broken"]
    assert found["definitions"][0]["name"] == "good"
    with pytest.raises(NotRead):
        outline("a.py", b"\0")
