"""Runs harnesses over tasks with a model, and prints what they solved and what it cost.

python -m bench.work --base-url URL --model NAME --harness oneshot --harness mainspring --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.work.harnesses import BUILT_IN, Harness, Variant, install, named_harness, run_harness
from bench.work.proxy import CountingProxy, Exchange
from bench.work.report import Record, append, by_task, read, table
from bench.work.tasks import TASKS, Task, check, load_tasks, make_workspace

RESULTS = Path(__file__).parent / "results.jsonl"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.install:
        install(options.install)
        return
    if options.report:
        _print(read(options.report))
        return
    if not options.model:
        raise SystemExit("Name a model: --model NAME, with --base-url URL for an OpenAI-compatible server.")
    variant = Variant(
        profile=options.profile,
        without=tuple(options.without),
        settings=tuple(options.set),
        options=tuple(options.option),
    )
    harnesses = [named_harness(text, variant) for text in options.harness or ["mainspring"]]
    for harness in harnesses:
        if harness.problem or not (options.base_url or harness.is_ours):
            raise SystemExit(harness.problem or f"{harness.name} needs --base-url.")
    tasks = load_tasks(options.tasks_folder, options.task)
    earlier = read([options.out]) if options.resume and options.out.exists() else []
    known = {record.key for record in earlier}
    records = [*earlier]
    for repeat in range(options.repeat):
        for task in tasks:
            for harness in harnesses:
                if (task.name, harness.label, options.model, repeat) in known:
                    continue
                record = attempt(task, harness, repeat, options)
                append(options.out, record)
                records.append(record)
                _tell(record)
    _print(records)


def attempt(task: Task, harness: Harness, repeat: int, options: argparse.Namespace) -> Record:
    """One harness, one task, in folders that are gone afterwards."""
    if task.problem:
        return _record(task, harness, repeat, options.model, skipped=task.problem)
    with ExitStack() as stack:
        scratch = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="work-", ignore_cleanup_errors=True))
        )
        workspace = make_workspace(task, scratch / "workspace")
        home = scratch / "home"
        home.mkdir()
        proxy = None
        if options.base_url:
            key = os.environ.get(options.key_env, "") if options.key_env else ""
            proxy = stack.enter_context(
                CountingProxy(options.base_url, key=key, seed=repeat + 1, temperature=options.temperature)
            )
        started = time.monotonic()
        ran = run_harness(
            harness,
            prompt=task.text,
            workspace=workspace,
            home=home,
            model=options.model,
            base_url=proxy.url if proxy else "",
            test=task.test,
            timeout_s=options.timeout,
        )
        seconds = time.monotonic() - started
        exchanges = proxy.exchanges if proxy else _spent(ran.output)
        if exchanges and all(each.status >= 500 for each in exchanges):
            raise SystemExit(f"{options.base_url} answers nothing but errors; go on later with --resume.")
        checked = check(task, workspace, scratch)
        if options.logs:
            log = options.logs / f"{task.name}.{harness.name}.{repeat}.txt"
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(ran.output, encoding="utf-8")
        return _record(
            task,
            harness,
            repeat,
            options.model,
            solved=checked.is_solved,
            ending=ran.ending,
            detail=checked.detail,
            exchanges=exchanges,
            seconds=seconds,
        )


def _record(
    task: Task,
    harness: Harness,
    repeat: int,
    model: str,
    *,
    solved: bool = False,
    ending: str = "",
    detail: str = "",
    exchanges: Sequence[Exchange] = (),
    seconds: float = 0.0,
    skipped: str = "",
) -> Record:
    return Record(
        task=task.name,
        harness=harness.label,
        model=model,
        repeat=repeat,
        solved=solved,
        ending=ending,
        detail=detail,
        steps=sum(each.status == 200 for each in exchanges),
        tokens_in=sum(each.prompt for each in exchanges),
        tokens_out=sum(each.completion for each in exchanges),
        tokens_cached=sum(each.cached for each in exchanges),
        largest=max((each.prompt for each in exchanges), default=0),
        estimated=sum(each.is_estimated for each in exchanges),
        seconds=round(seconds, 2),
        skipped=skipped,
    )


def _spent(output: str) -> list[Exchange]:
    """What mainspring's own events say, for models that it reaches without the proxy."""
    found: list[Exchange] = []
    for line in output.splitlines():
        if '"kind":"SpendSettled"' in line and line.startswith("{"):
            usage = json.loads(line)["body"].get("usage") or {}
            found.append(
                Exchange(
                    status=200,
                    prompt=usage.get("input_tokens", 0),
                    completion=usage.get("output_tokens", 0),
                    cached=usage.get("cached_tokens", 0),
                    seconds=0.0,
                )
            )
    return found


def _tell(record: Record) -> None:
    outcome = f"skipped: {record.skipped}" if record.skipped else "solved" if record.solved else "not solved"
    spent = f"{record.steps} steps, {record.tokens_in} + {record.tokens_out} tokens, {record.seconds:.0f} s"
    print(f"{record.task:<28} {record.harness:<24} {outcome:<11} {record.ending:<8} {spent}", flush=True)


def _print(records: Sequence[Record]) -> None:
    print(f"\n{table(records)}\n\n{by_task(records)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.work", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--model", help="the model's name at --base-url, or one that mainspring knows")
    parser.add_argument(
        "--base-url", default="", help="an OpenAI-compatible server, as http://127.0.0.1:8080/v1"
    )
    parser.add_argument("--key-env", default="", help="environment variable that holds the server's key")
    parser.add_argument(
        "--harness", action="append", help=f"{', '.join(BUILT_IN)}, or NAME=COMMAND; repeatable"
    )
    parser.add_argument("--task", action="append", default=[], help="pattern of task names; repeatable")
    parser.add_argument("--tasks-folder", type=Path, default=TASKS)
    parser.add_argument("--repeat", type=int, default=1, help="attempts per task, with seeds 1, 2, …")
    parser.add_argument("--temperature", type=float, help="where the harness asks for none")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for an attempt")
    parser.add_argument("--profile", default="", help="mainspring: [work] profile")
    parser.add_argument("--without", action="append", default=[], help='mainspring: [work] NAME = "off"')
    parser.add_argument("--set", action="append", default=[], help="mainspring: a line of config.toml")
    parser.add_argument("--option", action="append", default=[], help="mainspring: a word for `run`")
    parser.add_argument("--out", type=Path, default=RESULTS, help="records, one per line")
    parser.add_argument("--logs", type=Path, help="folder for what the harnesses print")
    parser.add_argument("--resume", action="store_true", help="skip attempts that --out has")
    parser.add_argument("--report", type=Path, nargs="+", help="only print the tables of these records")
    parser.add_argument("--install", metavar="HARNESS", help="make the environment of mini-swe-agent")
    return parser


if __name__ == "__main__":
    main()
