"""The text of a PDF, page by page. Imported only when a PDF is read: it needs the extra `pdf`."""

from __future__ import annotations

import io

import pypdf
from pypdf.errors import PyPdfError

from mainspring.tools import ToolFailed

_MAX_PAGES = 500


def pdf_text(data: bytes) -> str:
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        count = len(reader.pages)
        pages = [
            f"[page {number} of {count}]\n{reader.pages[number - 1].extract_text()}"
            for number in range(1, min(count, _MAX_PAGES) + 1)
        ]
    except (PyPdfError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ToolFailed(f"The PDF cannot be read: {error}.") from error
    if count > _MAX_PAGES:
        pages.append(f"[{count - _MAX_PAGES} more pages are not shown]")
    return "\n\n".join(pages)
