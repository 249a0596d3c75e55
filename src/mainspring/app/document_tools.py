"""Whether a session is offered the tool that makes and changes documents: where the libraries are installed
and the workspace has documents, or a person wants it. Nothing of it is loaded otherwise."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path

from mainspring.settings import Config
from mainspring.tools import Tool

_ENDS = (".docx", ".xlsx", ".xlsm", ".pptx", ".pdf")
_MAX_NAMES = 2000


def document_tools(place: Path, config: Config) -> list[Tool]:
    wanted = config.settings.work.documents
    if wanted == "off" or (wanted == "auto" and not _has_documents(place)):
        return []
    module = import_module("mainspring.tools.document")
    return [module.TOOL] if module.is_installed() else []


def _has_documents(place: Path) -> bool:
    """In the folder itself, as far as a glance shows."""
    with suppress(OSError), os.scandir(place) as entries:
        return any(entry.name.lower().endswith(_ENDS) for entry in islice(entries, _MAX_NAMES))
    return False
