"""What files define, use, import and say, language by language, and of Python also without a grammar."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mainspring.checks import grammars
from mainspring.checks.grammars import NotRead, symbols

PYTHON = '''"""About the file."""
import os
from a.b import c
LIMIT = 1
class Car(Base):
    """A car."""
    def drive(self, x: int) -> int:
        """Drives."""
        local = x
        return f"{os.getcwd()} word" + "text"  # note
'''
CASES: list[tuple[str, str, list[tuple[str, str, int, str, str]], list[str]]] = [
    (
        "a.ts",
        (
            '// About\nimport {a} from "./b";\n/** Doc of f */\nexport function f(x: number) { return a(x) }\n'
            "export const g = (y: T) => y;\ninterface I { m(): void }\n"
        ),
        [
            ("f", "function", 4, "", "Doc of f"),
            ("g", "function", 5, "", ""),
            ("I", "interface", 6, "", ""),
            ("m", "method", 6, "I", ""),
        ],
        ['import {a} from "./b"'],
    ),
    (
        "a.js",
        'const x = require("x");\nclass Ab { go() {} }\n',
        [("x", "variable", 1, "", ""), ("Ab", "class", 2, "", ""), ("go", "method", 2, "Ab", "")],
        ['require("x")'],
    ),
    (
        "a.go",
        (
            '// Package main.\npackage main\nimport "fmt"\n// F is f.\nfunc F(a int) { fmt.Println(a) }\n'
            "type S struct { A int }\nfunc (s *S) M() {}\n"
        ),
        [("F", "function", 5, "", "F is f."), ("S", "type", 6, "", ""), ("M", "method", 7, "", "")],
        ['import "fmt"'],
    ),
    (
        "a.rs",
        "use std::fs;\n/// Doc.\npub struct P { x: i32 }\nimpl P {\n pub fn new() -> P { P{x:1} } }\n",
        [("P", "struct", 3, "", "Doc."), ("new", "method", 5, "P", "")],
        ["use std::fs"],
    ),
    (
        "a.c",
        "#include <stdio.h>\n#define MAX 3\n/* doc */\nstatic int *add(int a) { return a; }\n",
        [("MAX", "constant", 2, "", ""), ("add", "function", 4, "", "doc")],
        ["#include <stdio.h>"],
    ),
    (
        "a.cpp",
        "namespace n { class A { public: int m() { return 1; } }; }\nint n::A::f() { return 0; }\n",
        [
            ("n", "module", 1, "", ""),
            ("A", "class", 1, "n", ""),
            ("m", "method", 1, "n.A", ""),
            ("f", "function", 2, "", ""),
        ],
        [],
    ),
    (
        "A.java",
        "import java.util.List;\n/** Doc. */\npublic class A { int m(int a) { return a; } }\n",
        [("A", "class", 3, "", "Doc."), ("m", "method", 3, "A", "")],
        ["import java.util.List"],
    ),
    (
        "a.rb",
        'require "x"\nmodule M\n class A\n  def m(a)\n   a\n  end\n end\nend\n',
        [("M", "module", 2, "", ""), ("A", "class", 3, "M", ""), ("m", "method", 4, "M.A", "")],
        ['require "x"'],
    ),
    ("a.sh", "source ./x.sh\nf() {\n echo hi\n}\n", [("f", "function", 2, "", "")], ["source ./x.sh"]),
]


def shown(found: Any) -> list[tuple[str, str, int, str, str]]:
    return [(each.name, each.kind, each.line, each.parent, each.doc) for each in found.symbols]


@pytest.mark.parametrize(("path", "text", "expected", "imports"), CASES, ids=[case[0] for case in CASES])
def test_definitions_imports_and_comments_are_read(
    path: str, text: str, expected: list[tuple[str, str, int, str, str]], imports: list[str]
) -> None:
    found = symbols(path, text.encode())
    assert shown(found) == expected
    assert [text for _, text in found.imports] == imports


@pytest.mark.parametrize("has_grammar", [True, False])
def test_python_is_read_with_and_without_its_grammar(
    monkeypatch: pytest.MonkeyPatch, *, has_grammar: bool
) -> None:
    if not has_grammar:
        monkeypatch.setitem(sys.modules, "tree_sitter_python", None)
        grammars._parser.cache_clear()
    try:
        found = symbols("a.py", PYTHON.encode())
    finally:
        grammars._parser.cache_clear()
    assert shown(found) == [
        ("LIMIT", "constant", 4, "", ""),
        ("Car", "class", 5, "", "A car."),
        ("drive", "method", 7, "Car", "Drives."),
    ]
    assert found.imports == [(2, "import os"), (3, "from a.b import c")]
    assert found.doc == "About the file."
    assert found.names["os"] == [2, 10]
    assert found.names["getcwd"] == [10]
    assert not {"word", "text", "note"} & found.names.keys()


def test_what_is_no_source_is_refused_and_minified_files_are_left_out() -> None:
    with pytest.raises(NotRead, match="not text"):
        symbols("a.py", b"a\0b")
    assert symbols("a.js", b"var a=1;" * 9000).symbols == []
