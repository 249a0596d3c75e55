"""Which commands a line of bash would run: every simple command in it, wherever it hides.

Pipelines, lists, subshells, substitutions, heredocs, functions, loops and redirections are all walked; what
runs another command (`env`, `sudo`, `bash -c`, `xargs`, …) is looked through (see `wrappers`). Nothing is
guessed: text that cannot be parsed, a construct that is not known here, or a program whose name is only known
when it runs is reported in `Script.opaque`, and whoever judges must ask. Pure, and it never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from mainspring.approvals.wrappers import SHELLS, Inner, Word, look_through

_LANGUAGE = Language(tree_sitter_bash.language())
_MAX_BYTES = 64 * 1024
_MAX_DEPTH = 60
_MAX_COMMANDS = 500

# Characters on whose meaning the grammar and bash disagree: they make a text unreadable, not harmless.
_AMBIGUOUS = re.compile(
    r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f\ufeff\ud800-\udfff]|\S\\\n|(?:\A|\n)[ \t]*\\\n|\$(?=[\s;&|<>]|\Z)"
)
_RESERVED = frozenset(
    {"!", "{", "}", "then", "do", "done", "fi", "esac", "elif", "else", "if", "while", "until"}
)

_CONTAINERS = frozenset(
    {
        "program", "list", "subshell", "compound_statement", "if_statement", "elif_clause", "else_clause",
        "for_statement", "do_group", "c_style_for_statement", "while_statement", "case_statement",
        "case_item",
        "function_definition", "negated_command", "test_command", "command_substitution",
        "process_substitution", "arithmetic_expansion", "expansion", "simple_expansion", "string",
        "translated_string", "concatenation", "array", "subscript", "binary_expression", "unary_expression",
        "ternary_expression", "postfix_expression", "parenthesized_expression", "brace_expression",
        "variable_assignments", "heredoc_body", "command_name",
        "herestring_redirect", "heredoc_redirect",
    }
)  # fmt: skip
_LEAVES = frozenset(
    {
        "word", "number", "raw_string", "ansi_c_string", "regex", "comment", "variable_name",
        "special_variable_name", "string_content", "heredoc_start", "heredoc_content", "heredoc_end",
        "file_descriptor", "test_operator", "extglob_pattern",
    }
)  # fmt: skip
_STATIC_PIECES = frozenset({"word", "number", "variable_name", "special_variable_name", "test_operator"})
_COMMANDS = frozenset({"command", "declaration_command", "unset_command"})
_WORDS = _STATIC_PIECES | {
    "concatenation",
    "string",
    "raw_string",
    "ansi_c_string",
    "simple_expansion",
    "expansion",
}
_BRACES = re.compile(r"\{[^}]*(,|\.\.)|[,.]\.?[^{]*\}")
_GLOB = re.compile(r"[*?\[]|[@!+]\(")
_FREE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})


class Redirect(msgspec.Struct, frozen=True):
    """A file that a redirection opens."""

    operator: str
    target: Word

    @property
    def is_write(self) -> bool:
        return self.operator != "<"


class Simple(msgspec.Struct, frozen=True, kw_only=True):
    """One command as it would be executed.

    `via` are the commands it was found inside of, outermost first; `upstream` are the programs whose output
    is piped into it; `stdin` is the text of a heredoc or here-string.
    """

    argv: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    via: tuple[tuple[Word, ...], ...] = ()
    upstream: tuple[str, ...] = ()
    stdin: Word | None = None

    @property
    def text(self) -> str:
        words = [f"{name}={value.text}" for name, value in self.assignments]
        return " ".join([*words, *(word.text for word in self.argv)])


class Script(msgspec.Struct, frozen=True):
    """All that a line would run and open, and why some of it cannot be known."""

    commands: tuple[Simple, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    opaque: tuple[str, ...] = ()


def read(source: str) -> Script:
    """Takes a line or a whole script of bash apart."""
    reader = _Reader()
    reader.source(source, via=(), upstream=(), depth=0)
    return Script(tuple(reader.commands), tuple(reader.redirects), tuple(dict.fromkeys(reader.opaque)))


class _Within(msgspec.Struct, frozen=True):
    """What is known about the place of a node."""

    via: tuple[tuple[Word, ...], ...]
    upstream: tuple[str, ...]
    depth: int


class _Reader:
    def __init__(self) -> None:
        self.commands: list[Simple] = []
        self.redirects: list[Redirect] = []
        self.opaque: list[str] = []

    def source(
        self, text: str, *, via: tuple[tuple[Word, ...], ...], upstream: tuple[str, ...], depth: int
    ) -> None:
        encoded = text.encode("utf-8", "surrogatepass")
        if len(encoded) > _MAX_BYTES:
            self.opaque.append("it is too long to be read")
        elif _AMBIGUOUS.search(text):
            self.opaque.append("it contains characters that shells read in different ways")
        else:
            root = Parser(_LANGUAGE).parse(encoded).root_node
            if root.has_error or encoded[: root.start_byte].strip(b" \t\n"):
                self.opaque.append("it cannot be parsed")
            self.walk(root, _Within(via, upstream, depth))

    def walk(self, node: Node, within: _Within) -> None:
        if self.is_full(within):
            return
        within = msgspec.structs.replace(within, depth=within.depth + 1)
        self.check(node)
        match node.type:
            case kind if kind in _COMMANDS:
                self.command(node, within, extra=(), stdin=None)
            case "variable_assignment":
                self.name_of(node)
                self.inside(node, within)
                self.add(Simple(argv=(), assignments=(_assignment(node),), via=within.via), within)
            case "pipeline":
                self.pipeline(node, within)
            case "redirected_statement":
                self.redirected(node, within)
            case "file_redirect":
                self.redirect(node, within)
            case kind if kind in _CONTAINERS:
                self.container(node, within)
            case kind if kind not in _LEAVES and node.is_named:
                self.opaque.append(f"it contains something unknown ({kind.lower()})")
            case _:
                pass

    def check(self, node: Node) -> None:
        if not _is_faithful(node):
            self.opaque.append("the parser does not read it as a shell would")

    def is_full(self, within: _Within) -> bool:
        if within.depth <= _MAX_DEPTH and len(self.commands) <= _MAX_COMMANDS:
            return False
        self.opaque.append("it is nested or repeated too deeply")
        return True

    def inside(self, node: Node, within: _Within) -> None:
        for child in node.children:
            self.walk(child, within)

    def name_of(self, assignment: Node) -> None:
        if not re.match(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=", _text(assignment)):
            self.opaque.append("it contains an assignment that a shell would run as a command")

    def container(self, node: Node, within: _Within) -> None:
        text = _text(node)
        if node.type == "expansion" and "@P" in text:
            self.opaque.append("it expands a variable as a prompt, which can run commands")
        if node.type == "function_definition" and _is_fork_bomb(text):
            self.opaque.append("it starts itself again and again")
        self.inside(node, within)

    def pipeline(self, node: Node, within: _Within) -> None:
        for child in node.children:
            before = len(self.commands)
            self.walk(child, within)
            fed = tuple(name for simple in self.commands[before:] for name in _names(simple))
            within = msgspec.structs.replace(within, upstream=within.upstream + fed)

    def redirected(self, node: Node, within: _Within) -> None:
        body, redirects = node.children[0], node.children[1:]
        extra = tuple(word for redirect in redirects for word in _stray_words(redirect))
        stdin = next((found for redirect in redirects if (found := _stdin(redirect)) is not None), None)
        before = len(self.commands)
        if body.type == "command":
            self.check(body)
            self.command(body, within, extra=tuple(_word(word) for word in extra), stdin=stdin)
        else:
            self.walk(body, within)
            feeds_shell = any(
                simple.argv and simple.argv[0].program in SHELLS for simple in self.commands[before:]
            )
            if extra or (stdin is not None and feeds_shell):
                self.opaque.append("it gives input or arguments to a whole group of commands")
        fed = tuple(name for simple in self.commands[before:] for name in _names(simple))
        for redirect in redirects:
            self.walk(redirect, msgspec.structs.replace(within, upstream=within.upstream + fed))

    def redirect(self, node: Node, within: _Within) -> None:
        operator = next((_text(child) for child in node.children if not child.is_named), "")
        targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        self.inside(node, within)
        if not targets or targets[0].type == "process_substitution":
            return
        target = _word(targets[0])
        descriptor = next((_text(child) for child in node.children if child.type == "file_descriptor"), "1")
        is_odd = operator in (">&", "<&") and target.text.startswith("-") and target.text != "-"
        if is_odd or not re.fullmatch(r"\d+|\{\w+\}", descriptor):
            self.opaque.append("it contains a redirection that a shell reads differently")
        is_descriptor = operator in (">&", "<&") and target.is_static and target.text.rstrip("-").isdigit()
        if not is_descriptor and not (target.is_static and target.text in _FREE_TARGETS):
            self.redirects.append(Redirect("<" if operator in ("<", "<&") else ">", target))

    def command(self, node: Node, within: _Within, *, extra: tuple[Word, ...], stdin: Word | None) -> None:
        argv: list[Word] = []
        assignments: list[tuple[str, Word]] = []
        for child in node.children:
            if child.type == "variable_assignment":
                self.name_of(child)
                self.inside(child, within)
                assignments.append(_assignment(child))
                if node.type != "command":
                    argv.append(Word(_text(child), is_static=assignments[-1][1].is_static))
                continue
            self.walk(child, within)
            if child.type in ("file_redirect", "herestring_redirect"):
                stdin = _stdin(child) or stdin
                if _stray_words(child):
                    self.opaque.append("words behind a redirection hide what runs")
            elif child.type != "comment" and _text(child):
                argv.append(_word(child))
        self.add(
            Simple(
                argv=tuple(argv) + extra,
                assignments=tuple(assignments),
                via=within.via,
                upstream=within.upstream,
                stdin=stdin,
            ),
            within,
        )

    def add(self, simple: Simple, within: _Within) -> None:
        """Records a command, or what it runs in its place."""
        if self.is_full(within):
            return
        if simple.argv and (not simple.argv[0].is_plain or simple.argv[0].text in _RESERVED):
            self.opaque.append(f"what {simple.argv[0].text!r} will be is known only when it runs")
        inner = look_through(simple.argv, stdin=simple.stdin)
        self.opaque.extend(inner.opaque)
        if inner.keeps_outer or not (inner.commands or inner.scripts):
            self.commands.append(simple)
        via = (*simple.via, simple.argv)
        for argv, assignments in inner.commands:
            deeper = msgspec.structs.replace(
                simple, argv=argv, assignments=simple.assignments + assignments, via=via
            )
            self.add(deeper, _Within(via, simple.upstream, within.depth + 1))
        self._scripts(inner, simple, via, within)

    def _scripts(
        self, inner: Inner, simple: Simple, via: tuple[tuple[Word, ...], ...], within: _Within
    ) -> None:
        for script in inner.scripts:
            before = len(self.commands)
            self.source(script, via=via, upstream=simple.upstream, depth=within.depth + 1)
            if simple.assignments or len(self.commands) == before:
                self.commands.append(msgspec.structs.replace(simple, argv=()))


def _text(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _is_faithful(node: Node) -> bool:
    """Whether the grammar accounts for every byte here, and splits words only where a shell does."""
    if not node.child_count or node.type in ("string", "heredoc_body"):
        return node.type not in ("word", "number") or not re.search(r"(?<!\\)[ \t\n;&|<>()`]", _text(node))
    raw, position = node.text or b"", 0
    previous: Node | None = None
    for child in node.children:
        gap = raw[position : child.start_byte - node.start_byte].replace(b"\\\n", b" ")
        blank = b" \t" if node.type in _COMMANDS else b" \t\n"
        if gap.strip(blank) or (not gap and previous is not None and _must_be_apart(node, previous, child)):
            return False
        position, previous = child.end_byte - node.start_byte, child
    return not raw[position:].replace(b"\\\n", b" ").strip(b" \t\n")


def _must_be_apart(parent: Node, left: Node, right: Node) -> bool:
    if parent.type == "negated_command":
        return left.type == "!"
    if parent.type in ("test_command", "compound_statement"):
        return left.type in ("[", "[[", "{")
    if parent.type in _COMMANDS:
        return right.type not in ("file_redirect", "herestring_redirect")
    if parent.type in ("file_redirect", "heredoc_redirect"):
        return left.is_named and left.type != "file_descriptor" and right.type in _WORDS
    return False


def _names(simple: Simple) -> Iterator[str]:
    for argv in (simple.argv, *simple.via):
        if argv:
            yield argv[0].program


def _stray_words(redirect: Node) -> list[Node]:
    """Arguments of the command that stand behind the target of a redirection."""
    words = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    if redirect.type == "file_redirect":
        return words[1:]
    if redirect.type == "heredoc_redirect":
        return [
            child
            for child in words
            if child.type in _STATIC_PIECES | {"concatenation", "string", "raw_string"}
        ]
    return []


def _stdin(redirect: Node) -> Word | None:
    """The text that a heredoc or here-string feeds to a command."""
    if redirect.type == "herestring_redirect":
        return _word(redirect.children[-1])
    if redirect.type != "heredoc_redirect":
        return None
    start = next((_text(child) for child in redirect.children if child.type == "heredoc_start"), "")
    body = next((_text(child) for child in redirect.children if child.type == "heredoc_body"), "")
    is_literal = any(quote in start for quote in "'\"\\")
    return Word(body, is_static=is_literal or not re.search(r"[$`\\]", body))


def _assignment(node: Node) -> tuple[str, Word]:
    """The name and value of an assignment."""
    name = _text(node).split("=", 1)[0].rstrip("+").split("[", 1)[0]
    value = node.child_by_field_name("value")
    return name, Word("") if value is None else _word(value)


def _word(node: Node) -> Word:
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
    text = _text(node)
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
        yield _text(child), "dynamic"
        position = child.end_byte - node.start_byte
    yield _unescaped(raw[position:-1]), "quoted"


def _unescaped(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return re.sub(r'\\([$`"\\\n])', lambda found: found[1].replace("\n", ""), text)


def _is_fork_bomb(text: str) -> bool:
    name = re.match(r"(?:function\s+)?([^\s(){}]+)", text)
    return bool(name) and bool(re.search(rf"{re.escape(name[1])}\s*\|\s*{re.escape(name[1])}\s*&", text))
