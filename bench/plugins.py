"""What plugins add to the start of a run: none, twenty packages with a tool each, twenty approved folders."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from bench.measure import by_turns, command_s, median, ms, python, row
from mainspring.app.operations.trust import approve
from mainspring.models.scripted import Script, ScriptedReply
from mainspring.plugins.folders import read_folder
from mainspring.settings import load_config
from mainspring.testing.server import HostedModelServer

COUNT = 20
ROUNDS = 12
_SOURCE = '''\
import mainspring
from mainspring.plugins import Plugin


@mainspring.tool(effect="read")
async def greet_NUMBER(name: str) -> str:
    """Greets somebody."""
    return f"Hello, {name}!"


PLUGIN = Plugin(name="greet-NUMBER", api=1, tools=(greet_NUMBER,))
'''


def main() -> None:
    script = Script(replies=(ScriptedReply(text="done"),))
    with tempfile.TemporaryDirectory() as folder, HostedModelServer(script) as server:
        place = Path(folder)
        model = f"openai-compatible@{server.url}#m"
        kinds = {
            "none": _environment(place, "none"),
            "packages": _packages(_environment(place, "packages")),
            "folders": _folders(_environment(place, "folders")),
        }
        (place / "work").mkdir()
        asked = ("-m", "mainspring", "run", "-C", str(place / "work"), "--model", model, "go")
        runs = [partial(command_s, python(*asked), env=environment) for environment in kinds.values()]
        for run in runs:
            run()  # makes homes, compiles modules
            run()  # keeps the index
        none, *others = by_turns(ROUNDS, *runs)
    for what, taken in zip(("packages", "folders"), others, strict=True):
        more_s = median([each - base for each, base in zip(taken, none, strict=True)])
        row(
            f"a run with {COUNT} plugins ({what})",
            f"+{ms(more_s)}",
            f"{ms(median(none))} without",
            "target +40 ms",
        )


def _environment(place: Path, name: str) -> dict[str, str]:
    site = place / name / "site"
    site.mkdir(parents=True)
    return {"MAINSPRING_HOME": str(place / name / "home"), "HOME": str(place / name), "PYTHONPATH": str(site)}


def _packages(environment: dict[str, str]) -> dict[str, str]:
    site = Path(environment["PYTHONPATH"])
    for number in range(COUNT):
        (site / f"greet_{number}.py").write_text(_SOURCE.replace("NUMBER", str(number)))
        info = site / f"greet_{number}-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_text(
            f"[mainspring.plugins]\ngreet-{number} = greet_{number}:PLUGIN\n"
        )
    return environment


def _folders(environment: dict[str, str]) -> dict[str, str]:
    config = load_config(environment)
    config.home.mkdir(mode=0o700)
    for number in range(COUNT):
        plugin = config.folder / "plugins" / f"kit-{number}"
        for name in ("one", "two"):
            (plugin / "commands").mkdir(parents=True, exist_ok=True)
            (plugin / "commands" / f"{name}.md").write_text("Say hello.\n" * 40)
        skill = plugin / "skills" / f"skill-{number}"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: skill-{number}\ndescription: Something.\n---\nDo it.\n")
        approve(config, read_folder(plugin).subject)
    return environment
