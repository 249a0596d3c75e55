"""What changes in other languages than Python reach: imports that name files are followed, and where none does
callers are found by name and told as that."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mainspring.app.operations.impact import impact_lines, look_at_impact
from mainspring.workspace.impact import Impact
from mainspring.workspace.import_paths import ImportPaths
from tests.app.operations.test_impact import config_of, repository

SCRIPTS = {
    "package.json": '{"name": "shop", "workspaces": ["packages/*"]}',
    "src/calc.ts": "export function add(a: number, b?: number): number {\n  return a + (b ?? 0)\n}\n"
    "export const gone = () => 1\nfunction own(x: number) { return x }\nexport default class Cart {\n"
    "  total(prices: number[]) { return prices.length }\n}\nexport const LIMIT = 3\n",
    "src/index.ts": "export { add, LIMIT } from './calc'\nexport * from './calc.js'\n",
    "src/desk.ts": "import Basket from './calc'\nnew Basket().total([])\n",
    "src/lazy.js": "export const load = () => import('./desk')\n",
    "src/page.tsx": "import { add } from '@/calc'\nexport const Page = () => <p>{add(1)}</p>\n",
    "src/other.ts": "const add = 1\nexport { add }\n",
    "packages/ui/package.json": '{"name": "@shop/ui"}',
    "packages/ui/src/index.js": "const paint = (x) => x\nmodule.exports = { paint }\n",
    "app/main.js": "const { add } = require('../src')\nconst ui = require('@shop/ui')\nui.paint(add(1))\n",
    "tests/calc.test.ts": "import { add } from '../src/calc'\nadd(1)\n",
}


def changed(folder: Path, files: dict[str, str], path: str, old: str, new: str, *paths: str) -> Impact:
    root = repository(folder, files)
    text = (root / path).read_text(encoding="utf-8")
    assert old in text or not old
    (root / path).write_text(text.replace(old, new), encoding="utf-8")
    return asyncio.run(look_at_impact(config_of(folder), root, paths))


def test_a_changed_function_of_typescript_reaches_those_that_import_its_file(tmp_path: Path) -> None:
    found = changed(tmp_path, SCRIPTS, "src/calc.ts", "b?: number", "b: number")
    assert [(each.name, each.why, each.semver) for each in found.api] == [
        ("add", "parameter 2 has no default any more", "major")
    ]
    users = [(each.path, each.line) for each in found.callers if each.name == "add"]
    assert users == [("app/main.js", 3), ("src/index.ts", 1), ("src/page.tsx", 1), ("tests/calc.test.ts", 1)]
    assert found.importers == ("app/main.js", "src/desk.ts", "src/index.ts", "src/page.tsx")
    assert found.tests == ("tests/calc.test.ts",)
    assert "src/other.ts" not in {each.path for each in found.callers}
    assert found.reached == 6  # src/lazy.js by the desk
    assert not found.not_read


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("export const gone = () => 1\n", "", ("removed", "gone", "major")),
        ("export const LIMIT = 3\n", "", ("removed", "LIMIT", "major")),
        ("export const gone", "const gone", ("removed", "gone", "major")),
        ("a: number, b", "a: string, b", ("changed", "add", "major")),
        ("a: number, b", "first: number, b", None),
        ("function own(x: number)", "function own()", None),
        ("total(prices: number[])", "total(prices: number[], tax = 0)", ("changed", "Cart.total", "minor")),
        ("export const gone", "export const more = 1\nexport const gone", ("added", "more", "minor")),
    ],
)
def test_the_public_api_of_a_script_is_what_it_exports(
    tmp_path: Path, old: str, new: str, told: tuple[str, str, str] | None
) -> None:
    found = changed(tmp_path, SCRIPTS, "src/calc.ts", old, new)
    assert [(each.change, each.name, each.semver) for each in found.api] == ([told] if told else [])


def test_a_default_export_is_called_by_whatever_name_its_importer_gives_it(tmp_path: Path) -> None:
    found = changed(tmp_path, SCRIPTS, "src/calc.ts", "prices.length", "0")
    assert ("src/desk.ts", "Cart") in {(each.path, each.name) for each in found.callers}


def test_a_package_of_the_same_repository_is_known_by_its_name(tmp_path: Path) -> None:
    found = changed(tmp_path, SCRIPTS, "packages/ui/src/index.js", "(x) => x", "(x) => x + 1")
    assert [(each.path, each.name) for each in found.callers] == [("app/main.js", "paint")]


def test_files_that_are_named_are_asked_about_though_nothing_changed(tmp_path: Path) -> None:
    found = changed(tmp_path, SCRIPTS, "src/calc.ts", "", "", "src/calc.ts")
    assert not found.api
    assert "src/page.tsx" in {each.path for each in found.callers}


C = {
    "lib/sum.h": "#ifndef SUM_H\nint sum(int a, int b);\n#endif\n",
    "lib/sum.c": '#include "sum.h"\nint sum(int a, int b) { return a + b; }\nstatic int own(void) { return 1; }\n',
    "main.c": '#include <stdio.h>\n#include "lib/sum.h"\nint main(void) { return sum(1, 2); }\n',
    "tests/test_sum.c": '#include "../lib/sum.h"\nint main(void) { return sum(1, 2) != 3; }\n',
}


def test_callers_of_c_are_found_through_the_header_of_a_file(tmp_path: Path) -> None:
    found = changed(tmp_path, C, "lib/sum.c", "int sum(int a, int b)", "long sum(int a, long b)")
    assert [(each.path, each.line, each.is_by_name) for each in found.callers if each.path == "main.c"] == [
        ("main.c", 3, False)
    ]
    assert found.tests == ("tests/test_sum.c",)
    assert [each.why for each in found.api] == ["parameter 2 is `long`, was `int`"]


GO = {
    "go.mod": "module example.com/shop\n",
    "calc/calc.go": "package calc\n\nfunc Add(a int, b int) int { return a + b }\n\nfunc own() int { return 1 }\n",
    "main.go": 'package main\n\nimport "example.com/shop/calc"\n\nfunc main() { calc.Add(1, 2) }\n',
    "calc/calc_test.go": "package calc\n\nfunc TestAdd(t *testing.T) { Add(1, 2) }\n",
}


def test_callers_of_go_are_found_by_name_and_told_as_that(tmp_path: Path) -> None:
    found = changed(tmp_path, GO, "calc/calc.go", "(a int, b int)", "(a int, b int, c int)")
    assert [(each.path, each.line, each.is_by_name) for each in found.callers] == [("main.go", 5, True)]
    assert found.tests == ("calc/calc_test.go",)
    assert found.semver == "major"
    assert "  main.go:5 uses Add (by its name alone)" in impact_lines(found)


def test_a_file_of_no_text_and_one_without_a_grammar_are_told(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.js": "export const a1 = 1\n"})
    (root / "a.js").write_bytes(b"\0\xff")
    (root / "b.swift").write_text("let x = 1\n", encoding="utf-8")
    found = asyncio.run(look_at_impact(config_of(tmp_path), root))
    assert found.not_read == ("b.swift: no grammar reads its API", "a.js: it is not text")


def test_imports_of_scripts_mean_files_as_bundlers_find_them() -> None:
    paths = ImportPaths(["a/x.ts", "a/index.js", "b/y.mts", "lib/deep/z.tsx", "q/z.tsx"], {"@me/b": "b"})

    def target(text: str) -> list[str]:
        return paths.targets("a/user.ts", f"import x from '{text}'")

    assert target("./x") == target("./x.js") == target("./x.ts") == ["a/x.ts"]
    assert target(".") == target("./index") == ["a/index.js"]
    assert target("@me/b/y") == ["b/y.mts"]
    assert target("@/deep/z") == ["lib/deep/z.tsx"]
    assert target("@/z") == target("react") == target("../../../etc/passwd") == []
