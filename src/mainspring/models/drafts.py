"""Whole files in a reply, each in a fenced block below its name.

Small models write code better so than inside of JSON: a message that ends with `asked` is answered in this
form, and each block is a call of `write`. Pure, but for `blocks`, which reads a stream.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from mainspring.events import CallDelta, TextDelta
from mainspring.models import ReplyFinished, Retrying, StreamItem
from mainspring.patterns import lazy_pattern

WRITE = "write"
_ASKED = "Answer with the complete new content of every file that you change or add, in this form:"
_PLACEHOLDER = "the whole file, changed"
_LANGUAGES = {"py": "python", "js": "javascript", "ts": "typescript", "rb": "ruby", "rs": "rust"}
_FILE = lazy_pattern(
    r"(?:.*\.(?:pyi?|[mc]?js|jsx|tsx?|go|rs|java|kt|rb|php|[ch]|cc|[ch]pp|cs|swift|sh|bash|lua|sql|pl|r|jl|scala|vue"
    r"|css|html|xml|svg|md|rst|txt|[ct]sv|jsonl?|ya?ml|toml|ini|cfg|conf|env|log|tex|ipynb|mk)|.*(?:Make|Docker)file)"
)
_BLOCK = lazy_pattern(
    r"(?P<before>[^\n]*)\n+[ \t]*(?P<fence>```+|~~~+)(?P<info>[^\n]*)\n"
    r"(?P<content>.*?)(?:^[ \t]*(?P=fence)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
_HEAD = lazy_pattern(r"#{1,6} +`?(?P<path>[\w./-]*\w\.[A-Za-z]\w*)`?[ \t]*\n+")
_PATH = lazy_pattern(r"(?<![\w./-])(?:[\w./-]*\w\.[A-Za-z]\w*|[\w./-]*(?:Makefile|Dockerfile))(?![\w/-])")


def asked(path: str) -> str:
    """Asks for files, with one of them as the example: names and forms that stand last are kept to."""
    return f"{_ASKED}\n\n{block(path, _PLACEHOLDER)}"


def block(path: str, text: str) -> str:
    """A file as it is shown, and wanted."""
    language = path.rpartition(".")[2] if "." in path else ""
    return f"### {path}\n```{_LANGUAGES.get(language, language)}\n{text}\n```"


def paths_in(text: str) -> list[str]:
    """What stands in code quotes and is the path of a file: dates, versions and names of modules are none."""
    quoted = (match[1] for match in re.finditer(r"`([^`\s]+)`", text))
    return [
        path.removeprefix("./")
        for path in quoted
        if _PATH.fullmatch(path) and _FILE.fullmatch(path) and not path.startswith(("/", ".."))
    ]


def is_asked(messages: Sequence[bytes]) -> bool:
    """Whether the last message asks for files."""
    return bool(messages) and _ASKED.encode() in messages[-1]


def drafted(reply: str) -> list[tuple[str, str]]:
    """The files in a reply, by their paths. A block's name stands on the line before it, behind its fence or
    on its first line; a block without one is none."""
    found: dict[str, str] = {}
    for block in _BLOCK.finditer("\n" + reply):
        names: list[str] = _PATH.findall(block["before"]) or _PATH.findall(block["info"])
        content = block["content"]
        if head := _HEAD.match(content):
            names, content = [head["path"]], content[head.end() :]
        if names and content.strip() not in ("", _PLACEHOLDER):
            found[names[-1].removeprefix("./")] = content
    return list(found.items())


async def blocks(items: AsyncGenerator[StreamItem]) -> AsyncGenerator[StreamItem]:
    """A stream in which files are calls. Text is held back until its end; without files it stays text."""
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
                    files = [] if has_calls else drafted(held)
                    if held and not files:
                        yield TextDelta(text=held)
                    for index, (path, content) in enumerate(files):
                        arguments = msgspec.json.encode({"path": path, "content": content}).decode()
                        yield CallDelta(index=index, name=WRITE, arguments=arguments)
                    is_call = bool(files) and item.stop == "end"
                    yield msgspec.structs.replace(item, stop="calls") if is_call else item
                case CallDelta():
                    has_calls = True
                    yield item
                case _:
                    yield item
