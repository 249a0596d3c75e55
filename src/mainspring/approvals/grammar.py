"""What the grammar of bash makes of a text, and where it cannot be believed.

The grammar accepts more than a shell does and splits some words elsewhere. Every byte and every gap is
checked: where the two could disagree, the text counts as unreadable, never as harmless.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from mainspring.approvals.wrappers import Word

_LANGUAGE = Language(tree_sitter_bash.language())
_MAX_BYTES = 64 * 1024
_MAX_PIPES = 1000  # the grammar takes seconds for some thousands of them in one line
# Characters on whose meaning the grammar and bash disagree: they make a text unreadable, not harmless.
_AMBIGUOUS = re.compile(
    r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f\ufeff\ud800-\udfff]|\S\\\n|(?:\A|\n)[ \t]*\\\n"
    r"|\$(?=[\s;&|<>]|\Z)|`\s*`"
)
_STATIC_PIECES = frozenset({"word", "number", "variable_name", "special_variable_name", "test_operator"})
COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
WORDS = _STATIC_PIECES | {
    "concatenation",
    "string",
    "raw_string",
    "ansi_c_string",
    "simple_expansion",
    "expansion",
}
_BRACES = re.compile(r"\{[^}]*(,|\.\.)|[,.]\.?[^{]*\}")
_GLOB = re.compile(r"[*?\[]|[@!+]\(")


def parse(source: str) -> tuple[Node | None, str]:
    """The tree of a text as far as there is one, and why it cannot be believed."""
    encoded = source.encode("utf-8", "surrogatepass")
    if len(encoded) > _MAX_BYTES or source.count("|") > _MAX_PIPES:
        return None, "it is too long to be read"
    if _AMBIGUOUS.search(source):
        return None, "it contains characters that shells read in different ways"
    root = Parser(_LANGUAGE).parse(encoded).root_node
    if root.has_error or encoded[: root.start_byte].strip(b" \t\n"):
        return root, "it cannot be parsed"
    return root, ""


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def has_lone_dash(node: Node) -> bool:
    """Whether the grammar lost the `-` of `python - <<END`, which it does between a command and a heredoc."""
    if node.type != "redirected_statement" or node.child_count < 2 or node.children[0].type != "command":
        return False
    body, redirect = node.children[0], node.children[1]
    gap = (node.text or b"")[body.end_byte - node.start_byte : redirect.start_byte - node.start_byte]
    return redirect.type == "heredoc_redirect" and gap.strip(b" \t") == b"-" and gap[:1] in b" \t"


def is_faithful(node: Node) -> bool:
    """Whether the grammar accounts for every byte here, and splits words only where a shell does."""
    if not node.child_count or node.type in ("string", "heredoc_body"):
        return node.type not in ("word", "number") or not re.search(r"(?<!\\)[ \t\n;&|<>()`]", text_of(node))
    raw, position = node.text or b"", 0
    previous: Node | None = None
    for child in node.children:
        gap = raw[position : child.start_byte - node.start_byte].replace(b"\\\n", b" ")
        blank = b" \t" if node.type in COMMANDS else b" \t\n"
        if (gap.strip(blank) and not (has_lone_dash(node) and previous == node.children[0])) or (
            not gap and previous is not None and _must_be_apart(node, previous, child)
        ):
            return False
        position, previous = child.end_byte - node.start_byte, child
    return not raw[position:].replace(b"\\\n", b" ").strip(b" \t\n")


def _must_be_apart(parent: Node, left: Node, right: Node) -> bool:
    if parent.type == "negated_command":
        return left.type == "!"
    if parent.type in ("test_command", "compound_statement"):
        return left.type in ("[", "[[", "{")
    if parent.type in COMMANDS:
        return right.type not in ("file_redirect", "herestring_redirect")
    if parent.type in ("file_redirect", "heredoc_redirect"):
        return left.is_named and left.type != "file_descriptor" and right.type in WORDS
    return False


def word_of(node: Node) -> Word:
    """The value of a word, as far as it is known before it runs."""
    if node.type == "command_name" and node.named_child_count:
        node = node.named_children[0]
    pieces = list(_pieces(node))
    text = "".join(text for text, _ in pieces)
    bare = "".join(text if kind == "bare" else "\0" for text, kind in pieces)
    is_static = not any(kind == "dynamic" for _, kind in pieces) and not _BRACES.search(bare)
    return Word(text, is_static=is_static, is_glob=bool(_GLOB.search(bare)))


def _pieces(node: Node) -> Iterator[tuple[str, str]]:
    """Parts of a word, each `bare`, `quoted` or `dynamic`."""
    text = text_of(node)
    if node.type in _STATIC_PIECES or not node.is_named:
        for part in re.findall(r"\\\n|\\.|[^\\]+|\\", text, re.DOTALL):
            if part.startswith("\\") and len(part) > 1:
                yield ("" if part == "\\\n" else part[1:]), "quoted"
            else:
                yield part, "dynamic" if "$" in part else "bare"
    elif node.type == "raw_string":
        yield text[1:-1], "quoted"
    elif node.type == "string":
        yield from _string_pieces(node)
    elif node.type == "concatenation":
        end = node.start_byte
        for child in node.children:
            if child.start_byte != end:
                yield "", "dynamic"
            end = child.end_byte
            yield from _pieces(child)
    else:
        yield text, "dynamic"


def _string_pieces(node: Node) -> Iterator[tuple[str, str]]:
    raw = node.text or b""
    position = 1
    for child in node.children:
        if child.type in ('"', "string_content"):
            continue
        start = child.start_byte - node.start_byte
        yield _unescaped(raw[position:start]), "quoted"
        yield text_of(child), "dynamic"
        position = child.end_byte - node.start_byte
    yield _unescaped(raw[position:-1]), "quoted"


def _unescaped(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return re.sub(r'\\([$`"\\\n])', lambda found: found[1].replace("\n", ""), text)
