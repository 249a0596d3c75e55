"""Which commands a line of bash would run: every simple command in it, wherever it hides.

Pipelines, lists, subshells, substitutions, heredocs, functions, loops and redirections are all walked; what
runs another command (`env`, `sudo`, `bash -c`, `xargs`, …) is looked through (see `wrappers`). Nothing is
guessed: what cannot be parsed or is known only when it runs is reported, and whoever judges must ask. Pure;
it never raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
from tree_sitter import Node

from mainspring.approvals.grammar import COMMANDS, WORDS, has_lone_dash, is_faithful, parse, text_of, word_of
from mainspring.approvals.wrappers import SHELLS, Inner, Word, look_through

_MAX_DEPTH = 60
_MAX_COMMANDS = 500

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
        "herestring_redirect", "heredoc_redirect", "ERROR",
    }
)  # fmt: skip
_LEAVES = frozenset(
    {
        "word", "number", "raw_string", "ansi_c_string", "regex", "comment", "variable_name",
        "special_variable_name", "string_content", "heredoc_start", "heredoc_content", "heredoc_end",
        "file_descriptor", "test_operator", "extglob_pattern",
    }
)  # fmt: skip
_FREE_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"})


class Redirect(msgspec.Struct, frozen=True):
    """A file that a redirection opens."""

    operator: str
    target: Word

    @property
    def is_write(self) -> bool:
        return self.operator != "<"


class SimpleCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One command as it would be executed.

    `via` are the commands it was found inside of, outermost first; `upstream` are the programs whose output
    is piped into it; `stdin` is the text of a heredoc or here-string. `is_guess`: perhaps it does not run.
    `is_unknown`: it runs another program in a way that is not known here.
    """

    argv: tuple[Word, ...]
    assignments: tuple[tuple[str, Word], ...] = ()
    via: tuple[tuple[Word, ...], ...] = ()
    upstream: tuple[str, ...] = ()
    stdin: Word | None = None
    is_guess: bool = False
    is_unknown: bool = False

    @property
    def text(self) -> str:
        words = [f"{name}={value.text}" for name, value in self.assignments]
        return " ".join([*words, *(word.text for word in self.argv)])


class ShellScript(msgspec.Struct, frozen=True):
    """All that a line would run and open.

    `opaque` says what is known only when it runs; `unreadable`, why commands in it may have been missed.
    """

    commands: tuple[SimpleCommand, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    opaque: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def is_clear(self) -> bool:
        return not (self.opaque or self.unreadable)


def read(source: str) -> ShellScript:
    """Takes a line or a whole script of bash apart."""
    reader = _Reader()
    reader.source(source, via=(), upstream=(), depth=0)
    return ShellScript(
        tuple(reader.commands),
        tuple(reader.redirects),
        tuple(dict.fromkeys(reader.opaque)),
        tuple(dict.fromkeys(reader.unreadable)),
    )


class _Within(msgspec.Struct, frozen=True):
    """What is known about the place of a node."""

    via: tuple[tuple[Word, ...], ...]
    upstream: tuple[str, ...]
    depth: int


class _Reader:
    def __init__(self) -> None:
        self.commands: list[SimpleCommand] = []
        self.redirects: list[Redirect] = []
        self.opaque: list[str] = []
        self.unreadable: list[str] = []

    def source(
        self, text: str, *, via: tuple[tuple[Word, ...], ...], upstream: tuple[str, ...], depth: int
    ) -> None:
        root, problem = parse(text)
        if problem:
            self.unreadable.append(problem)
        if root is not None:
            self.walk(root, _Within(via, upstream, depth))

    def walk(self, node: Node, within: _Within) -> None:
        if self.is_full(within):
            return
        within = msgspec.structs.replace(within, depth=within.depth + 1)
        self.check(node)
        match node.type:
            case kind if kind in COMMANDS:
                self.command(node, within, extra=(), stdin=None)
            case "variable_assignment":
                self.name_of(node)
                self.inside(node, within)
                self.add(SimpleCommand(argv=(), assignments=(_assignment(node),), via=within.via), within)
            case "pipeline":
                self.pipeline(node, within)
            case "redirected_statement":
                self.redirected(node, within)
            case "file_redirect":
                self.redirect(node, within)
            case kind if kind in _CONTAINERS:
                self.container(node, within)
            case kind if kind not in _LEAVES and node.is_named:
                self.unreadable.append(f"it contains something unknown ({kind.lower()})")
            case _:
                pass

    def check(self, node: Node) -> None:
        if not is_faithful(node):
            self.unreadable.append("the parser does not read it as a shell would")

    def is_full(self, within: _Within) -> bool:
        if within.depth <= _MAX_DEPTH and len(self.commands) <= _MAX_COMMANDS:
            return False
        self.unreadable.append("it is nested or repeated too deeply")
        return True

    def inside(self, node: Node, within: _Within) -> None:
        for child in node.children:
            self.walk(child, within)

    def name_of(self, assignment: Node) -> None:
        if not re.match(r"[A-Za-z_]\w*(\[[^]]*\])?\+?=", text_of(assignment)):
            self.unreadable.append("it contains an assignment that a shell would run as a command")

    def container(self, node: Node, within: _Within) -> None:
        text = text_of(node)
        if node.type == "expansion" and "@P" in text:
            self.opaque.append("it expands a variable as a prompt, which can run commands")
        if node.type == "function_definition" and _is_fork_bomb(text):
            self.unreadable.append("it starts itself again and again")
        variable = node.child_by_field_name("variable") if node.type == "for_statement" else None
        if variable is not None and not re.fullmatch(r"(?!.*_proxy$)[a-z_][a-z0-9_]*", text_of(variable)):
            value = Word("…", is_static=False)  # it may be a variable that programs obey
            self.commands.append(SimpleCommand(argv=(), assignments=((text_of(variable), value),)))
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
            dash = (Word("-"),) if has_lone_dash(node) else ()
            self.command(body, within, extra=dash + tuple(word_of(word) for word in extra), stdin=stdin)
        else:
            self.walk(body, within)
            feeds_shell = any(
                simple.argv and simple.argv[0].program in SHELLS for simple in self.commands[before:]
            )
            if extra or (stdin is not None and feeds_shell):
                self.unreadable.append("it gives input or arguments to a whole group of commands")
        fed = tuple(name for simple in self.commands[before:] for name in _names(simple))
        for redirect in redirects:
            self.walk(redirect, msgspec.structs.replace(within, upstream=within.upstream + fed))

    def redirect(self, node: Node, within: _Within) -> None:
        operator = next((text_of(child) for child in node.children if not child.is_named), "")
        targets = [child for child in node.children if child.is_named and child.type != "file_descriptor"]
        self.inside(node, within)
        if not targets or targets[0].type == "process_substitution":
            return
        target = word_of(targets[0])
        descriptor = next((text_of(child) for child in node.children if child.type == "file_descriptor"), "1")
        is_odd = operator in (">&", "<&") and target.text.startswith("-") and target.text != "-"
        if is_odd or not re.fullmatch(r"\d+|\{\w+\}", descriptor):
            self.unreadable.append("it contains a redirection that a shell reads differently")
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
                    argv.append(Word(text_of(child), is_static=assignments[-1][1].is_static))
                continue
            self.walk(child, within)
            if child.type in ("file_redirect", "herestring_redirect"):
                stdin = _stdin(child) or stdin
                if _stray_words(child):
                    self.unreadable.append("words behind a redirection hide what runs")
            elif child.type != "comment" and text_of(child):
                argv.append(word_of(child))
        self.add(
            SimpleCommand(
                argv=tuple(argv) + extra,
                assignments=tuple(assignments),
                via=within.via,
                upstream=within.upstream,
                stdin=stdin,
            ),
            within,
        )

    def add(self, simple: SimpleCommand, within: _Within) -> None:
        """Records a command, or what it runs in its place."""
        if self.is_full(within):
            return
        if simple.argv and simple.argv[0].text in _RESERVED:
            self.unreadable.append("the parser does not read it as a shell would")
            simple = msgspec.structs.replace(simple, argv=simple.argv[1:])
        if simple.argv and not simple.argv[0].is_plain:
            self.opaque.append(f"what {simple.argv[0].text!r} will be is known only when it runs")
        inner = look_through(simple.argv, stdin=simple.stdin)
        self.opaque.extend(inner.opaque)
        self.unreadable.extend(inner.unreadable)
        if inner.keeps_outer or not (inner.commands or inner.scripts):
            self.commands.append(msgspec.structs.replace(simple, is_unknown=inner.is_unknown))
        via = (*simple.via, simple.argv)
        if not simple.is_guess:  # the guesses about a wrapper include those about a wrapper inside it
            self._guesses(inner, simple, within)
        for argv, assignments in inner.commands:
            deeper = msgspec.structs.replace(
                simple, argv=argv, assignments=simple.assignments + assignments, via=via
            )
            self.add(deeper, _Within(via, simple.upstream, within.depth + 1))
        self._scripts(inner, simple, via, within)

    def _guesses(self, inner: Inner, simple: SimpleCommand, within: _Within) -> None:
        """Judges all that could run; what cannot be read or known in a guess says nothing."""
        aside = _Reader()
        for argv in inner.guesses:
            guess = msgspec.structs.replace(simple, argv=argv, is_guess=True)
            aside.add(guess, _Within(simple.via, simple.upstream, within.depth + 1))
        for script in inner.guessed_scripts:
            aside.source(script, via=simple.via, upstream=simple.upstream, depth=within.depth + 1)
        self.commands += [msgspec.structs.replace(each, is_guess=True) for each in aside.commands]

    def _scripts(
        self, inner: Inner, simple: SimpleCommand, via: tuple[tuple[Word, ...], ...], within: _Within
    ) -> None:
        for script in inner.scripts:
            before = len(self.commands)
            self.source(script, via=via, upstream=simple.upstream, depth=within.depth + 1)
            if simple.assignments or len(self.commands) == before:
                self.commands.append(msgspec.structs.replace(simple, argv=()))


def _names(simple: SimpleCommand) -> Iterator[str]:
    for argv in (simple.argv, *simple.via):
        if argv:
            yield argv[0].program


def _stray_words(redirect: Node) -> list[Node]:
    """Arguments of the command that stand behind the target of a redirection."""
    words = [child for child in redirect.children if child.is_named and child.type != "file_descriptor"]
    if redirect.type == "file_redirect":
        return words[1:]
    if redirect.type == "heredoc_redirect":
        return [child for child in words if child.type in WORDS]
    return []


def _stdin(redirect: Node) -> Word | None:
    """The text that a heredoc or here-string feeds to a command."""
    if redirect.type == "herestring_redirect":
        return word_of(redirect.children[-1])
    if redirect.type != "heredoc_redirect":
        return None
    start = next((text_of(child) for child in redirect.children if child.type == "heredoc_start"), "")
    body = next((text_of(child) for child in redirect.children if child.type == "heredoc_body"), "")
    is_literal = any(quote in start for quote in "'\"\\")
    return Word(body, is_static=is_literal or not re.search(r"[$`\\]", body))


def _assignment(node: Node) -> tuple[str, Word]:
    """The name and value of an assignment."""
    name = text_of(node).split("=", 1)[0].rstrip("+").split("[", 1)[0]
    value = node.child_by_field_name("value")
    return name, Word("") if value is None else word_of(value)


def _is_fork_bomb(text: str) -> bool:
    name = re.match(r"(?:function\s+)?([^\s(){}]+)", text)
    return bool(name) and bool(re.search(rf"{re.escape(name[1])}\s*\|\s*{re.escape(name[1])}\s*&", text))
