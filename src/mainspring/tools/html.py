"""A web page as text that reads well: headings, lists, links, tables and code, without the rest."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_SKIPPED = frozenset({"script", "style", "noscript", "template", "svg", "head", "iframe", "canvas", "select"})
_BLOCKS = frozenset(
    {"p", "div", "section", "article", "header", "footer", "main", "nav", "aside", "ul", "ol", "table", "tr"}
    | {"form", "figure", "blockquote", "dl", "dt", "dd"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link", "source", "wbr"})


def html_text(html: str, base_url: str = "") -> str:
    page = _Page(base_url)
    page.feed(html)
    page.close()
    text = "".join(page.out)
    text = re.sub(r"[ \t]+\n", "\n", text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


class _Page(HTMLParser):
    def __init__(self, base_url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.out: list[str] = []
        self._base_url = base_url
        self._skipped: list[str] = []
        self._links: list[tuple[str, int]] = []
        self._is_pre = False
        self._is_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_title = tag == "title" and not self.out
        if tag in _SKIPPED:
            self._skipped.append(tag)
        if self._skipped:
            return
        if tag in _HEADINGS:
            self._write(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "a":
            self._links.append((dict(attrs).get("href") or "", len(self.out)))
        elif tag == "img" and (alt := dict(attrs).get("alt")):
            self._write(f"[image: {alt}]")
        elif tag == "pre":
            self._is_pre = True
            self._write("\n\n```\n")
        else:
            self._write(_before(tag))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._is_title = False
        if tag in self._skipped:
            while self._skipped.pop() != tag:
                pass
            return
        if self._skipped or tag in _VOID:
            return
        if tag == "a" and self._links:
            self._end_link(*self._links.pop())
        elif tag == "pre":
            self._is_pre = False
            self._write("\n```\n\n")
        elif tag in _HEADINGS or tag == "p":
            self._write("\n\n")
        elif tag in _BLOCKS:
            self._write("\n")

    def handle_data(self, data: str) -> None:
        if self._is_title:
            self.out.append(f"# {' '.join(data.split())}\n\n")
            return
        if self._skipped:
            return
        if self._is_pre:
            self._write(data)
            return
        text = re.sub(r"\s+", " ", data)
        ends = self.out[-1][-1:] if self.out and self.out[-1] else "\n"
        self._write(text.lstrip() if ends in " \n" else text)

    def _end_link(self, href: str, start: int) -> None:
        text = "".join(self.out[start:]).strip()
        url = urljoin(self._base_url, href) if href and not href.startswith("#") else ""
        if url.startswith(("http://", "https://")) and text:
            self.out[start:] = [f"[{text}]({url})"]

    def _write(self, text: str) -> None:
        if text:
            self.out.append(text)


def _before(tag: str) -> str:
    match tag:
        case "br":
            return "\n"
        case "hr":
            return "\n\n---\n\n"
        case "li":
            return "\n- "
        case "td" | "th":
            return " | "
        case "p":
            return "\n\n"
        case _:
            return "\n" if tag in _BLOCKS else ""
