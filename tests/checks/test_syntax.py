"""Whether a file can be read as what its name says, language by language, before and after a change."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, NotChecked, grammars, new_findings
from mainspring.checks.grammars import GRAMMARS, NotRead, complexities, is_readable, read
from mainspring.checks.syntax import Syntax
from mainspring.events import CheckFinding
from mainspring.sandbox import Sandbox
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy

CASES = [
    ("a.py", "def f():\n    return 1\n", "def f(:\n    return 1\n", 1),
    ("a.py", "if x:\n    y()\n", "if x\n    y()\n", 1),
    ("a.py", "def f():\n    return 1\n", "def f():\nreturn 1\n", 2),
    ("a.py", "x = [1]\n", "x = 1\ny = 'abc\n", 2),
    ("a.js", "const x = 1;\n", "const x = ;\n", 1),
    ("a.mjs", "export function f() {\n}\n", "export function f() {\n", 1),
    ("a.jsx", "const a = <p>x</p>;\n", "const a = <p>x<;\n", 1),
    ("a.ts", "const x: number = 1;\n", "const x: number = ;\n", 1),
    ("a.tsx", "const a: X = <p/>;\n", "const a: X = <p;\n", 1),
    ("a.go", "package main\nfunc main() {\n}\n", "package main\nfunc main() {\n", 2),
    ("a.rs", "fn main() {}\n", "fn main() { let x = ; }\n", 1),
    ("a.c", "int main(void) { return 0; }\n", "int main(void) { return 0 }\n", 1),
    ("a.cpp", "class A {};\n", "class A {\n", 1),
    ("A.java", "class A { int x = 1; }\n", "class A { int x = ; }\n", 1),
    ("a.rb", "def f\n  1\nend\n", "def f(\n  1\nend\n", 1),
    ("A.cs", "class A { int x = 1; }\n", "class A { int x = ; }\n", 1),
    ("a.kt", "fun f(x: Int): Int {\n  return x\n}\n", "fun f(x: Int): Int {\n  return x +\n", 1),
    ("a.lua", "if x then\n  y = 1\nend\n", "if x then\n  y = 1\n", 1),
    ("a.php", "<p><?php\n$x = 1;\necho $x;\n", "<p><?php\n$x = ;\necho $x;\n", 2),
    ("a.scala", "object A {\n  val x = 1\n}\n", "object A {\n  val x = )\n}\n", 2),
    ("a.swift", "let x = 1\nfunc f() {}\n", "let x = \nfunc f( {}\n", 2),
    ("a.sh", "if true; then\necho a\nfi\n", "if true; then\necho a\n", 3),
    ("a.css", "a { color: red; }\n", "a { color: red;\n", 1),
    ("a.html", "<p>x</p>\n", "<p\n", 1),
    ("a.yaml", "a: [1, 2]\n", "a: [1, 2\nb: 3\n", 1),
    ("a.json", '{"a": 1}\n', '{\n"a": 1,\n}\n', 3),
    ("a.toml", "a = 1\n", "a = 1\nb = \n", 2),
]


class Grammars:
    """The grammars in this process, for files that are known to do them no harm."""

    name = "syntax"

    def takes(self, path: str) -> bool:
        return is_readable(path)

    async def findings(self, path: str, content: bytes) -> list[CheckFinding]:
        return [
            CheckFinding(by="syntax", line=line, message=message) for line, message in read(path, content)
        ]


def look(path: str, before: str | None, after: str) -> list[int]:
    changed = ChangedFile(path, before.encode() if before is not None else None, after.encode())
    return [each.line for each in asyncio.run(new_findings(Grammars(), changed))]


@pytest.mark.parametrize(("path", "right", "wrong", "line"), CASES)
def test_what_cannot_be_read_is_found_and_what_could_not_before_is_not(
    path: str, right: str, wrong: str, line: int
) -> None:
    assert look(path, right, wrong)[:1] == [line]
    assert look(path, None, wrong)[:1] == [line]
    assert look(path, None, right) == []
    assert look(path, wrong, right) == []
    assert look(path, wrong, f"\n{wrong}") == []  # it only moved


def test_a_second_problem_of_the_same_kind_is_new() -> None:
    assert look("a.py", "x = (\n", "x = (\n\n\ndef g():\n    pass\ny = [\n")


def test_newer_syntax_than_ours_is_no_problem() -> None:
    assert look("a.py", None, "type X = int\n\n\ndef f[T](x: T) -> T:\n    return x\n") == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("tsconfig.json", '{\n  // why\n  "a": 1,\n}\n'),
        (".vscode/settings.json", "{ /* x */ }"),
        ("notes.md", "(((\n"),
        ("a.h", "class A {\n"),
    ],
)
def test_nothing_is_said_of_what_is_not_what_it_seems(path: str, text: str) -> None:
    assert not is_readable(path)


CRASHING = """
import os
import subprocess
from importlib import util
spec = util.spec_from_file_location("grammars", {program!r})
grammars = util.module_from_spec(spec)
spec.loader.exec_module(grammars)
read = grammars.read
grammars._LOOKS["syntax"] = lambda path, content: os.abort() if path == "a.c" else read(path, content)
grammars.main()
"""
"""The reader, with a grammar of C that crashes as grammars can."""


def test_many_places_of_broken_files_are_read_without_a_crash() -> None:
    """Points of tree-sitter 0.26.0 are not counted right: reading many of them crashed the reader."""
    program = (
        "from mainspring.checks.grammars import complexities, read\n"
        "for _ in range(40):\n"
        "    read('a.c', b'\\\\\\n' * 10_000)\n"
        "    complexities('a.py', b'def f():\\n    return 1\\n' * 500)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_files_that_crash_a_parser_or_keep_it_busy_are_told_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, checks = tmp_path / "crashing.py", tmp_path / "checks"
    shutil.copytree(Path(grammars.__file__).parent, checks)  # a sandbox may see no other folder of ours
    program.write_text(CRASHING.format(program=str(checks / "grammars.py")))
    monkeypatch.setattr("mainspring.checks.syntax._PROGRAM", program)

    async def main() -> None:
        confined = policy(tmp_path, home=tmp_path)
        sandbox = await choose(confined, {"PATH": os.environ["PATH"]})

        async def given() -> Sandbox:
            return sandbox

        syntax = Syntax(confined, given, patience_s=3.0)
        try:
            for path, text in (("a.c", "int x;"), ("a.py", "a?b:" * 20_000)):
                with pytest.raises(NotChecked):
                    await syntax.findings(path, text.encode())
            (found,) = await syntax.findings("a.py", b"x = (\n")
            assert found.line == 1
            assert not await syntax.findings("a.py", b"x = 1\n")
        finally:
            await syntax.close()
            await sandbox.close()

    asyncio.run(main())


def test_a_missing_grammar_and_a_binary_file_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    monkeypatch.setitem(GRAMMARS, ".go2", GRAMMARS[".go"]._replace(function="language2"))
    with pytest.raises(NotRead, match=r"tree-sitter-go is not installed"):
        read("a.go2", b"package main\n")
    with pytest.raises(NotRead, match="not text"):
        read("a.py", b"a\0b")


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", "def f(x):\n    if x and y:\n        pass\n    elif z:\n        pass\n", [("f", 4)]),
        ("a.py", "def f():\n    return [x for x in y if x]\n\n\ndef g(): pass\n", [("f", 3), ("g", 1)]),
        ("a.py", "def f():\n    def g():\n        if x: pass\n    while y: pass\n", [("f", 2), ("g", 2)]),
        ("a.js", "function f(x) { if (x && y) {} for (;;) {} return x ? 1 : 2 }", [("f", 5)]),
        ("a.ts", "class A { m(x: number) { switch (x) { case 1: break; case 2: } } }", [("m", 3)]),
        ("a.go", "package a\nfunc f(x int) { if x > 0 || x < 9 {} }", [("f", 3)]),
        ("a.rs", "fn f(x: i32) { match x { 1 => {}, _ => {} } while x > 0 {} }", [("f", 4)]),
        ("a.c", "int f(int x) { if (x) return 1; while (x) x--; return 0; }", [("f(int x)", 3)]),
        ("A.java", "class A { void m(int x) { for (int y : z) { if (x > 1) {} } } }", [("m", 3)]),
        ("a.rb", "def f(x)\n  if x\n    1\n  end\nend\n", [("f", 2)]),
    ],
)
def test_the_ways_through_a_function_are_counted(path: str, text: str, found: list[tuple[str, int]]) -> None:
    assert sorted((name, count) for _, name, count in complexities(path, text.encode())) == found
