"""Under which names a file of JavaScript or TypeScript gives things to others, read from its tree.

It runs in the process of `grammars`, and like that imports nothing of mainspring.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SCRIPTS = frozenset((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"))
_MAX_FOUND = 2_000

Export = tuple[str, str, int, int]
"""The name for others, the name in the file (empty: none), and the first and last line."""


def exports_of(root: Any, content: bytes) -> list[Export]:
    """What stands at the top of the file alone; all that another file exports (`export *`) is not known."""
    found: list[Export] = []
    for node in root.named_children:
        names: Iterator[tuple[str, str]] = iter(())
        if node.type == "export_statement":
            names = _exported(node, content)
        elif node.type == "expression_statement" and node.named_children:
            names = _assigned(node.named_children[0], content)
        lines = content.count(b"\n", 0, node.start_byte) + 1, content.count(b"\n", 0, node.end_byte) + 1
        found += [(name, local, *lines) for name, local in names]
    return found[:_MAX_FOUND]


def _exported(node: Any, content: bytes) -> Iterator[tuple[str, str]]:
    is_default = any(child.type == "default" for child in node.children)
    is_elsewhere = node.child_by_field_name("source") is not None
    declared = node.child_by_field_name("declaration") or node.child_by_field_name("value")
    if is_default:
        yield "default", _own_name(declared, content) if declared is not None else ""
    elif declared is not None:
        for name in _declared(declared, content):
            yield name, name
    for clause in node.named_children:
        for each in clause.named_children if clause.type == "export_clause" else ():
            name, alias = each.child_by_field_name("name"), each.child_by_field_name("alias")
            if name is not None:
                shown = _text(alias if alias is not None else name, content)
                yield shown, "" if is_elsewhere else _text(name, content)


def _own_name(node: Any, content: bytes) -> str:
    if node.type == "identifier":
        return _text(node, content)
    name = node.child_by_field_name("name")
    return _text(name, content) if name is not None else ""


def _declared(node: Any, content: bytes) -> Iterator[str]:
    if name := _own_name(node, content):
        yield name
    for child in node.named_children:
        if child.type == "variable_declarator" and (name := _own_name(child, content)):
            yield name


def _assigned(node: Any, content: bytes) -> Iterator[tuple[str, str]]:
    """`module.exports = …` and `exports.name = …`."""
    if node.type != "assignment_expression":
        return
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    target = "".join(_text(left, content).split())
    if target == "module.exports" and right.type == "object":
        for each in right.named_children:
            yield from _of_object(each, content)
    elif target == "module.exports":
        yield "default", _own_name(right, content)
    elif target.startswith(("module.exports.", "exports.")):
        yield target.rpartition(".")[2], _own_name(right, content)


def _of_object(node: Any, content: bytes) -> Iterator[tuple[str, str]]:
    if node.type == "shorthand_property_identifier":
        yield _text(node, content), _text(node, content)
    elif node.type == "method_definition":
        yield _own_name(node, content), ""
    elif node.type == "pair":
        key, value = node.child_by_field_name("key"), node.child_by_field_name("value")
        yield _text(key, content).strip("\"'"), _own_name(value, content)


def _text(node: Any, content: bytes) -> str:
    return content[node.start_byte : node.end_byte].decode("utf-8", "replace")
