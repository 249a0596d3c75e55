"""A browser, as `mainspring mcp add playwright` gives it: npm's `@playwright/mcp` drives Debian's chromium in the
sandbox of a session."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mainspring.errors import UsageError
from mainspring.mcp.recipes import BROWSER_PACKAGE, known_server
from tests.cli.conftest import Machine
from tests.npm import LOCK, MODULES, NODE, needs

SCRIPT = MODULES / "@playwright/mcp/cli.js"
CAPPED = ("--max-cost-usd", "1", "--allow-unpriced")
needs_browser = pytest.mark.skipif(
    not shutil.which("chromium") and not os.environ.get("CI"), reason="chromium is missing: make test-tools"
)


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        page = b"<title>A page</title><button onclick=\"document.title='Pressed'\">Press</button>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        return


@contextmanager
def page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def called(tool: str, **arguments: Any) -> dict[str, Any]:
    given = {"name": f"mcp__playwright__{tool}", "arguments": arguments}
    return {"calls": [{"name": "call_tool", "arguments": given}]}


@needs(SCRIPT)
@needs_browser
def test_a_page_is_opened_and_a_button_pressed(machine: Machine) -> None:
    (machine.workspace / "node_modules").symlink_to(MODULES)
    own = {
        "HOME": str(machine.workspace.parent / "user"),
        "PATH": f"{NODE.parent}:{os.environ['PATH']}",
    }
    added = machine.run("mcp", "add", "playwright", **own)
    assert added.returncode == 0, added.stderr
    press = "async (page) => { await page.getByRole('button').click(); return await page.title(); }"
    with page() as url:
        model = machine.serve(
            called("browser_navigate", url=url),
            called("browser_run_code_unsafe", code=press),
            {"text": "done"},
        )
        ran = machine.run("run", "--mode", "yolo", *CAPPED, "--model", model, "look", **own)
    assert ran.returncode == 0, ran.stderr
    ended = [e["body"] for e in machine.events(machine.only_session()["id"]) if e["kind"] == "CallEnded"]
    assert [each["outcome"] for each in ended] == ["ok", "ok"], ended
    assert "A page" in ended[0]["output"]
    assert "Pressed" in ended[1]["output"]


def test_what_is_missing_for_a_browser_is_said(tmp_path: Path) -> None:
    def program(name: str) -> None:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)

    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path / "user")}
    with pytest.raises(UsageError, match="Node"):
        known_server("playwright", tmp_path, environment)
    program("npx")
    with pytest.raises(UsageError, match="chromium"):
        known_server("playwright", tmp_path, environment)
    program("chromium")
    made = known_server("playwright", tmp_path, environment)
    assert (made.command, made.args[:2]) == (str(tmp_path / "npx"), ("-y", BROWSER_PACKAGE))
    with pytest.raises(UsageError, match="other"):
        known_server("other", tmp_path, environment)


def test_the_lock_is_whole_names_no_host_and_has_the_browser_that_we_offer() -> None:
    packages = json.loads(LOCK.read_text())["packages"]
    assert not [name for name, each in packages.items() if "resolved" in each]
    for name, each in packages.items():
        for wanted in (*each.get("dependencies", ()), *each.get("optionalDependencies", ())):
            folders = [f"{name}/node_modules/{wanted}", f"node_modules/{wanted}"]
            assert any(folder in packages for folder in folders), (
                f"{name} wants {wanted}: npm ci refuses this lock"
            )
    assert f"@playwright/mcp@{packages['node_modules/@playwright/mcp']['version']}" == BROWSER_PACKAGE
