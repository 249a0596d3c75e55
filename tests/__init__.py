"""The tests, laid out as src/mainspring is; a package, so that no folder here is taken for another module."""

from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
