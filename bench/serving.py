"""A scripted model server in a process of its own, so that it does not share our interpreter."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.measure import python


class Served:
    def __init__(self, url: str) -> None:
        self.url = url

    def requests(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.url.removesuffix("/v1") + "/requests") as answer:
            return json.load(answer)


@contextmanager
def served(script: dict[str, Any]) -> Iterator[Served]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(script, file)
        file.flush()
        command = python("-m", "mainspring.testing.server", str(Path(file.name)), "--no-bodies")
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            yield Served(server.stdout.readline().strip())
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()
