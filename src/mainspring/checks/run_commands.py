"""Whether a command of the shell tool ran a file, or tests: what is no evidence is that it showed the file,
searched it, moved it about or wrote it. Pure."""

from __future__ import annotations

from mainspring.context.mentions import is_source
from mainspring.patterns import lazy_pattern

_RUNNERS = lazy_pattern(
    r"\b(pytest|unittest|tox|nox|jest|vitest|(?:go|cargo|npm|pnpm|yarn|make|mvn|gradle|node)\b.*\b(?:test|check))\b"
)
_WRITTEN_HERE = lazy_pattern(r"""<<-?\s*(?:\\?['"])?(\w+).*?\\n\1(?=\\n|$)""")
_COMMAND = lazy_pattern(r'"command"\s*:\s*"((?:[^"\\]|\\.)*)"')
_PARTS = lazy_pattern(r"&&|\|\|?|;|\\n")
_BEFORE = lazy_pattern(r"^(?:\s|\(|\{|!|(?:do|then|else|time|sudo|env|command|nice)\s|\w+=\S*\s)+")
_LOOKS = frozenset(
    (
        *("cat", "head", "tail", "less", "more", "bat", "nl", "od", "xxd", "hexdump", "strings", "tac"),
        *("grep", "egrep", "fgrep", "rg", "ag", "sed", "awk", "gawk", "cut", "tr", "sort", "uniq", "column"),
        *("ls", "ll", "tree", "find", "fd", "wc", "stat", "file", "du", "realpath", "readlink", "basename"),
        *("diff", "cmp", "comm", "md5sum", "sha1sum", "sha256sum", "cksum", "git", "echo", "printf", "tee"),
        *("cp", "mv", "rm", "ln", "mkdir", "touch", "chmod", "chown", "install", "cd", "test", "[", "[["),
        *("for", "if", "while", "case", "export", "which", "type", "pip", "pip3"),
    )
)
"""Programs that show a file, move it about or install something."""


def what_ran(path: str, arguments: str, *, is_writer: bool) -> str:
    """The command in the arguments of a call, when it runs the file or tests; else nothing. That a command
    which wrote the file names it is no evidence either."""
    found = _COMMAND.search(arguments)
    text = _WRITTEN_HERE.sub("", found[1]) if found else ""
    name = path.rpartition("/")[2]
    stem = name.partition(".")[0]
    for each in _PARTS.split(text):
        part = _BEFORE.sub("", each)
        if part.partition(" ")[0].rpartition("/")[2] in _LOOKS:
            continue
        is_about = name in part or (len(stem) > 2 and stem in part.split())
        if (is_about and not is_writer) or (is_source(path) and _RUNNERS.search(part)):
            return text
    return ""
