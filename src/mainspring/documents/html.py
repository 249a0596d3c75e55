"""A document as one HTML page that needs nothing else, loads nothing and runs nothing: pictures are in it,
and its own policy forbids every script and every address. All text is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from html import escape
from urllib.parse import quote

from mainspring.documents.blocks import (
    PICTURE_TYPES,
    Banner,
    Block,
    Collapsible,
    Heading,
    Items,
    Link,
    Mono,
    OutputBlock,
    Paragraph,
    Picture,
    Quote,
    Span,
    Spans,
    Table,
)
from mainspring.secrets.screen import plain

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
_STYLE = """
:root{color-scheme:light dark;--fg:#1c2024;--bg:#fff;--soft:#f4f5f7;--line:#dfe2e6;--dim:#5c6670;
--good:#12703a;--goodbg:#e6f5ec;--bad:#b3261e;--badbg:#fcebea;--doubt:#855600;--doubtbg:#fff4db;--blue:#1757c2}
@media(prefers-color-scheme:dark){:root{--fg:#e3e6ea;--bg:#14171a;--soft:#1e2327;--line:#343b42;--dim:#9aa4ae;
--good:#5fd18d;--goodbg:#12291c;--bad:#ff8a80;--badbg:#331816;--doubt:#f2c057;--doubtbg:#2e2410;--blue:#8ab4ff}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:60rem;margin:0 auto;
padding:1.2rem 1rem 4rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:.2rem 0 1rem}
h2{font-size:1.2rem;margin:2.4rem 0 .7rem;padding-top:.6rem;border-top:1px solid var(--line)}
h3{font-size:1.02rem;margin:1.5rem 0 .5rem}p{margin:.5rem 0}ul{margin:.5rem 0;padding-left:1.3rem}
.banner{border-left:.4rem solid var(--dim);background:var(--soft);padding:.8rem 1rem;border-radius:.3rem}
.banner strong{display:block;font-size:1.25rem;margin-bottom:.2rem}.banner p{margin:.25rem 0}
.banner.good{border-color:var(--good);background:var(--goodbg)}.banner.good strong{color:var(--good)}
.banner.bad{border-color:var(--bad);background:var(--badbg)}.banner.bad strong{color:var(--bad)}
.banner.doubt{border-color:var(--doubt);background:var(--doubtbg)}.banner.doubt strong{color:var(--doubt)}
.good{color:var(--good)}.bad{color:var(--bad)}.doubt{color:var(--doubt)}.quiet{color:var(--dim)}
.banner.good,.banner.bad,.banner.doubt{color:var(--fg)}span.good,span.bad,span.doubt{font-weight:600}
code{font:.87em ui-monospace,monospace;background:var(--soft);padding:.08em .3em;border-radius:.2rem}
pre,blockquote{margin:.6rem 0;padding:.7rem .9rem;background:var(--soft);border-radius:.3rem;
white-space:pre-wrap;overflow-wrap:anywhere;max-height:32rem;overflow-y:auto}
pre{font:.83rem/1.45 ui-monospace,monospace}blockquote{border-left:.25rem solid var(--blue)}
.wide{overflow-x:auto;margin:.6rem 0}
table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .7rem .35rem 0;border-bottom:1px solid var(--line);
overflow-wrap:normal}
th{color:var(--dim);font-weight:600;white-space:nowrap}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap;padding-right:1.1rem}td.k{white-space:nowrap}td.t{min-width:12rem;overflow-wrap:anywhere}
details{border:1px solid var(--line);border-radius:.3rem;margin:.5rem 0;padding:0 .8rem}
details[open]{padding-bottom:.6rem}summary{cursor:pointer;padding:.5rem 0;font-weight:600}
figure{margin:.8rem 0;max-width:38rem}
img{max-width:100%;min-width:8rem;background:#fff;border:1px solid var(--line);border-radius:.3rem}
figcaption{color:var(--dim);font-size:.87rem}
@media(max-width:36rem){body{font-size:15px;padding:.8rem .8rem 3rem}h1{font-size:1.25rem}
table{font-size:.84rem}.rows thead{display:none}.rows table,.rows tbody,.rows tr,.rows td{
display:block;width:auto}
.rows tr{border-bottom:1px solid var(--line);padding:.4rem 0}.rows td{border:0;padding:.1rem 0;min-width:0;
text-align:left;white-space:normal;overflow-wrap:anywhere}.rows td:empty{display:none}
.rows td[data-h]::before{content:attr(data-h)": ";color:var(--dim)}}
@media print{details{break-inside:avoid}pre,blockquote{max-height:none}}
"""
_LONG_CELL = 24
_NARROW = 3
"""With more columns a table is shown row by row on a phone, each cell with the name of its column."""


def as_html(title: str, blocks: Iterable[Block]) -> Iterator[str]:
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width,initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>\n"
    )
    for block in blocks:
        yield from _block(block)
    yield "</body></html>\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"<h{block.level}>{_text(block.text)}</h{block.level}>\n"
        case Banner():
            notes = "".join(f"<p>{_spans(note)}</p>" for note in block.notes)
            yield f'<div class="banner {block.tone}"><strong>{_text(block.title)}</strong>'
            yield f"<p>{_text(block.text)}</p>{notes}</div>\n"
        case Paragraph():
            yield f'<p class="{block.tone}">{_spans(block.spans)}</p>\n'
        case Items():
            yield "<ul>" + "".join(f"<li>{_spans(item)}</li>" for item in block.items) + "</ul>\n"
        case Table():
            yield from _table(block)
        case Quote():
            yield f"<blockquote>{_text(block.text)}</blockquote>\n"
        case OutputBlock():
            yield f"<pre>{_text(block.text)}</pre>\n"
        case Picture():
            yield _picture(block)
        case Collapsible():
            yield from _folded(block)


def _folded(block: Collapsible) -> Iterator[str]:
    yield f"<details{' open' if block.is_open else ''}><summary>{_spans(block.title)}</summary>\n"
    for inner in block.blocks:
        yield from _block(inner)
    yield "</details>\n"


def _table(table: Table) -> Iterator[str]:
    sides = [' class="n"' if place in table.numbers else "" for place in range(len(table.head))]
    heads = (f"<th{side}>{_text(name)}</th>" for name, side in zip(table.head, sides, strict=True))
    head = f"<thead><tr>{''.join(heads)}</tr></thead>" if any(table.head) else ""
    is_stacked = len(table.head) > _NARROW and any(table.head)
    names = [f' data-h="{_text(name)}"' if name and is_stacked else "" for name in table.head]
    yield f'<div class="wide{" rows" if is_stacked else ""}"><table>{head}<tbody>\n'
    for row in table.rows:
        cells = zip(row, sides, names, strict=True)
        filled = (f"<td{side or _room(cell)}{name}>{_spans(cell)}</td>" for cell, side, name in cells)
        yield f"<tr>{''.join(filled)}</tr>\n"
    yield "</tbody></table></div>\n"


def _room(cell: Spans) -> str:
    """A short name is not broken, and a long text gets room; a narrow table scrolls on a phone instead."""
    length = sum(len(span if isinstance(span, str) else span.text) for span in cell)
    if length > _LONG_CELL:
        return ' class="t"'
    return ' class="k"' if any(isinstance(span, Mono) for span in cell) else ""


def _picture(picture: Picture) -> str:
    if picture.media_type not in PICTURE_TYPES:
        return ""
    data = b64encode(picture.data).decode()
    name = _text(picture.name)
    return (
        f'<figure><img alt="{name}" src="data:{picture.media_type};base64,{data}">'
        f"<figcaption>{name}</figcaption></figure>\n"
    )


def _spans(spans: Spans) -> str:
    return "".join(map(_span, spans))


def _span(span: Span) -> str:
    if isinstance(span, str):
        return _text(span)
    if isinstance(span, Mono):
        return f"<code>{_text(span.text)}</code>" if span.text else ""
    if isinstance(span, Link):
        return f'<a href="{_text(quote(f"./{span.to}"))}">{_text(span.text)}</a>'
    return f'<span class="{span.tone}">{_text(span.text)}</span>'


def _text(text: str) -> str:
    return escape(plain(text), quote=True)
