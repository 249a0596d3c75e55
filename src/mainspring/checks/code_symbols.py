"""What a source file defines, uses, imports and says about itself, read from its syntax tree. Like `grammars`
which loads it by its path, it imports nothing of mainspring and runs confined; so it may meet any file.

Nothing is resolved: a use is a name and its lines. Trees are gone through without recursion.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NamedTuple

MAX_SYMBOLS = 4000
MAX_NAMES = 6000
_MAX_LINES = 60
_MAX_TEXT = 200
_MAX_DOC = 1200
_MAX_IMPORTS = 400
_MINIFIED = 400
"""Bytes of a line on average from which nobody has written a file by hand."""

_KINDS = {
    **dict.fromkeys(("function_definition", "function_declaration", "function_item"), "function"),
    **dict.fromkeys(("generator_function_declaration", "function_signature"), "function"),
    **dict.fromkeys(("method_definition", "method_declaration", "method", "singleton_method"), "method"),
    **dict.fromkeys(("constructor_declaration", "method_signature", "function_signature_item"), "method"),
    **dict.fromkeys(("class_definition", "class_declaration", "class_specifier", "class"), "class"),
    **dict.fromkeys(("abstract_class_declaration", "record_declaration"), "class"),
    **dict.fromkeys(("interface_declaration", "trait_item", "annotation_type_declaration"), "interface"),
    **dict.fromkeys(("struct_item", "struct_specifier", "union_item", "union_specifier"), "struct"),
    **dict.fromkeys(("enum_item", "enum_specifier", "enum_declaration"), "enum"),
    **dict.fromkeys(("type_alias_declaration", "type_item", "type_spec", "type_definition"), "type"),
    **dict.fromkeys(("mod_item", "module", "namespace_definition", "internal_module"), "module"),
    **dict.fromkeys(("const_item", "static_item", "const_spec", "preproc_def"), "constant"),
    **dict.fromkeys(("macro_definition", "preproc_function_def"), "macro"),
}
_ONLY_WITH_BODY = frozenset(("struct_specifier", "union_specifier", "enum_specifier", "class_specifier"))
_VARIABLES = frozenset(("assignment", "variable_declarator", "var_spec"))
_CONTAINERS = frozenset(("class", "interface", "struct", "enum"))
_CALLABLE = frozenset(("arrow_function", "function_expression", "function", "class"))
_STRINGS = frozenset(
    (
        *("string_content", "string_fragment", "string_literal", "raw_string_literal", "raw_string"),
        *("interpreted_string_literal", "char_literal", "heredoc_body", "regex_pattern", "escape_sequence"),
    )
)
_COMMENTS = frozenset(("comment", "line_comment", "block_comment"))
_IMPORTS = frozenset(
    (
        *("import_statement", "import_from_statement", "future_import_statement", "import_declaration"),
        *("use_declaration", "preproc_include", "extern_crate_declaration"),
    )
)
_NAMES = frozenset(("identifier", "constant", "word", "command_name"))
_CALLS = frozenset(("call", "call_expression", "command"))
_SKIPPED, _PLAIN, _NAMING, _TELLING = -1, 0, 1, 2
_LOADERS = (b"require", b"require_relative", b"source", b".", b"import")
_MARKS = "/*!#-;\"' \t"


class _Roles(dict[str, int]):
    """What a node of a kind is to a reader, worked out once for each kind: there are many more nodes."""

    def __missing__(self, kind: str) -> int:
        is_telling = kind in _CALLS or kind in _IMPORTS or kind in _KINDS or kind in _VARIABLES
        if kind in _COMMENTS or kind in _STRINGS:
            role = _SKIPPED
        elif is_telling or kind in ("export_statement", "impl_item"):
            role = _TELLING
        else:
            role = _NAMING if kind in _NAMES or kind.endswith("identifier") else _PLAIN
        self[kind] = role
        return role


_ROLES = _Roles()


class Symbol(NamedTuple):
    name: str
    kind: str
    line: int
    end_line: int
    parent: str
    signature: str
    doc: str


class FileSymbols(NamedTuple):
    """`names` are the lines on which each name stands."""

    symbols: list[Symbol]
    names: dict[str, list[int]]
    imports: list[tuple[int, str]]
    doc: str


def symbols_of(root: Any, content: bytes) -> FileSymbols:
    """From the tree of a file in any language that has a grammar."""
    if _is_minified(content):
        return FileSymbols([], {}, [], "")
    reader, above = _Reader(content), list[tuple[Iterator[Any], Symbol | None]]()
    nodes, inside = iter((root,)), None
    while True:
        for node in nodes:
            role = _ROLES[node.type]
            if role == _SKIPPED:
                continue
            if node.named_child_count:
                above.append((nodes, inside))
                inside = reader.entered(node, inside) if role == _TELLING else inside
                nodes = iter(node.named_children)
                break
            if role == _NAMING:
                reader.add_name(node)
        else:
            if not above:
                return FileSymbols(
                    reader.symbols, reader.lines_of_names(), reader.imports, reader.file_doc(root)
                )
            nodes, inside = above.pop()


def python_symbols(content: bytes) -> FileSymbols:
    """The same of Python by its own parser, for where no grammar is installed; raises `SyntaxError`."""
    tree = ast.parse(content)
    names: dict[str, list[int]] = {}
    imports: list[tuple[int, str]] = []
    lines = content.decode("utf-8", "replace").split("\n")
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, lineno=line) | ast.Attribute(attr=name, lineno=line):
                _add(names, name, line)
            case ast.Import() | ast.ImportFrom() if len(imports) < _MAX_IMPORTS:
                imports.append((node.lineno, _flat(ast.unparse(node))))
                for each in node.names:
                    _add(names, each.name.rpartition(".")[2], node.lineno)
            case _:
                pass
    symbols = list(_python_body(tree.body, None, lines))[:MAX_SYMBOLS]
    for each in symbols:
        _add(names, each.name, each.line)
    return FileSymbols(symbols, names, sorted(imports), (ast.get_docstring(tree) or "")[:_MAX_DOC])


def _python_body(body: list[ast.stmt], inside: Symbol | None, lines: list[str]) -> Iterator[Symbol]:
    parent = _below(inside)
    for item in body:
        match item:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                is_class = isinstance(item, ast.ClassDef)
                usual = "method" if inside and inside.kind == "class" else "function"
                found = Symbol(
                    item.name,
                    "class" if is_class else usual,
                    item.lineno,
                    item.end_lineno or item.lineno,
                    parent,
                    _flat(lines[item.lineno - 1].strip().rstrip(":")),
                    (ast.get_docstring(item) or "")[:_MAX_DOC],
                )
                yield found
                yield from _python_body(item.body, found, lines)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if (
                inside is None or inside.kind == "class"
            ):
                end = item.end_lineno or item.lineno
                kind = "constant" if name.isupper() else "variable"
                yield Symbol(name, kind, item.lineno, end, parent, _flat(lines[item.lineno - 1].strip()), "")
            case _:
                pass


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._starts = _line_starts(content)
        self.symbols: list[Symbol] = []
        self._names: dict[bytes, list[int]] = {}
        self.imports: list[tuple[int, str]] = []

    def add_name(self, node: Any) -> None:
        start = node.start_byte
        name = self._content[start : node.end_byte]
        if (starts := self._names.get(name)) is not None:
            starts.append(start)
        elif len(self._names) < MAX_NAMES and 1 < len(name) <= _MAX_TEXT:
            self._names[name] = [start]

    def lines_of_names(self) -> dict[str, list[int]]:
        lines, found = self._starts, dict[str, list[int]]()
        for name, starts in self._names.items():
            each = dict.fromkeys([bisect_right(lines, start) for start in starts])
            found[name.decode("utf-8", "replace")] = list(each)[:_MAX_LINES]
        return found

    def entered(self, node: Any, inside: Symbol | None) -> Symbol | None:
        """Takes down what a node says; what its children are in."""
        kind = node.type
        is_loading = kind in _CALLS and self._is_loading(node)
        if kind in _IMPORTS or is_loading or (kind == "export_statement" and _source(node)):
            self.add_import(node)
        found = self.symbol(node, inside) if kind in _KINDS or kind in _VARIABLES else None
        return found or (self.implemented(node) if kind == "impl_item" else inside)

    def add_import(self, node: Any) -> None:
        if len(self.imports) < _MAX_IMPORTS:
            text, source = _flat(self._text(node)).rstrip(";"), _source(node)
            if source is not None and text.endswith("…"):
                text += f" from {self._text(source)}"
            self.imports.append((self._line(node.start_byte), text))

    def _is_loading(self, node: Any) -> bool:
        """`require("x")`, `import("x")`, `require 'x'` and `source x`."""
        called = node.children[0]
        return self._content[called.start_byte : called.end_byte] in _LOADERS and node.child_count > 1

    def implemented(self, node: Any) -> Symbol | None:
        """What the methods of Rust's `impl` belong to."""
        kind = node.child_by_field_name("type")
        return Symbol(self._text(kind), "class", 0, 0, "", "", "") if kind else None

    def symbol(self, node: Any, inside: Symbol | None) -> Symbol | None:
        if len(self.symbols) >= MAX_SYMBOLS:
            return None
        name = self._name(node)
        kind = self._variable_kind(node, inside) if node.type in _VARIABLES else _KINDS[node.type]
        body = node.child_by_field_name("body")
        if not (name and kind) or (node.type in _ONLY_WITH_BODY and body is None):
            return None
        if kind == "function" and inside and inside.kind in _CONTAINERS:
            kind = "method"
        found = Symbol(
            self._text(name),
            kind,
            self._line(node.start_byte),
            self._last(node),
            _below(inside),
            self._signature(node, body),
            self._doc(node, body),
        )
        self.symbols.append(found)
        return found if kind not in ("constant", "variable") else None

    def file_doc(self, root: Any) -> str:
        first = next((child for child in root.children if child.is_named), None)
        if first is not None and first.type in _COMMENTS:
            return self._comments(first)
        return self._docstring(root)

    def _variable_kind(self, node: Any, inside: Symbol | None) -> str:
        """Of those of a file or class; what a function keeps for itself is nobody else's."""
        if inside and inside.kind not in _CONTAINERS:
            return ""
        value = node.child_by_field_name("value")
        if value is not None and value.type in _CALLABLE:
            return "class" if value.type == "class" else "function"
        name = self._name(node)
        return "constant" if name is not None and self._text(name).isupper() else "variable"

    def _name(self, node: Any) -> Any:
        found = node.child_by_field_name("name") or node.child_by_field_name("left")
        found = found or node.child_by_field_name("declarator")
        while found is not None and (below := found.child_by_field_name("declarator")) is not None:
            found = below
        while found is not None and found.type == "qualified_identifier":
            found = found.child_by_field_name("name")
        is_name = found is not None and (found.type in _NAMES or found.type.endswith("identifier"))
        return found if is_name or (found is not None and node.type.startswith("preproc")) else None

    def _signature(self, node: Any, body: Any) -> str:
        end = body.start_byte if body is not None else node.end_byte
        text = self._content[node.start_byte : min(end, node.start_byte + 4 * _MAX_TEXT)]
        text = text if body is not None else text.split(b"\n", 1)[0]
        return _flat(text.decode("utf-8", "replace")).rstrip(" {:;=")

    def _doc(self, node: Any, body: Any) -> str:
        if body is not None and (found := self._docstring(body)):
            return found
        at = node
        while at.parent is not None and at.parent.type in ("export_statement", "decorated_definition"):
            at = at.parent
        parts: list[str] = []
        before, line = at.prev_sibling, self._line(at.start_byte)
        while before is not None and before.type in _COMMENTS and self._last(before) >= line - 1:
            parts.append(_unmarked(self._text(before)))
            before, line = before.prev_sibling, self._line(before.start_byte)
        return "\n".join(reversed(parts))[:_MAX_DOC].strip()

    def _docstring(self, body: Any) -> str:
        """Python's: a text that stands first."""
        first = next((child for child in body.children if child.is_named), None)
        if first is None or first.type != "expression_statement" or not first.children:
            return ""
        text = first.children[0]
        return (
            self._text(text).strip("rbuRBU").strip("\"'").strip()[:_MAX_DOC] if text.type == "string" else ""
        )

    def _comments(self, first: Any) -> str:
        parts: list[str] = []
        node, line = first, self._line(first.start_byte)
        while node is not None and node.type in _COMMENTS and self._line(node.start_byte) <= line + 1:
            parts.append(_unmarked(self._text(node)))
            node, line = node.next_sibling, self._last(node)
        return "\n".join(parts)[:_MAX_DOC].strip()

    def _line(self, at: int) -> int:
        # A node's own points are not asked: tree-sitter 0.26 frees their numbers too early.
        return bisect_right(self._starts, at)

    def _last(self, node: Any) -> int:
        return self._line(max(node.start_byte, node.end_byte - 1))

    def _text(self, node: Any) -> str:
        return self._content[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _source(node: Any) -> Any:
    """The file that an import or export of a script names."""
    return node.child_by_field_name("source")


def _line_starts(content: bytes) -> list[int]:
    starts, at = [0], content.find(b"\n")
    while at >= 0:
        starts.append(at + 1)
        at = content.find(b"\n", at + 1)
    return starts


def _below(inside: Symbol | None) -> str:
    if inside is None:
        return ""
    return f"{inside.parent}.{inside.name}" if inside.parent else inside.name


def _add(names: dict[str, list[int]], name: str, line: int) -> None:
    lines = names.get(name)
    if lines is None:
        if len(names) < MAX_NAMES and 1 < len(name) <= _MAX_TEXT:
            names[name] = [line]
    elif lines[-1] != line and len(lines) < _MAX_LINES:
        lines.append(line)


def _flat(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _MAX_TEXT else f"{flat[:_MAX_TEXT]}…"


def _unmarked(comment: str) -> str:
    return "\n".join(line.strip().strip(_MARKS) for line in comment.split("\n"))


def _is_minified(content: bytes) -> bool:
    return len(content) > 20_000 and len(content) / (content.count(b"\n") + 1) > _MINIFIED
