"""Markdown as a tree of known nodes. What is not known is shown as its text; there is no HTML in it anywhere.

A node is a text, or a list of its name, its attributes and its children. The page makes elements of the
names that it knows, so nothing that a model writes becomes code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

Node = str | list[Any]
_MAX_CHARS = 200_000
_MAX_DEPTH = 60
_PLAIN = {
    "paragraph": "p",
    "bullet_list": "ul",
    "list_item": "li",
    "blockquote": "blockquote",
    "strong": "strong",
    "em": "em",
    "s": "s",
    "table": "table",
    "thead": "thead",
    "tbody": "tbody",
    "tr": "tr",
    "th": "th",
    "td": "td",
}
_SCHEMES = ("http", "https", "mailto")


def tree_of(text: str) -> list[Node]:
    """The nodes of a text."""
    root = SyntaxTreeNode(_parser().parse(text[:_MAX_CHARS]))
    nodes = list(_nodes(root, 0))
    if len(text) > _MAX_CHARS:
        nodes.append(["p", {}, [f"({len(text) - _MAX_CHARS:,} further characters are not shown)"]])
    return nodes


@cache
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def _nodes(parent: SyntaxTreeNode, depth: int) -> Iterator[Node]:
    for child in parent.children:
        yield from _node(child, depth + 1)


def _node(node: SyntaxTreeNode, depth: int) -> Iterator[Node]:
    if depth > _MAX_DEPTH:
        yield node.content
    elif leaf := _LEAVES.get(node.type):
        yield leaf(node)
    elif node.type == "link":
        yield from _link(node, depth)
    elif shown := _shown(node):
        name, attributes = shown
        yield [name, attributes, list(_nodes(node, depth))]
    elif node.children:
        yield from _nodes(node, depth)
    else:
        yield node.content


def _shown(node: SyntaxTreeNode) -> tuple[str, dict[str, int]] | None:
    """The name and the attributes of a node with others in it."""
    match node.type:
        case "heading":
            return "h", {"level": int(node.tag[1])}
        case "ordered_list":
            return "ol", {"start": int(node.attrs.get("start", 1))}
        case name:
            return (_PLAIN[name], {}) if name in _PLAIN else None


def _code(node: SyntaxTreeNode) -> Node:
    language = (node.info.split() or [""])[0] if node.type == "fence" else ""
    return ["pre", {"language": language[:30]}, [node.content]]


def _image(node: SyntaxTreeNode) -> Node:
    """Nothing is fetched from elsewhere: its name, and where it would be."""
    return ["code", {}, [f"{node.content or 'image'} ({node.attrs.get('src', '')})"]]


_LEAVES: dict[str, Callable[[SyntaxTreeNode], Node]] = {
    "text": lambda node: node.content,
    "softbreak": lambda _: "\n",
    "hardbreak": lambda _: ["br", {}, []],
    "hr": lambda _: ["hr", {}, []],
    "code_inline": lambda node: ["code", {}, [node.content]],
    "fence": _code,
    "code_block": _code,
    "image": _image,
}


def _link(node: SyntaxTreeNode, depth: int) -> Iterator[Node]:
    target = str(node.attrs.get("href", ""))
    try:
        is_known = urlsplit(target).scheme.lower() in _SCHEMES
    except ValueError:
        is_known = False
    inside = list(_nodes(node, depth))
    if is_known:
        yield ["a", {"href": target}, inside]
    else:
        yield from inside
        yield f" ({target})"
