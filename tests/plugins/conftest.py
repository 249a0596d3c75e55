"""Distributions of plugins, as an installer leaves them: a module, and metadata beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Machine

HEAD = "import mainspring\nfrom mainspring.plugins import Plugin\n\n"
GREETING = HEAD + (
    'async def greet(name: str) -> str:\n    """Greets somebody."""\n    return f"Hello, {name}!"\n\n'
    'PLUGIN = Plugin(name="greeting", api=1, tools=(mainspring.tool(greet, effect="read"),))\n'
)


class Site:
    """A folder of installed distributions, which a `Machine` has on PYTHONPATH."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder = folder
        self.machine = machine
        self.variables = {"PYTHONPATH": str(folder)}

    def install(
        self, name: str, source: str, *, entry: str = "", target: str = "", version: str = "1.0"
    ) -> None:
        module = f"{name.replace('-', '_')}_plugin"
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"mainspring_{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True, exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: mainspring-{name}\nVersion: {version}\n"
        )
        points = f"[mainspring.plugins]\n{entry or name} = {target or f'{module}:PLUGIN'}\n"
        (info / "entry_points.txt").write_text(points)

    def run(self, *arguments: str) -> str:
        ran = self.machine.run(*arguments, **self.variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout + ran.stderr


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    for server in made.servers:
        server.__exit__(None, None, None)


@pytest.fixture
def site(tmp_path: Path, machine: Machine) -> Site:
    folder = tmp_path / "site"
    folder.mkdir()
    return Site(folder, machine)
