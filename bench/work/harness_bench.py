"""Runs the PyPI package `harness-bench-fast` against mainspring: its own tasks, its own verifiers.

The package is installed in an environment of its own, without the agent framework that it names and that only
its other runners need; so it also runs on Python 3.11. It works offline. Its verifiers run what the model
wrote without a sandbox: use a machine or container that may break.

    python -m bench.work.harness_bench --model NAME --base-url URL
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.work.harnesses import VENVS, Variant
from bench.work.proxy import CountingProxy
from bench.work.report import wilson

SAMPLE = Path(__file__).parent / "harness_bench_60.txt"
_VENV = VENVS / "harness-bench-fast"
_NEEDED = ["openpyxl", "pytest", "python-dotenv", "pyyaml", "tzdata"]


def main() -> None:
    options = _parser().parse_args()
    install()
    tasks = SAMPLE.read_text().split() if not options.task else options.task
    variant = Variant(profile=options.profile, without=tuple(options.without), settings=tuple(options.set))
    key = os.environ.get(options.key_env, "") if options.key_env else ""
    with (
        tempfile.TemporaryDirectory(prefix="work-", ignore_cleanup_errors=True) as scratch,
        CountingProxy(options.base_url, key=key, seed=1, temperature=options.temperature) as proxy,
    ):
        home = Path(scratch) / "mainspring"
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text(variant.config(), encoding="utf-8")
        model = f"openai-compatible@{proxy.url}#{options.model}"
        ours = [sys.executable, "-m", "mainspring", "run", "--json", "--mode", "auto", "--model", model]
        command = shlex.join([*ours, "--timeout", f"{options.timeout:g}", "--"])
        argv = [str(_VENV / "bin" / "python"), "-m", "harness_bench", "run-cli", "--cli-command", command]
        argv += ["--timeout", str(int(options.timeout) + 30), "--json-output", str(options.out.resolve())]
        argv += ["--allow-task-failures", *(word for task in tasks for word in ("--task", task))]
        environment = {**os.environ, "MAINSPRING_HOME": str(home), "NO_PROXY": "127.0.0.1"}
        subprocess.run(argv, env=environment, cwd=scratch, check=True)
    _tell(json.loads(options.out.read_text(encoding="utf-8")), proxy)


def install() -> None:
    if (_VENV / "bin" / "python").exists():
        return
    subprocess.run([sys.executable, "-m", "venv", _VENV], check=True)
    pip = [str(_VENV / "bin" / "pip"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--ignore-requires-python", "harness-bench-fast==0.1.0"], check=True)
    subprocess.run([*pip, *_NEEDED], check=True)


def _tell(report: dict[str, Any], proxy: CountingProxy) -> None:
    done = [bool(each["passed"]) for each in report["tasks"]]
    low, high = wilson(sum(done), len(done))
    spent = sum(each.prompt + each.completion for each in proxy.exchanges)
    print(f"\npassed {sum(done)}/{len(done)} (95 %: {low:.0%}–{high:.0%})")
    print(f"{len(proxy.exchanges)} requests, {spent:,} tokens, of which cached", end=" ")
    print(f"{sum(each.cached for each in proxy.exchanges):,}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.work.harness_bench", description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--key-env", default="")
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a task")
    parser.add_argument("--task", action="append", help="task id; without any, the fixed sample of 60")
    parser.add_argument("--profile", default="")
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--out", type=Path, default=Path("harness-bench.json"), help="its own JSON report")
    return parser


if __name__ == "__main__":
    main()
