"""`export`, `import` and `verify`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mainspring.config import load_config
from mainspring.errors import UsageError
from mainspring.journal.shelf import Shelf
from mainspring.journal.transfer import export_session, import_session
