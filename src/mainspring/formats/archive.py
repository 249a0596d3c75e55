"""The archive that a DOCX, XLSX or PPTX is, looked at before any library opens it: what would unpack to too
much, or declares entities, is refused."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from xml.etree import ElementTree as ET

from mainspring.formats import DocumentError

MAX_BYTES = 128 * 1024 * 1024
_MAX_PARTS = 20_000
_BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, ValueError, RuntimeError)
_XML = (".xml", ".rels", ".vml")
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"


class Archive:
    """The parts of a document."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            parts = self._zip.infolist()
            size = sum(part.file_size for part in parts)
            if len(parts) > _MAX_PARTS or size > MAX_BYTES:
                raise DocumentError(
                    f"it unpacks to {size:,} bytes in {len(parts):,} parts; at most {MAX_BYTES:,} are read"
                )
            for part in parts:
                if part.filename.lower().endswith(_XML):
                    _refuse_entities(part.filename, self._zip.read(part))
        except _BROKEN as error:
            raise DocumentError(f"the file is broken: {error}") from error
        self.names = frozenset(self._zip.namelist())

    def read(self, name: str) -> bytes:
        if name not in self.names:
            raise DocumentError(f"the file is broken: it has no part {name}")
        return self._zip.read(name)

    def xml(self, name: str) -> ET.Element:
        try:
            return ET.fromstring(self.read(name))  # noqa: S314 - without entities, as seen above
        except ET.ParseError as error:
            raise DocumentError(f"the file is broken: {name}: {error}") from error

    def relations(self, name: str) -> dict[str, str]:
        """The parts that a part speaks of, by the identifiers it has for them."""
        folder, _, base = name.rpartition("/")
        path = f"{folder}/_rels/{base}.rels"
        if path not in self.names:
            return {}
        return {
            each.get("Id", ""): posixpath.normpath(posixpath.join("/", folder, each.get("Target", "")))[1:]
            for each in self.xml(path)
        }


def relation_of(element: ET.Element) -> str:
    return element.get(_RELATION, "")


def _refuse_entities(name: str, data: bytes) -> None:
    """Office documents have no document type; whoever writes one wants its entities to be resolved."""
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data or b"<!DOCTYPE" in data[:4096].replace(b"\0", b""):
        raise DocumentError(f"its part {name} declares entities, which no office document does")
