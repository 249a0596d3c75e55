"""Documents of other programs as text, and changed in place. Their parsers are large and the files foreign:
all of it runs as a program of its own, confined (`tools/documents.py` starts it). No other room of mainspring
is imported here, so that it starts quickly.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

MAX_CHARS = 4_000_000
"""What is kept of the text of one document."""
PACKAGES = {
    "docx": "python-docx",
    "fpdf": "fpdf2",
    "openpyxl": "openpyxl",
    "pypdfium2": "pypdfium2",
    "python_calamine": "python-calamine",
}
"""By their modules: what the extra `documents` brings."""
_ENDS = frozenset({"pdf", "docx", "xlsx", "xlsm", "pptx"})


class DocumentError(Exception):
    """Why a document cannot be read or changed, in words for a model."""


def module(name: str) -> Any:
    """A library of the extra; what is not installed is told."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = PACKAGES.get(name.partition(".")[0], name)
        raise DocumentError(f"{package} is not installed: pip install 'mainspring[documents]'") from error


def is_for_documents(pattern: str) -> bool:
    """Whether a name, or a pattern of names (`*.{pdf,docx}`), asks for documents."""
    ends = re.split(r"[^a-z]+", pattern.lower().rpartition(".")[2])
    return not _ENDS.isdisjoint(ends)


def kind_of(data: bytes) -> str:
    """Which document these bytes are, by their beginning and the names in an archive; empty for others."""
    if data.startswith(b"%PDF-"):
        return "pdf"
    if data.startswith(b"PK\x03\x04"):
        return next((kind for kind, part in _PARTS.items() if part in data), "")
    return "locked" if data.startswith(_OLE) and _ENCRYPTED in data else ""


_PARTS = {"docx": b"word/document.xml", "xlsx": b"xl/workbook.xml", "pptx": b"ppt/presentation.xml"}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
