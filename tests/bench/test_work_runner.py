"""The runner of `bench/work`, end to end against the scripted model server: real harnesses, exact counts."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.work.__main__ import main
from bench.work.baseline import file_blocks
from bench.work.harnesses import Variant
from bench.work.proxy import CountingProxy
from bench.work.report import Record, read, table, wilson
from mainspring.models.scripted import Script
from mainspring.testing.server import HostedModelServer

FIXED = "def to_celsius(fahrenheit):\n    return (fahrenheit - 32) * 5 / 9"
GREETING = "Answer with the complete new content"


def reply(tokens_in: int, tokens_out: int, cached: int = 0, **said: Any) -> dict[str, Any]:
    usage = {"input_tokens": tokens_in, "output_tokens": tokens_out, "cached_tokens": cached}
    return {"usage": usage, **said}


def call(name: str, **arguments: Any) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments}]


def script(*cases: tuple[str, list[dict[str, Any]]]) -> Script:
    return msgspec.convert({"cases": [{"contains": text, "replies": said} for text, said in cases]}, Script)


def run(server: HostedModelServer, out: Path, *arguments: str) -> list[Record]:
    main(["--model", "scripted", "--base-url", server.url, "--out", str(out), *arguments])
    return read([out])


def test_two_tasks_run_through_both_harnesses_and_every_token_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = f"{FIXED}\n\n\ndef to_fahrenheit(celsius):\n    return celsius * 9 / 5 + 32"
    wrong = '### greet.py\n```python\nprint("Hello!")\n```'
    edit = {"old": "fahrenheit - 32 * 5 / 9", "new": "(fahrenheit - 32) * 5 / 9"}
    ours = [
        reply(1000, 10, calls=call("read", path="temperature.py")),
        reply(1100, 20, 900, calls=call("edit", path="temperature.py", edits=[edit])),
        reply(1200, 30, 1050, text="Fixed."),
    ]
    said = script(
        ("### temperature.py\\n```",
         [reply(111, 22, 33, text=f"### temperature.py\n```python\n{both}\n```")]),
        (GREETING, [reply(70, 7, text=wrong)]),
        ("to_celsius", ours),
        ("--upper", [reply(900, 5, text="I cannot do that.")]),
    )  # fmt: skip
    tasks = ("--task", "04-*", "--task", "13-*")
    with HostedModelServer(said) as server:
        records = run(
            server, tmp_path / "out.jsonl", "--harness", "mainspring", "--harness", "oneshot", *tasks
        )
    found = {(each.task[:2], each.harness): each for each in records}
    assert {key: each.solved for key, each in found.items()} == {
        ("04", "mainspring"): True,
        ("04", "oneshot"): True,
        ("13", "mainspring"): False,
        ("13", "oneshot"): False,
    }
    counted = {
        key: (each.steps, each.tokens_in, each.tokens_out, each.tokens_cached, each.largest)
        for key, each in found.items()
    }
    assert counted[("04", "mainspring")] == (3, 3300, 60, 1950, 1200)
    assert counted[("04", "oneshot")] == (1, 111, 22, 33, 111)
    assert counted[("13", "mainspring")][:3] == (1, 900, 5)
    assert counted[("13", "oneshot")] == (1, 70, 7, 0, 70)
    assert not any(each.estimated for each in records)
    printed = capsys.readouterr().out
    assert "| mainspring | scripted | 1/2 (50%) | 9%–91% |" in printed
    assert "| 04-py-fahrenheit | 1/1 | 1/1 |" in printed


def test_the_retry_baseline_shows_the_failure_and_starts_again_from_the_files_as_they_were(
    tmp_path: Path,
) -> None:
    right = "### items.py\n```\ndef last_items(items, count):\n    return items[len(items) - count:]\n```"
    wrong = "### items.py\n```\ndef last_items(items, count):\n    return [7]\n```\n### more.py\n```\nx\n```"
    said = script(("[7] != [3, 4]", [reply(20, 2, text=right)]), (GREETING, [reply(10, 1, text=wrong)]))
    with HostedModelServer(said) as server:
        (record,) = run(server, tmp_path / "out.jsonl", "--harness", "retry", "--task", "01-*")
        second = server.seen[1].json()["messages"][0]["content"]
    assert record.solved
    assert (record.steps, record.tokens_in, record.tokens_out) == (2, 30, 3)
    assert "more.py" not in second
    assert "count - 1:]" in second


def test_any_command_is_a_harness_and_sees_neither_checks_nor_other_folders(tmp_path: Path) -> None:
    look = "sh -c 'ls {workspace} > seen.txt; cat {prompt_file} >> seen.txt; echo south > answer.txt; exit 3'"
    with HostedModelServer(script()) as server:
        (record,) = run(
            server,
            tmp_path / "out.jsonl",
            "--harness",
            f"mine={look}",
            "--task",
            "28-*",
            "--logs",
            str(tmp_path),
        )
    assert (record.harness, record.solved, record.ending, record.steps) == ("mine", True, "exit 3", 0)


def test_attempts_that_are_on_record_are_not_repeated_when_resuming(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    arguments = ("--harness", "mine=true", "--task", "28-*", "--repeat", "2", "--resume")
    with HostedModelServer(script()) as server:
        first = run(server, out, *arguments)
        assert run(server, out, *arguments) == first
    assert [record.repeat for record in first] == [0, 1]


def test_the_proxy_fills_in_seed_and_temperature_and_counts_a_stream(tmp_path: Path) -> None:
    said = script(("hello", [reply(40, 4, 30, text="hi")]))
    with (
        HostedModelServer(said) as server,
        CountingProxy(server.url, seed=3, temperature=0.5, key="k") as proxy,
    ):
        for stream in (True, False):
            body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]}
            body |= {} if stream else {"temperature": 0.9}
            asked = urllib.request.Request(
                f"{proxy.url}/chat/completions",
                json.dumps(body).encode(),
                {"content-type": "application/json"},
            )
            urllib.request.urlopen(asked).read()
        first, second = (seen.json() for seen in server.seen)
        assert server.seen[0].headers["authorization"] == "Bearer k"
    assert (first["seed"], first["temperature"], second["temperature"]) == (3, 0.5, 0.9)
    assert first["stream_options"] == {"include_usage": True}
    assert [(each.prompt, each.completion, each.cached) for each in proxy.exchanges] == [(40, 4, 30)] * 2


def test_variants_become_settings_of_ours_and_part_of_the_name() -> None:
    variant = Variant(profile="small", without=("priming",), settings=("idle_steps = 3", "[retry]"))
    lines = variant.config().splitlines()
    assert lines[1:] == ['work.profile = "small"', 'work.priming = "off"', "idle_steps = 3", "[retry]"]
    assert variant.label == "small, without priming, idle_steps = 3, [retry]"


def test_files_are_found_in_the_forms_that_models_use() -> None:
    assert file_blocks("### a.py\n```python\nx\n```", {}) == {"a.py": "x\n"}
    assert file_blocks("**`lib/a.js`**:\n\n```js\nx\ny\n```", {}) == {"lib/a.js": "x\ny\n"}
    assert file_blocks("Here:\n```python a.py\nx\n```\n", {}) == {"a.py": "x\n"}
    assert file_blocks("Sure.\n```\nx\n```", {"only.sh": ""}) == {"only.sh": "x\n"}
    assert file_blocks("```\n### a.py\nx\n```", {"a.py": "", "test_a.py": ""}) == {"a.py": "x\n"}
    assert file_blocks("### test_a.py\n```\nx\n```", {"a.py": "", "test_a.py": ""}) == {}
    assert file_blocks("### a.py\n```\ncut off", {}) == {"a.py": "cut off\n"}
    assert file_blocks("no file", {"a": "", "b": ""}) == {}


def test_confidence_intervals_hold_at_the_edges() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    low, high = wilson(0, 10)
    assert (low, round(high, 3)) == (0.0, 0.278)
    low, high = wilson(5, 10)
    assert (round(low, 3), round(high, 3)) == (0.237, 0.763)


def test_a_skipped_task_is_named_and_counted_nowhere() -> None:
    numbers = {"steps": 0, "tokens_in": 0, "tokens_out": 0, "tokens_cached": 0, "largest": 0, "estimated": 0}
    skipped = Record(
        task="15-js", harness="x", model="m", repeat=0, solved=False, ending="", detail="", seconds=0.0,
        skipped="node is not installed", **numbers,
    )  # fmt: skip
    assert "15-js: node is not installed" in table([skipped])
    assert "| x |" not in table([skipped])


def test_a_model_that_cannot_be_asked_ends_the_run_and_counts_as_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with pytest.raises(SystemExit, match="--resume"):
        main(
            ["--model", "gone", "--base-url", "http://127.0.0.1:9/v1", "--out", str(out),
             "--harness", "oneshot", "--task", "28-*"]
        )  # fmt: skip
    assert not out.exists()


CHANGE = [{"old": "len(items) - count - 1:", "new": "len(items) - count:"}]
WORK = [
    reply(0, 20, calls=call("read", path="items.py")),
    reply(0, 80, calls=call("edit", path="items.py", edits=CHANGE)),
    reply(0, 40, calls=call("shell", command="python3 -m unittest -q")),
    reply(0, 100, text="Fixed; `python3 -m unittest -q` exits with 0."),
]
DRAFT = "### items.py\n```python\ndef last_items(items, count):\n    return items[len(items) - count:]\n```"
ANSWER = '{"action": "answer", "text": "Done."}'


@pytest.mark.parametrize(
    ("profile", "replies", "most"),
    [
        ("standard", WORK, 15_000),
        ("small", [reply(0, 60, text=DRAFT), reply(0, 10, text=ANSWER)], 3_000),
    ],
)
def test_a_strong_models_transcript_solves_a_small_task_within_its_tokens(
    tmp_path: Path, profile: str, replies: list[dict[str, Any]], most: int
) -> None:
    """Counted as a quarter of the bytes that are sent, which is more than tokenizers count for such text."""
    said = script(("last_items", replies))
    with HostedModelServer(said) as server:
        (record,) = run(server, tmp_path / "out.jsonl", "--task", "01-*", "--profile", profile)
        sent = sum(len(seen.body) for seen in server.seen if seen.method == "POST")
    assert record.solved
    assert record.steps == len(replies)
    assert sent / 4 + record.tokens_out <= most
