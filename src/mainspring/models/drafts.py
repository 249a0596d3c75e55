"""Whole files in a reply, each in a fenced block below its name, or a program that makes them.

Small models write code better so than inside of JSON: a message that ends with `asked` is answered in this
form, and each block is a call of `write`. What is computed from data they get wrong when they write it down
themselves: one that ends with `program_asked` is answered with a program, which is a call of `shell`. Pure,
but for `blocks`, which reads a stream.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from mainspring.events import ATTEMPTS_SOURCE, PRIMING_SOURCE, Alternative, CallDelta, TextDelta
from mainspring.models import ReplyFinished, Retrying, StreamItem
from mainspring.patterns import lazy_pattern

WRITE, SHELL = "write", "shell"
_ASKED = "Answer with the complete new content of every file that you change or add, in this form:"
_TASK = "The task:"
_PLACEHOLDER = "the whole file, changed"
_PROGRAM_SAID = "Do not work it out yourself. Write one Python program that does all of it"
_IMPORTS = "import csv\nimport json\nimport re"
_PROGRAM_FORM = """{said} and writes `{path}` when it is run where these files are. Answer in this form:

```python
{imports}
the rest of the program, without other libraries
```"""
_PROGRAM_END = "END_OF_PROGRAM"
_LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "rb": "ruby", "rs": "rust"}
_COMMANDS = ("bash", "sh", "shell", "console", "diff", "patch")
"""What is shown of these is to be run or read, unless it is named as such a file."""
_ALIASES = {
    "sh": ("bash", "shell"),
    "txt": ("text", "plaintext"),
    "yml": ("yaml",),
    "md": ("markdown",),
    "cfg": ("ini",),
    "conf": ("ini",),
}
_EXAMPLE = lazy_pattern(rf"{re.escape(_ASKED)}\n\n### (?P<path>[^\n]+)\n")
_SUFFIXES = (
    r"(?:pyi?|[mc]?js|jsx|tsx?|go|rs|java|kt|rb|php|[ch]|cc|[ch]pp|cs|swift|sh|bash|lua|sql|pl|r|jl|scala|vue"
    r"|css|html|xml|svg|md|rst|txt|[ct]sv|jsonl?|ya?ml|toml|ini|cfg|conf|env|log|tex|ipynb|mk)"
)
_FILE = lazy_pattern(rf".*(?:\.{_SUFFIXES}|(?:Make|Docker)file)")
_A = "A-Za-z0-9_"
_PLAIN = lazy_pattern(rf"(?<![{_A}./@:~\\-])(?:\./)?[{_A}][{_A}./-]*\.{_SUFFIXES}(?![{_A}(/-]|\.[{_A}])")
_NO_FILES = (
    "console.log",
    "d3.js",
    "express.js",
    "import.meta.env",
    "math.log",
    "next.js",
    "node.js",
    "nuxt.js",
    "process.env",
    "react.js",
    "three.js",
    "vue.js",
)
"""Names of programs and calls that end like files."""
_BLOCK = lazy_pattern(
    r"(?P<before>[^\n]*)\n+(?P<indent>[ \t]*)(?P<fence>```+|~~~+)(?P<info>[^\n]*)\n"
    r"(?P<content>.*?)(?:^[ \t]*(?P=fence)[ \t\r]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = lazy_pattern(r"\s*(?:#(?![!])|//|/\*|\*|--|\"\"\"|''')")
_MOST_ALTERNATIVES = 24
_FENCES = lazy_pattern(r"^[ \t]*(`{3,})", re.MULTILINE)
_SOURCE = lazy_pattern(rf"^\[note from {PRIMING_SOURCE}\] ")
_FAILED = f"[note from {ATTEMPTS_SOURCE}] ".encode()
_HEAD = lazy_pattern(r"(?:#{1,6}|//) +(?:File: *)?`?(?P<path>[\w./-]*\w\.[A-Za-z]\w*)`?[ \t]*\n+")
_PATH = lazy_pattern(r"(?<![\w./-])(?:[\w./-]*\w\.[A-Za-z]\w*|[\w./-]*(?:Makefile|Dockerfile))(?![\w/-])")


def page(blocks: Sequence[str], others: Sequence[str], task: str, failure: str, form: str) -> str:
    """All that a reply with files needs, in one message: the files, the names of those that are not shown,
    the task, what an earlier attempt failed with, and the form, as `asked` or `program_asked` give it. Small
    models do what stands last."""
    listed = [f"Other files of the project: {', '.join(others)}"] if others else []
    failed = [f"An earlier attempt failed:\n{_fenced(failure)}"] if failure else []
    files = ["The files:", *blocks] if blocks else []
    return "\n\n".join([*files, *listed, f"{_TASK}\n{task.strip()}", *failed, form])


def is_said(messages: Sequence[bytes], text: str) -> bool:
    """Whether the last message says this, which is plain ASCII."""
    return bool(messages) and text.encode() in messages[-1]


def is_page(message: bytes) -> bool:
    """Whether a message shows files with a task, and asks for files."""
    return _TASK.encode() in message and is_asked([message])


def without_pages(messages: Sequence[bytes]) -> list[bytes]:
    return [message for message in messages if not is_asked([message])]


def alone(messages: Sequence[bytes]) -> list[bytes]:
    """The messages without those that the last one, a page, holds as well: the task, and what failed."""
    *before, last = messages
    page = _fields(last)
    if not isinstance(page.get("content"), str):
        return [*messages]
    page["content"] = _SOURCE.sub("", page["content"])
    kept = [
        message for message in before if _FAILED not in message and not _is_said(message, page["content"])
    ]
    return [*kept, msgspec.json.encode(page)]


def _is_said(message: bytes, page: str) -> bool:
    fields = _fields(message)
    content = fields.get("content") if fields.get("role") == "user" else None
    return isinstance(content, str) and content.strip() in page


def _fields(message: bytes) -> dict[str, Any]:
    """A message of a wire; nothing where several stand in one, as the results of several calls do."""
    found: list[dict[str, Any]] = msgspec.json.decode(b"[" + message + b"]")
    return found[0] if len(found) == 1 else {}


def asked(path: str) -> str:
    """Asks for files, with one of them as the example: names and forms that stand last are kept to."""
    return f"{_ASKED}\n\n{block(path, _PLACEHOLDER)}"


def program_asked(path: str) -> str:
    """Asks for a program that makes a file. The imports keep it from libraries that are not there."""
    return _PROGRAM_FORM.format(said=_PROGRAM_SAID, path=path, imports=_IMPORTS)


def block(path: str, text: str) -> str:
    """A file as it is shown, and wanted."""
    language = path.rpartition(".")[2] if "." in path else ""
    return f"### {path}\n{_fenced(text, _LANGUAGES.get(language, language))}"


def _fenced(text: str, language: str = "") -> str:
    """In a fence that is longer than those in the text."""
    fence = max(["``", *_FENCES.findall(text)], key=len) + "`"
    return f"{fence}{language}\n{text}\n{fence}"


def paths_in(text: str) -> list[str]:
    """What is the path of a file: first what stands in code quotes, then what a person wrote without them.
    Dates, versions, names of modules and calls are none."""
    quoted = (match[1] for match in re.finditer(r"`([^`\s]+)(?: [^`\n]*)?`", text))
    coded = (
        path.removeprefix("./")
        for path in quoted
        if _PATH.fullmatch(path) and _FILE.fullmatch(path) and not path.startswith(("/", ".."))
    )
    plain = (match[0].removeprefix("./") for match in _PLAIN.finditer(text))
    return list(dict.fromkeys([*coded, *(path for path in plain if path.lower() not in _NO_FILES)]))


def is_asked(messages: Sequence[bytes]) -> bool:
    """Whether the last message asks for files, or for a program that makes them."""
    return is_said(messages, _ASKED) or is_program_asked(messages)


def is_program_asked(messages: Sequence[bytes]) -> bool:
    return is_said(messages, _PROGRAM_SAID)


class Draft(msgspec.Struct, frozen=True):
    """A file in a reply. Its content begins at character `at` of that, None where it does not stand there as
    it is."""

    path: str
    content: str
    at: int | None


def drafted(reply: str, example: str = "") -> list[Draft]:
    """The files in a reply. A block's name stands on the line before it, behind its fence or
    on its first line; where several do, it is the last that its language suits. Where no block has a name,
    the only one that suits the `example` is that."""
    found, unnamed = dict[str, Draft](), list[Draft]()
    for block in _BLOCK.finditer("\n" + reply):
        language, _, _ = block["info"].strip().partition(" ")
        names: list[str] = _PATH.findall(block["before"]) or _PATH.findall(block["info"])
        content = _outdented(block["content"], block["indent"])
        at = block.start("content") - 1
        if head := _HEAD.match(content):
            names, content, at = [head["path"]], content[head.end() :], at + head.end()
        names = [name for name in names if _suits(name, language)] or names
        if language in _COMMANDS and not _suits("".join(names[-1:]), language):
            continue
        if content.strip() in ("", _PLACEHOLDER):
            continue
        draft = Draft("".join(names[-1:]).removeprefix("./"), content, None if block["indent"] else at)
        if names:
            found[draft.path] = draft
        elif _suits(example, language):
            unnamed.append(draft)
    if not found and example and len(unnamed) == 1:
        return [msgspec.structs.replace(unnamed[0], path=example)]
    return list(found.values())


def said_otherwise(
    reply: str, drafts: Sequence[Draft], alternatives: Sequence[Alternative]
) -> tuple[Alternative, ...]:
    """Those of the alternatives that change what stands in the lines of a file, placed in its content: one
    for each place and text, and no blanks, fences or comments."""
    found: list[Alternative] = []
    for each in alternatives:
        new, old = each.text.strip(), each.instead.strip()
        is_same = new == old and ("\n" in each.text) == ("\n" in each.instead)
        if not new or is_same or "`" in new or not reply.startswith(each.instead, each.at):
            continue
        for index, draft in enumerate(drafts):
            at = -1 if draft.at is None else each.at - draft.at
            line = draft.content[draft.content.rfind("\n", 0, max(at, 0)) + 1 : max(at, 0)] + each.text
            is_comment = _COMMENT.match(line) or _COMMENT.match(new)
            if 0 <= at < len(draft.content) and not is_comment:
                found.append(msgspec.structs.replace(each, at=at, call=index))
    return tuple(found[:_MOST_ALTERNATIVES])


def start_of(drafts: Sequence[tuple[str, str]], index: int, until: int) -> str:
    """The beginning of a reply with these files, up to so many characters of one of them."""
    shown = [block(path, content.removesuffix("\n")) for path, content in drafts[:index]]
    path, content = drafts[index]
    opened, _, _ = block(path, "\n").partition("\n\n")
    return "\n\n".join([*shown, f"{opened}\n{content[:until]}"])


def _outdented(content: str, indent: str) -> str:
    """A block in a list, without what its fence is indented by."""
    return "".join(line.removeprefix(indent) for line in content.splitlines(keepends=True))


def example_of(messages: Sequence[bytes]) -> str:
    """The file that the last message has as the example of the form; nothing where it does not ask for
    files."""
    content = _fields(messages[-1]).get("content") if messages else None
    found = _EXAMPLE.search(content) if isinstance(content, str) else None
    return found["path"] if found else ""


def _suits(path: str, language: str) -> bool:
    """Whether a file may be in a language, as fences name it; one that says nothing suits all."""
    suffix = path.rpartition(".")[2]
    return not language or language in (suffix, _LANGUAGES.get(suffix, suffix), *_ALIASES.get(suffix, ()))


def program_in(reply: str) -> str:
    """The program in a reply: its first block; nothing where there is none."""
    found = _BLOCK.search("\n" + reply)
    return found["content"] if found and found["content"].strip() else ""


def ran_program(arguments: str) -> bool:
    """Whether a call runs a program that was asked for."""
    return _PROGRAM_END in arguments


def _run_of(reply: str) -> list[tuple[str, dict[str, str]]]:
    program = program_in(reply)
    command = f"python3 - <<'{_PROGRAM_END}'\n{program.rstrip()}\n{_PROGRAM_END}"
    return [(SHELL, {"command": command})] if program else []


async def blocks(
    items: AsyncGenerator[StreamItem],
    kept: Collection[str] = (),
    *,
    example: str = "",
    is_program: bool = False,
) -> AsyncGenerator[StreamItem]:
    """A stream in which files are calls, but for those that are `kept` as they are, or the program is one.
    `example` is the file that a block without a name is. Text is held back until its end; without files it
    stays text."""
    held, has_calls = "", False
    async with aclosing(items):
        async for item in items:
            match item:
                case TextDelta():
                    held += item.text
                case Retrying():
                    held, has_calls = "", False
                    yield item
                case ReplyFinished():
                    found = [] if has_calls or is_program else drafted(held, example)
                    files = [each for each in found if each.path not in kept]
                    calls = [(WRITE, {"path": each.path, "content": each.content}) for each in files]
                    if is_program and not has_calls:
                        calls = _run_of(held)
                    if held and not calls:
                        yield TextDelta(text=held)
                    for index, (name, arguments) in enumerate(calls):
                        text = msgspec.json.encode(arguments).decode()
                        yield CallDelta(index=index, name=name, arguments=text)
                    is_call = bool(calls) and item.stop == "end"
                    placed = said_otherwise(held, files, item.alternatives)
                    yield msgspec.structs.replace(
                        item, stop="calls" if is_call else item.stop, alternatives=placed
                    )
                case CallDelta():
                    has_calls = True
                    yield item
                case _:
                    yield item
