"""Harnesses as commands: the four that are built in, and any other as `NAME=COMMAND`.

A command is split like in a shell, then these are filled in: {prompt} (the task's text), {prompt_file},
{workspace} (also its working directory), {model}, {base_url} (of the counting proxy), {test} (the visible
test's command), {home} (a scratch folder), {timeout_s} and {python}. What it runs is confined to workspace
and scratch folder, except mainspring, which confines its own commands.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.work.tasks import TASKS, confined

VENVS = Path(os.environ.get("WORK_VENVS", Path(__file__).parent / ".venvs"))
_GRACE_S = 30.0
_MINI = (
    f"{VENVS}/mini-swe-agent/bin/mini --yolo --exit-immediately -m openai/{{model}} -t {{prompt}}"
    " -c {config} -c model.model_kwargs.api_base={base_url} -c model.cost_tracking=ignore_errors"
    " -c agent.step_limit=40 -o {home}/trajectory.json"
)
BUILT_IN = {
    "mainspring": "{python} -m mainspring run --json --mode auto --timeout {timeout_s} -C {workspace}"
    " --model {model_spec} {options} {prompt}",
    "oneshot": "{python} -m bench.work.baseline {prompt_file} {workspace} {model} {base_url}",
    "retry": "{python} -m bench.work.baseline --attempts 4 --test {test}"
    " {prompt_file} {workspace} {model} {base_url}",
    "mini-swe-agent": _MINI.replace("{config}", "mini.yaml"),
    "mini-swe-agent-text": _MINI.replace("{config}", "mini_textbased.yaml --model-class litellm_textbased"),
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """What is asked of mainspring besides the task: `profile` and `without` become keys of `[work]` in the
    scratch `config.toml`, `settings` are further lines of it, `options` further words of the command line."""

    profile: str = ""
    without: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        parts = [*([self.profile] if self.profile else []), *(f"without {each}" for each in self.without)]
        return ", ".join([*parts, *self.settings, *self.options])

    def config(self) -> str:
        """Dotted keys stand before tables, so what a person gave may be either."""
        dotted = [line for line in self.settings if not line.startswith("[")]
        tables = [line for line in self.settings if line.startswith("[")]
        work = [f'work.profile = "{self.profile}"'] if self.profile else []
        work += [f'work.{each} = "off"' for each in self.without]
        hide = f'sandbox.hide = ["{TASKS}"]'
        return "\n".join([hide, *work, *dotted, *tables]) + "\n"


@dataclass(frozen=True, kw_only=True)
class Harness:
    name: str
    command: str
    variant: Variant = field(default_factory=Variant)

    @property
    def label(self) -> str:
        detail = self.variant.label if self.is_ours else ""
        return f"{self.name} ({detail})" if detail else self.name

    @property
    def is_ours(self) -> bool:
        return self.name == "mainspring"

    @property
    def problem(self) -> str:
        program = Path(shlex.split(self.command)[0])
        if program.is_relative_to(VENVS) and not program.exists():
            return f"{program} is missing: python -m bench.work --install {program.parts[-3]}"
        return ""


def named_harness(text: str, variant: Variant) -> Harness:
    """A built-in harness by its name, or another one as NAME=COMMAND."""
    name, is_given, command = text.partition("=")
    if not is_given and name not in BUILT_IN:
        raise SystemExit(
            f"There is no harness {name}; there are {', '.join(BUILT_IN)}, or give NAME=COMMAND."
        )
    return Harness(name=name, command=command or BUILT_IN[name], variant=variant)


def install(name: str) -> None:
    """Makes the environment of a harness that lives in one of its own."""
    folder = VENVS / name
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # litellm, which mini-swe-agent asks models with, imports mcp without naming it.
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", name, "mcp"], check=True)


@dataclass(frozen=True, kw_only=True)
class Ran:
    ending: str
    output: str


def run_harness(
    harness: Harness,
    *,
    prompt: str,
    workspace: Path,
    home: Path,
    model: str,
    base_url: str,
    test: str,
    timeout_s: float,
) -> Ran:
    """Runs it to its end, or for so long. `base_url` is empty for a model that only mainspring knows."""
    prompt_file = home / "task.md"
    prompt_file.write_text(prompt, encoding="utf-8")
    values = {
        "prompt": prompt,
        "prompt_file": str(prompt_file),
        "workspace": str(workspace),
        "model": model,
        "model_spec": f"openai-compatible@{base_url}#{model}" if base_url else model,
        "base_url": base_url,
        "test": test,
        "home": str(home),
        "timeout_s": f"{timeout_s:g}",
        "python": sys.executable,
    }
    argv = _filled(shlex.split(harness.command), values, harness.variant.options)
    environment = _environment(home, base_url)
    if harness.is_ours:
        folder = home / "mainspring"
        folder.mkdir(mode=0o700)
        (folder / "config.toml").write_text(harness.variant.config(), encoding="utf-8")
        environment["MAINSPRING_HOME"] = str(folder)
    else:
        argv = confined(argv, writable=[workspace, home], is_online=True, readable=_programs())
    return _run(argv, workspace, environment, timeout_s, home / "output.txt")


def _filled(words: Sequence[str], values: dict[str, str], options: Sequence[str]) -> list[str]:
    argv: list[str] = []
    for word in words:
        argv += [*options] if word == "{options}" else [word.format(**values)]
    return argv


def _programs() -> list[Path]:
    """Environments of harnesses, which may be links to where they really are."""
    return [VENVS, *(path.resolve() for path in VENVS.iterdir())] if VENVS.exists() else []


def _environment(home: Path, base_url: str) -> dict[str, str]:
    """What a harness finds: no key, and no home but the scratch one. Without a proxy, ours needs the keys."""
    kept = ("PATH", "LANG", "LC_ALL") if base_url else tuple(os.environ)
    repository = str(Path(__file__).parents[2])
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "HOME": str(home),
        "TMPDIR": str(home) if base_url else "/tmp",
        "PYTHONPATH": repository,
        "PYTHONDONTWRITEBYTECODE": "1",
        "NO_PROXY": "127.0.0.1",
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": base_url,
        "MSWEA_CONFIGURED": "true",
        "MSWEA_GLOBAL_CONFIG_DIR": str(home),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }


def _run(
    argv: Sequence[str], workspace: Path, environment: dict[str, str], timeout_s: float, log: Path
) -> Ran:
    with log.open("wb") as out:
        process = subprocess.Popen(
            argv,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout_s + _GRACE_S)
            ending = "done" if code == 0 else f"exit {code}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            ending = "timeout"
    return Ran(ending=ending, output=log.read_text("utf-8", "replace"))
