"""The text of a PDF, page by page."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.formats import DocumentError, module

_PASSWORD = 4


def pdf_parts(data: bytes) -> Iterator[tuple[str, str]]:
    pdfium = module("pypdfium2")
    try:
        document = pdfium.PdfDocument(data)
        count = len(document)
        is_empty = True
        for number in range(count):
            page = document[number]
            text = page.get_textpage().get_text_range().replace("\r\n", "\n").strip()
            is_empty = is_empty and not text
            page.close()
            yield f"page {number + 1} of {count}", text
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", 0) == _PASSWORD:
            raise DocumentError("it is protected by a password") from error
        raise DocumentError(f"the file is broken: {error}") from error
    if is_empty:
        yield "note", "(no page has text; these may be pictures of pages)"
