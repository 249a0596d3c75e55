"""A session as a document for people: Markdown, or one HTML file that needs nothing else and runs nothing.

Both are written from the same list of blocks. What came from a model, a tool or a file is never taken for
markup: it is fenced in the one and escaped in the other.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from html import escape
from typing import Literal

import msgspec

from mainspring.documents.lines import as_text, call_line, change_line, when
from mainspring.events import (
    AssistantSaid,
    Blob,
    CallAsked,
    CallEnded,
    CallStarted,
    FilesChanged,
    Media,
    Recorded,
    SessionStarted,
    SpendReserved,
    SpendSettled,
    Text,
    Thinking,
    TurnStarted,
    UserSaid,
)
from mainspring.secrets.screen import plain
from mainspring.workspace.diffs import unified

Get = Callable[[Blob], bytes]

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a}
pre{background:#f5f5f5;padding:.6rem;overflow-x:auto;white-space:pre-wrap;overflow-wrap:anywhere}
.user{border-left:.3rem solid #2563eb;padding-left:.8rem}
.assistant{border-left:.3rem solid #16a34a;padding-left:.8rem}
.aside{color:#666;font-size:.9rem}summary{cursor:pointer}img{max-width:100%}
td{padding-right:1rem;vertical-align:top}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}pre{background:#222}.aside{color:#999}}
"""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the document. `folded` is text that is shown when asked for, as code."""

    role: Literal["user", "assistant", "tool", "aside"]
    text: str = ""
    title: str = ""
    folded: str = ""
    language: str = ""
    images: tuple[tuple[str, bytes], ...] = ()


def as_markdown(events: Iterable[Recorded], facts: Mapping[str, str], get: Get) -> Iterator[str]:
    yield f"# Session {facts.get('session', '')}\n\n"
    yield "".join(f"- {_escaped(name)}: {_escaped(value)}\n" for name, value in facts.items())
    for block in blocks(events, get):
        heading = {"user": "## User", "assistant": "## Assistant"}.get(block.role, "")
        if heading:
            yield f"\n{heading}\n"
        if block.title:
            yield f"\n**{_escaped(block.title)}**\n"
        if block.text:
            yield f"\n{_quoted(block)}\n"
        yield from (f"\n[image: {_escaped(kind)}, {len(data):,} bytes]\n" for kind, data in block.images)
        if block.folded:
            fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", block.folded)), default=0))
            yield f"\n{fence}{block.language}\n{block.folded.rstrip()}\n{fence}\n"


def as_html(events: Iterable[Recorded], facts: Mapping[str, str], get: Get) -> Iterator[str]:
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    title = escape(f"Session {facts.get('session', '')}")
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>\n'
        f"<h1>{title}</h1>\n<table>\n"
    )
    rows = (f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>\n" for name, value in facts.items())
    yield from (*rows, "</table>\n")
    for block in blocks(events, get):
        yield f'<section class="{block.role}">\n'
        if block.text:
            tag = "p" if block.role == "aside" else "pre"
            yield f"<{tag}>{escape(block.text)}</{tag}>\n"
        for kind, data in block.images:
            yield f'<img alt="" src="data:{escape(kind)};base64,{b64encode(data).decode()}">\n'
        if block.folded:
            shown = escape(block.title or "more")
            yield f"<details><summary>{shown}</summary><pre>{escape(block.folded)}</pre></details>\n"
        elif block.title:
            yield f"<p>{escape(block.title)}</p>\n"
        yield "</section>\n"
    yield "</body></html>\n"


def blocks(events: Iterable[Recorded], get: Get) -> Iterator[Block]:
    for recorded in events:
        match recorded.event:
            case UserSaid() as said:
                yield Block(role="user", text=plain(said.text), images=_images(said.media, get))
            case AssistantSaid() as said:
                yield from _reply(said)
            case CallEnded() as ended:
                title = f"{ended.outcome}" + (
                    "" if ended.exit_code is None else f", exit code {ended.exit_code}"
                )
                images = _images(ended.media, get)
                yield Block(role="tool", title=title, folded=plain(ended.output) or " ", images=images)
            case FilesChanged() as changed:
                yield from _changes(changed, get)
            case CallStarted() | SpendReserved() | SpendSettled() | TurnStarted() | SessionStarted():
                pass
            case event:
                if text := as_text(event, whole=True):
                    yield Block(role="aside", text=f"{when(recorded.time_us)} {text}")


def _reply(said: AssistantSaid) -> Iterator[Block]:
    for part in said.parts:
        match part:
            case Text():
                yield Block(role="assistant", text=plain(part.text))
            case Thinking():
                if part.text:
                    yield Block(role="tool", title="thinking", folded=plain(part.text))
            case CallAsked():
                line = plain(call_line(part)).replace("\n", " ")
                yield Block(role="tool", title=line, folded=plain(part.arguments), language="json")


def _changes(changed: FilesChanged, get: Get) -> Iterator[Block]:
    for change in changed.changes:
        before, after = (
            get(state.blob) if state and state.blob else b"" for state in (change.before, change.after)
        )
        diff = "".join(
            line if line.endswith("\n") else f"{line}\n" for line in unified(change, before, after)
        )
        yield Block(role="tool", title=plain(change_line(change)), folded=plain(diff), language="diff")
    for note in changed.not_covered:
        yield Block(role="aside", text=plain(f"not covered: {note}"))


def _images(media: Iterable[Media], get: Get) -> tuple[tuple[str, bytes], ...]:
    kinds = ("image/png", "image/jpeg", "image/gif", "image/webp")
    return tuple((item.blob.media_type, get(item.blob)) for item in media if item.blob.media_type in kinds)


def _quoted(block: Block) -> str:
    """What was said, as a quotation, so that its headings are not ours; tags in it are text."""
    if block.role == "aside":
        return f"*{_escaped(block.text)}*"
    lines: list[str] = []
    fence = ""
    for line in block.text.splitlines():
        found = _FENCE.match(line)
        is_closing = found is not None and found[1].startswith(fence) and not found[2].strip()
        lines.append(f"> {line if fence else line.replace('<', '&lt;')}".rstrip())
        if fence:
            fence = "" if is_closing else fence
        elif found is not None and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
    return "\n".join(lines + ([f"> {fence}"] if fence else []))


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", text.replace("\n", " "))
