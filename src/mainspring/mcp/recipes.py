"""Servers that can be added by their name alone: a browser, by `@playwright/mcp` and the chromium here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from mainspring.errors import UsageError
from mainspring.mcp.settings import McpServerSettings

BROWSER = "playwright"
BROWSER_PACKAGE = "@playwright/mcp@0.0.83"
_SCRIPT = Path("node_modules/@playwright/mcp/cli.js")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_OPTIONS = ("--headless", "--isolated", "--no-sandbox")
"""A sandbox of its own cannot be nested in ours, which confines the browser already."""


def known_server(name: str, workspace: Path, environment: Mapping[str, str]) -> McpServerSettings:
    """The settings of a server by its name; raises `UsageError` when it is not known or cannot run here."""
    if name != BROWSER:
        raise UsageError(
            f"What {name} is was not said.",
            remedy=f"Give its address, or: mainspring mcp add {name} -- COMMAND",
        )
    path = environment.get("PATH", "")
    script = (workspace / _SCRIPT).resolve()
    is_installed = script.is_file()
    program = shutil.which("node" if is_installed else "npx", path=path)
    browser = next(filter(None, (shutil.which(each, path=path) for each in _BROWSERS)), None)
    if program is None:
        raise UsageError(
            "The browser needs Node, which is not on PATH.", remedy="Install it: nodejs and npm."
        )
    if browser is None:
        raise UsageError(
            "There is no chromium or Chrome on PATH.", remedy="Install one: apt-get install chromium."
        )
    home = Path(environment.get("HOME", "/")) / ".cache" / "mainspring" / BROWSER
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    how = (str(script),) if is_installed else ("-y", BROWSER_PACKAGE)
    return McpServerSettings(
        command=program,
        args=(*how, *_OPTIONS, "--executable-path", browser),
        env={"HOME": str(home), "npm_config_cache": str(home / ".npm")},
        writable=(str(home),),
    )
