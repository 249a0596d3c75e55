"""Names that are imported from a file of the project which does not have them are told where a change broke them,
and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mainspring.checks import grammars
from mainspring.checks.broken_names import BrokenNames
from mainspring.events import ChangesChecked
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from tests.checks.test_after_change import configured, notes, shell
from tests.stage import staged

CALC = "RATE = 2\n\n\ndef total(prices):\n    return sum(prices)\n"
DESK = "from shop.calc import RATE, total\n\nprint(total([RATE]))\n"
LIST = "export interface Item { name: string }\nexport const size = 1;\nexport function label(item: Item) { return item.name; }\n"
PAGE = "import {\n  label,\n  type Item,\n} from './list';\nlabel({} as Item);\n"

BROKEN: list[tuple[str, dict[str, str], dict[str, str | None], list[tuple[str, int]]]] = [
    ("renamed, and imported elsewhere", {"shop/calc.py": CALC, "shop/desk.py": DESK},
     {"shop/calc.py": CALC.replace("total", "total_of")}, [("shop/desk.py", 1)]),
    ("constant removed", {"shop/calc.py": CALC, "shop/desk.py": DESK},
     {"shop/calc.py": CALC.replace("RATE = 2\n", "")}, [("shop/desk.py", 1)]),
    ("file deleted", {"shop/calc.py": CALC, "shop/desk.py": DESK}, {"shop/calc.py": None}, [("shop/desk.py", 1)]),
    ("by a relative import", {"src/shop/calc.py": CALC, "src/shop/a/desk.py": "\nfrom ..calc import total\n"},
     {"src/shop/calc.py": "x = 1\n"}, [("src/shop/a/desk.py", 2)]),
    ("imported, and never there", {"shop/calc.py": CALC}, {"desk.py": "def f():\n    from shop.calc import mean\n"},
     [("desk.py", 2)]),
    ("out of a package", {"shop/__init__.py": "from .calc import total\n", "shop/calc.py": CALC, "a.py": "from shop import total\n"},
     {"shop/__init__.py": ""}, [("a.py", 1)]),
    ("module of a package deleted", {"shop/__init__.py": "", "shop/calc.py": CALC, "a.py": "from shop import calc\n"},
     {"shop/calc.py": None}, [("a.py", 1)]),
    ("used of a module", {"shop/__init__.py": "", "shop/calc.py": CALC, "a.py": "from shop import calc\n\nprint(calc.total([]))\n"},
     {"shop/calc.py": CALC.replace("total", "sum_of")}, [("a.py", 3)]),
    ("used of a module by another name", {"calc.py": CALC, "a.py": "import calc as c\nprint(c.RATE)\n"},
     {"calc.py": CALC.replace("RATE = 2", "")}, [("a.py", 2)]),
    ("used, and never there", {"calc.py": CALC}, {"a.py": "import calc\nprint(calc.mean)\n"}, [("a.py", 2)]),
    ("export removed", {"src/list.ts": LIST, "src/page.ts": PAGE}, {"src/list.ts": LIST.replace("export function", "function")},
     [("src/page.ts", 1)]),
    ("type renamed", {"src/list.ts": LIST, "src/page.ts": PAGE}, {"src/list.ts": LIST.replace("Item", "Row")}, [("src/page.ts", 1)]),
    ("script deleted", {"list.js": "export const a = 1;\n", "page.mjs": "import { a } from './list.js';\n"}, {"list.js": None},
     [("page.mjs", 1)]),
    ("default export removed", {"list.js": "export default 1;\n", "page.js": "\nimport list, { x as y } from './list.js';\n"},
     {"list.js": "export const x = 1;\n"}, [("page.js", 2)]),
    ("required", {"list.js": "function a() {}\nmodule.exports = { a, b: 1 };\n", "page.js": "const { a, b: c } = require('./list');\n"},
     {"list.js": "module.exports = { b: 1 };\n"}, [("page.js", 1)]),
    ("exported on", {"a.ts": "export const x = 1;\n", "index.ts": "export { x as y } from './a';\n"}, {"a.ts": "export const z = 1;\n"},
     [("index.ts", 1)]),
]  # fmt: skip

FINE: list[tuple[str, dict[str, str], dict[str, str | None]]] = [
    ("both were changed", {"shop/calc.py": CALC, "shop/desk.py": DESK},
     {"shop/calc.py": CALC.replace("total", "sum_of"), "shop/desk.py": DESK.replace("total", "sum_of")}),
    ("it stood before", {"shop/calc.py": CALC, "a.py": "from shop.calc import never\n"}, {"a.py": "x = 1\nfrom shop.calc import never\n"}),
    ("another name was removed", {"shop/calc.py": CALC, "a.py": "from shop.calc import total\n"}, {"shop/calc.py": CALC.replace("RATE", "X")}),
    ("a name that stands for other things too", {"calc.py": CALC}, {"a.py": "import calc\n\ndef f(calc):\n    return calc.mean\n"}),
    ("a package has a thing of that name", {"shop/__init__.py": "class calc: mean = 1\n", "shop/calc.py": CALC},
     {"a.py": "from shop import calc\nprint(calc.mean)\n"}),
    ("what is set on a module", {"calc.py": CALC}, {"a.py": "import calc\ncalc.mean = 1\nprint(calc.mean, calc.__name__)\n"}),
    ("a module of a package that is used", {"shop/__init__.py": "", "shop/calc.py": CALC}, {"a.py": "import shop\nprint(shop.calc)\n"}),
    ("no module of the project", {}, {"a.py": "import flask\nfrom x import y\nprint(flask.Flask, y.z)\n"}),
    ("a module of a package", {"shop/__init__.py": "", "shop/calc.py": CALC}, {"a.py": "from shop import calc\n"}),
    ("a package without a file of its own", {"shop/calc.py": CALC}, {"a.py": "from shop import calc\n"}),
    ("a file that became a package", {"shop/calc.py": CALC, "a.py": DESK}, {"shop/calc.py": None, "shop/calc/__init__.py": CALC}),
    ("names that are not known", {"shop/calc.py": "from os.path import *\n"}, {"a.py": "from shop.calc import join\n"}),
    ("names that are made", {"shop/calc.py": "def __getattr__(name): ...\n", "b.py": "globals()['x'] = 1\n"},
     {"a.py": "from shop.calc import join\nfrom b import x\n"}),
    ("a try", {"shop/calc.py": CALC}, {"a.py": "try:\n    from shop.calc import fast\nexcept ImportError:\n    fast = None\n"}),
    ("what Python has itself", {"types.py": "x = 1\n"}, {"a.py": "from types import ModuleType\n"}),
    ("what somebody else has", {"shop/calc.py": CALC}, {"a.py": "from flask import Flask\nfrom shop.calc import __doc__\n"}),
    ("every way to have a name", {"b.py": "import os as o, a.b\nif o:\n    x = 1\nelse:\n    (y, [z]) = 1, [2]\nfor i in x: pass\n"
     "with x as w: pass\ntry: pass\nexcept E as e: p = 1\ndef f():\n    global g\n    g = 1\nq: int = 1\nmatch x:\n    case [m, *r]: pass\n"},
     {"c.py": "from b import o, a, x, y, z, i, w, p, f, g, q, m, r\n"}),
    ("all of another file", {"a.ts": "export * from './b';\n"}, {"c.ts": "import { x } from './a';\n"}),
    ("parts of a value", {"a.ts": "export const { x, y } = f();\nexport declare const z: number;\n"}, {"c.ts": "import { x, z } from './a';\n"}),
    ("other files", {"a.css": ".x {}\n", "b.json": "{}\n"}, {"c.ts": "import a from './a.css';\nimport b from './b.json';\nimport d from './D.vue';\n"}),
    ("an ending of the other language", {"a.ts": "export enum E { A }\nexport type T = 1;\nexport abstract class C {}\nexport async function* f() {}\n"},
     {"c.ts": "import { E, C, f, type T } from './a.js';\n"}),
    ("what is made together", {"a.js": "module.exports = require('x');\n", "b.js": "exports[name] = 1;\n", "d.js": "module.exports = { ...x };\n"},
     {"c.js": "const { x } = require('./a'), y = 1;\nconst { z } = require('./b');\nconst { w } = require('./d');\nimport d from './d.js';\n"}),
    ("a compiled module", {"shop/__init__.py": "", "shop/fast.cpython-311.so": ""}, {"a.py": "from shop import fast\n"}),
    ("a module that replaces itself", {"a.py": "import sys\nsys.modules[__name__] = x\n"}, {"b.py": "from a import y\n"}),
    ("types beside a script", {"a.js": "export const x = 1;\n", "a.d.ts": "export type T = 1;\n"},
     {"b.ts": "import { type T } from './a.js';\nimport { type T as U } from './a';\n"}),
    ("no syntax", {"a.py": "def (:\n", "a.ts": "export const = {{{\n"}, {"c.py": "from a import x\n"}),
]  # fmt: skip


async def outline(path: str, content: bytes) -> Mapping[str, Any]:
    return grammars.outline(path, content)


def found_in(root: Path, files: dict[str, str], change: dict[str, str | None]) -> list[tuple[str, int]]:
    put(root, files)
    names = BrokenNames(Files(policy(root, home=Path("/nowhere"))), outline)
    put(root, change)
    names.first.update({path: files[path].encode() if path in files else None for path in change})
    found = asyncio.run(names.broken([*change], frozenset()))
    return [(path, each.line) for path, findings in found.items() for each in findings]


def put(root: Path, files: Mapping[str, str | None]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).unlink(missing_ok=True)
        if text is not None:
            (root / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("files", "change", "broken"), [each[1:] for each in BROKEN], ids=[each[0] for each in BROKEN]
)
def test_what_a_change_broke_is_found(
    tmp_path: Path, files: dict[str, str], change: dict[str, str | None], broken: list[tuple[str, int]]
) -> None:
    assert found_in(tmp_path, files, change) == broken


@pytest.mark.parametrize(("files", "change"), [each[1:] for each in FINE], ids=[each[0] for each in FINE])
def test_what_is_right_or_cannot_be_known_is_left_alone(
    tmp_path: Path, files: dict[str, str], change: dict[str, str | None]
) -> None:
    assert found_in(tmp_path, files, change) == []


def test_an_importer_is_told_until_it_is_mended_whichever_file_that_is(tmp_path: Path) -> None:
    files = {"shop/calc.py": CALC, "shop/desk.py": DESK, "shop/far.py": DESK}
    stage = staged(
        tmp_path,
        files,
        shell("sed -i s/total/total_of/ shop/calc.py"),
        shell("sed -i s/total/total_of/ shop/desk.py"),
        shell("echo total = total_of >> shop/calc.py"),
        "Done.",
    )
    stage.run("Go", config=configured(tmp_path), mode="auto")
    (note,) = notes(stage)
    assert "shop/desk.py:1: error: `total` is imported from shop/calc.py, which has no such name" in note
    assert "shop/far.py:1: error" in note
    standing = [
        {file.path: len(file.findings) for file in event.files if "names" in file.by}
        for event in stage.events(ChangesChecked)
    ]
    assert standing == [
        {"shop/desk.py": 1, "shop/far.py": 1},
        {"shop/desk.py": 0, "shop/far.py": 1},
        {"shop/far.py": 0},
    ]
