"""What a file defines, read from the tree that its grammar gives: functions, classes and methods with their
parameters, what its own comments say of them, and marks such as TODO. Nothing here is guessed.

It runs in the process of `grammars`, and like that imports nothing of mainspring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_CLASSES = {
    **dict.fromkeys(("class_definition", "class_declaration", "class_specifier", "class"), "class"),
    **dict.fromkeys(("abstract_class_declaration", "record_declaration"), "class"),
    **dict.fromkeys(("interface_declaration", "trait_item"), "interface"),
    **dict.fromkeys(("enum_declaration", "enum_specifier", "enum_item"), "enum"),
    **dict.fromkeys(("struct_specifier", "struct_item"), "struct"),
    **dict.fromkeys(("module", "mod_item"), "module"),
    **dict.fromkeys(("type_alias_declaration", "type_item", "type_spec", "union_specifier"), "type"),
}
_FUNCTIONS = {
    **dict.fromkeys(("function_definition", "function_declaration", "function_item"), "function"),
    **dict.fromkeys(("generator_function_declaration", "function_signature_item"), "function"),
    **dict.fromkeys(("method_definition", "method_declaration", "method_signature"), "method"),
    **dict.fromkeys(("constructor_declaration", "method", "singleton_method"), "method"),
    "macro_definition": "macro",
}
_AROUND = frozenset(
    (
        *("export_statement", "decorated_definition", "template_declaration", "namespace_definition"),
        *("declaration_list", "class_body", "block", "field_declaration_list", "body_statement"),
        *("interface_body", "enum_body", "enum_body_declarations", "lexical_declaration", "program"),
        *("variable_declaration", "type_declaration", "linkage_specification", "impl_item", "preproc_ifdef"),
        *("preproc_if", "ambient_declaration", "internal_module", "statement_block"),
    )
)
"""What stands around definitions, beside classes and modules: these are gone into."""
_VALUES = ("arrow_function", "function_expression", "function", "generator_function")
_PROTOTYPES = ("declaration", "field_declaration")
_NAMES = frozenset(
    (
        *("identifier", "field_identifier", "qualified_identifier", "destructor_name", "operator_name"),
        *("type_identifier", "property_identifier", "shorthand_property_identifier_pattern", "constant"),
        "simple_identifier",
    )
)
_MARK = re.compile(r"\b(TODO|FIXME|XXX|HACK|BUG)\b\W*(.*)")
_COMMENT_EDGE = re.compile(r"^\s*(?:///?!?|/\*+!?|\*+/|\*(?!/)|#+!?|--)\s?|\s*\*+/\s*$")
_MAX_DEPTH = 12
_MAX_FOUND = 2_000
_MAX_SIGNATURE = 300
_MAX_DOC = 500
_MAX_MARK = 160


def outline_of(root: Any, content: bytes, suffix: str) -> dict[str, Any]:
    """The definitions of a file in their order, its marks, and whether parts of it could not be read."""
    found = [*_definitions(root, content, suffix, "", 0)][:_MAX_FOUND]
    return {"definitions": found, "marks": [*_marks(root, content)], "is_broken": bool(root.has_error)}


def _definitions(node: Any, content: bytes, suffix: str, above: str, depth: int) -> Iterator[dict[str, Any]]:
    for child in node.named_children if depth < _MAX_DEPTH else ():
        kind = _CLASSES.get(child.type) or _FUNCTIONS.get(child.type)
        if child.type == "variable_declarator" and (function := _valued(child)):
            yield _definition(child, function, content, suffix, "function", above)
        elif child.type in _PROTOTYPES and (declared := _inner(child, "function_declarator")):
            yield _definition(child, declared, content, suffix, "function", above)
        elif kind is None or (child.type.endswith("_specifier") and _body(child) is None):
            if child.type in _AROUND:
                yield from _definitions(
                    child, content, suffix, above or _implemented(child, content), depth + 1
                )
        elif name := _name(child, content):
            inside = above or _receiver(child, content)
            yield _definition(child, child, content, suffix, kind, inside)
            body = _body(child) if child.type in _CLASSES else None
            if body is not None:
                whole = f"{inside}.{name}" if inside else name
                yield from _definitions(body, content, suffix, whole, depth + 1)


def _definition(
    node: Any, function: Any, content: bytes, suffix: str, kind: str, above: str
) -> dict[str, Any]:
    """`node` is what stands in the file, `function` the part of it that has parameters and a body."""
    name, outer = _name(node, content), node
    while outer.parent is not None and outer.parent.type in _AROUND_ONE:
        outer = outer.parent
    declared = _inner(node, "function_declarator") if function.type == "function_definition" else None
    kind = "method" if kind == "function" and _is_member(node) else kind
    given = (declared or function).child_by_field_name("parameters")
    return {
        "name": f"{above}.{name}" if above else name,
        "kind": kind,
        "signature": _signature(node, function, content),
        "parameters": [*_parameters(given, content)] if given is not None else [],
        "line": _row(content, node.start_byte) + 1,
        "last_line": _row(content, node.end_byte) + 1,
        "doc": _doc(outer, function, content, suffix),
        "is_public": _is_public(node, name, content, suffix, above),
    }


_AROUND_ONE = frozenset(
    (
        *("export_statement", "decorated_definition", "template_declaration", "lexical_declaration"),
        *("variable_declaration", "type_declaration"),
    )
)
"""What stands around one definition: comments about it stand before this."""


def _is_member(node: Any) -> bool:
    while (node := node.parent) is not None:
        if node.type == "impl_item" or _CLASSES.get(node.type, "module") != "module":
            return True
    return False


def _valued(node: Any) -> Any:
    """The function that a constant is."""
    value = node.child_by_field_name("value")
    return value if value is not None and value.type in _VALUES else None


def _body(node: Any) -> Any:
    body = node.child_by_field_name("body")
    if body is not None:
        return body
    return next((each for each in node.children if each.type == "body_statement"), None)


def _inner(node: Any, kind: str) -> Any:
    """The declarator of this kind below a declaration, through pointers and references."""
    for _ in range(_MAX_DEPTH):
        if node is None or node.type == kind:
            return node
        below = ("function_declarator", "reference_declarator")
        node = node.child_by_field_name("declarator") or next(
            (each for each in node.named_children if each.type in below), None
        )
    return None


def _name(node: Any, content: bytes) -> str:
    found = node.child_by_field_name("name")
    if found is None:
        declared = _inner(node, "function_declarator")
        found = declared.child_by_field_name("declarator") if declared is not None else None
    return _text(found, content) if found is not None else ""


def _implemented(node: Any, content: bytes) -> str:
    """The type that a block of Rust is about, or the name of a namespace."""
    field = {"impl_item": "type", "namespace_definition": "name", "internal_module": "name"}.get(node.type)
    found = node.child_by_field_name(field) if field else None
    return _text(found, content).partition("<")[0] if found is not None else ""


def _receiver(node: Any, content: bytes) -> str:
    """The type that a method of Go belongs to."""
    found = node.child_by_field_name("receiver")
    words = re.findall(r"\w+", _text(found, content)) if found is not None else []
    return words[1] if len(words) > 1 else words[0] if words else ""


def _signature(node: Any, function: Any, content: bytes) -> str:
    body = _body(function)
    if body is None:
        first = _text(node, content).partition("\n")[0]
        return first.partition("{")[0].strip().rstrip(";").strip()[:_MAX_SIGNATURE]
    end = min([body.start_byte, *(each.start_byte for each in function.children if "comment" in each.type)])
    text = content[node.start_byte : end].decode("utf-8", "replace")
    flat = " ".join(text.split()).removesuffix("=>").rstrip().rstrip(":{=").rstrip()
    return flat[:_MAX_SIGNATURE]


def _parameters(given: Any, content: bytes) -> Iterator[dict[str, str]]:
    for child in given.named_children:
        if "comment" in child.type or child.type in ("block", "keyword_separator", "positional_separator"):
            continue
        text = " ".join(_text(child, content).split())
        if text == "void":
            continue
        named = child.children_by_field_name("name") or [_first_name(child)]
        for each in named:
            yield {"name": _text(each, content) if each is not None else text, "text": text}


def _first_name(node: Any) -> Any:
    """The name of a parameter, which stands where its language puts it."""
    for field in ("pattern", "declarator"):
        below = node.child_by_field_name(field)
        if below is not None:
            return _first_name(below)
    if node.type in _NAMES or node.type == "self_parameter":
        return node
    return next((found for each in node.named_children if (found := _first_name(each)) is not None), None)


def _doc(outer: Any, function: Any, content: bytes, suffix: str) -> str:
    if suffix in (".py", ".pyi"):
        return _docstring(_body(function), content)
    lines: list[str] = []
    row, before = _row(content, outer.start_byte), outer.prev_sibling
    if before is None and outer.parent is not None and outer.parent.type == "body_statement":
        before = outer.parent.prev_sibling
    while before is not None and (before.type == "attribute_item" or "comment" in before.type):
        # Some comments hold their line break.
        end = before.end_byte - (content[before.end_byte - 1 : before.end_byte] == b"\n")
        if _row(content, end) < row - 1:
            break
        if "comment" in before.type:
            lines = [_COMMENT_EDGE.sub("", line) for line in _text(before, content).splitlines()] + lines
        row, before = _row(content, before.start_byte), before.prev_sibling
    return _paragraph("\n".join(lines))


def _docstring(body: Any, content: bytes) -> str:
    first = body.named_children[0] if body is not None and body.named_children else None
    text = first.named_children[0] if first is not None and first.type == "expression_statement" else first
    if text is None or text.type != "string":
        return ""
    inner = next((each for each in text.named_children if each.type == "string_content"), None)
    return _paragraph(_text(inner, content)) if inner is not None else ""


def _paragraph(text: str) -> str:
    """The first paragraph in one line."""
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    flat = " ".join(first.split())
    return "" if _MARK.match(flat) else flat[:_MAX_DOC]


def _is_public(node: Any, name: str, content: bytes, suffix: str, above: str) -> bool:
    last = re.split(r"[.:]+", name)[-1]
    if suffix == ".go":
        return last[:1].isupper()
    words = {each.type: _text(each, content) for each in node.children}
    if suffix == ".rs":
        return "visibility_modifier" in words or (bool(above) and node.type == "function_signature_item")
    if "private" in words.get("modifiers", "") or words.get("accessibility_modifier") == "private":
        return False
    if words.get("storage_class_specifier") == "static" and not above:
        return False
    is_dunder = last.startswith("__") and last.endswith("__")
    return not last.startswith(("_", "#")) or (is_dunder and last == "__init__")


def _marks(root: Any, content: bytes) -> Iterator[tuple[int, str]]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if "comment" in node.type:
            for number, line in enumerate(_text(node, content).splitlines(), start=1):
                if found := _MARK.search(line):
                    said = _COMMENT_EDGE.sub("", found[0]).strip()
                    yield _row(content, node.start_byte) + number, said[:_MAX_MARK]
        else:
            waiting += reversed(node.children)


def _row(content: bytes, at: int) -> int:
    """The row of a place, from 0. Reading many points of tree-sitter 0.26.0 crashes it."""
    return content.count(b"\n", 0, at)


def _text(node: Any, content: bytes) -> str:
    return content[node.start_byte : node.end_byte].decode("utf-8", "replace")
