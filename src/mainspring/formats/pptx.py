"""A PPTX slide by slide: titles, text, tables as Markdown, and the notes of the speaker."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from mainspring.formats.archive import Archive, relation_of
from mainspring.formats.table import table_lines

_DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_SLIDES = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")


def pptx_parts(data: bytes) -> Iterator[tuple[str, str]]:
    archive = Archive(data)
    relations = archive.relations(_PRESENTATION)
    listed = (relation_of(each) for each in archive.xml(_PRESENTATION).iter(f"{_SLIDES}sldId"))
    slides = [relations[each] for each in listed if each in relations]
    for number, name in enumerate(slides, 1):
        lines = list(_lines(archive.xml(name)))
        for other in archive.relations(name).values():
            if other.startswith("ppt/notesSlides/") and (notes := list(_notes(archive.xml(other)))):
                lines += ["", "Notes:", *notes]
        yield f"slide {number} of {len(slides)}", "\n".join(lines)


def _lines(slide: Element) -> Iterator[str]:
    for shape in slide.iter():
        if shape.tag == f"{_SLIDES}sp":
            mark = "# " if _placeholder(shape) in _TITLES else ""
            yield from (f"{mark}{text}" for text in _paragraphs(shape))
        elif shape.tag == f"{_DRAWING}tbl":
            rows = [
                [" ".join(_paragraphs(cell)) for cell in row.iter(f"{_DRAWING}tc")]
                for row in shape.iter(f"{_DRAWING}tr")
            ]
            yield from ("", *table_lines(rows), "")


def _notes(slide: Element) -> Iterator[str]:
    for shape in slide.iter(f"{_SLIDES}sp"):
        if _placeholder(shape) == "body":
            yield from _paragraphs(shape)


def _placeholder(shape: Element) -> str:
    found = next(shape.iter(f"{_SLIDES}ph"), None)
    return "" if found is None else found.get("type", "")


def _paragraphs(element: Element) -> Iterator[str]:
    for paragraph in element.iter(f"{_DRAWING}p"):
        parts = (
            "\n" if each.tag == f"{_DRAWING}br" else each.text or ""
            for each in paragraph.iter()
            if each.tag in (f"{_DRAWING}t", f"{_DRAWING}br")
        )
        if text := "".join(parts).strip():
            yield text
