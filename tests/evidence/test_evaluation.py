"""The controller measures, and says when the evaluator is not the one that was agreed on."""

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

from mainspring.events import Blob, Evaluation, MeasurementsTaken, Target
from mainspring.evidence.evaluation import changes_of, evaluate, hashes_of, with_hashes
from mainspring.evidence.frozen_copy import kept_contents
from mainspring.evidence.metrics import Metrics
from mainspring.sandbox.files import Files
from mainspring.sandbox.policy import policy
from mainspring.sandbox.rungs.process import PlainSandbox


class Bench:
    """A workspace with an evaluator, measured in real processes."""

    def __init__(self, folder: Path) -> None:
        self.root = folder.resolve()
        self.files = Files(policy(self.root, home=folder / "home"))
        self.blobs: dict[str, bytes] = {}

    async def keep(self, data: bytes, media_type: str) -> Blob:
        blob = Blob(sha256=hashlib.sha256(data).hexdigest(), size=len(data), media_type=media_type)
        self.blobs[blob.sha256] = data
        return blob

    async def fetch(self, sha256: str) -> bytes | None:
        return self.blobs.get(sha256)

    def frozen(self, evaluation: Evaluation) -> Evaluation:
        return asyncio.run(with_hashes(evaluation, self.files))

    def measure(self, evaluation: Evaluation, timeout_s: float = 20) -> MeasurementsTaken:
        async def scenario() -> MeasurementsTaken | None:
            sandbox = PlainSandbox(environment=dict(os.environ))
            try:
                return await evaluate(
                    evaluation,
                    iteration=1,
                    sandbox=sandbox,
                    files=self.files,
                    keep=self.keep,
                    fetch=self.fetch,
                    timeout_s=timeout_s,
                )
            finally:
                await sandbox.close()

        event = asyncio.run(scenario())
        assert event is not None
        return event

    def output(self, event: MeasurementsTaken) -> bytes:
        assert event.output is not None
        return self.blobs[event.output.sha256]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_the_command_runs_as_often_as_the_goal_says(bench: Bench) -> None:
    command = "echo x >> count; echo METRIC runs=$(wc -l < count) times; echo METRIC other=1"
    event = bench.measure(Evaluation(command=command, repeats=4, metric="runs"))
    assert [item.value for item in event.values if item.metric == "runs"] == [1, 2, 3, 4]
    assert event.is_ours
    assert event.exit_codes == (0, 0, 0, 0)
    assert event.flags == ()
    assert b"METRIC runs=4 times" in bench.output(event)
    assert event.duration_s > 0


def test_without_a_number_it_runs_three_times(bench: Bench) -> None:
    assert len(bench.measure(Evaluation(command="echo METRIC a=1")).values) == 3


def test_a_run_that_failed_does_not_count_and_is_said(bench: Bench) -> None:
    script = (
        "echo x >> count; echo METRIC t=1; if [ $(wc -l < count) = 2 ]; then echo no luck >&2; exit 7; fi"
    )
    event = bench.measure(Evaluation(command=script, repeats=3))
    assert len(event.values) == 2
    assert event.exit_codes == (0, 7, 0)
    assert event.flags == ("run 2 of 3 failed, exit code 7: no luck",)
    assert b"no luck" in bench.output(event)


def test_an_evaluation_that_keeps_failing_is_given_up(bench: Bench) -> None:
    event = bench.measure(Evaluation(command="exit 3", repeats=50))
    assert event.exit_codes == (3, 3)
    assert event.values == ()


def test_an_evaluation_that_hangs_is_ended(bench: Bench) -> None:
    event = bench.measure(Evaluation(command="echo METRIC a=1; sleep 100", repeats=2), timeout_s=0.3)
    assert event.values == ()
    assert "timed out" in event.flags[0]


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("echo hello", "the evaluation printed no METRIC line"),
        ("echo METRIC other=1", "the evaluation printed no METRIC time"),
        ("echo METRIC time=nan", "echo METRIC time=nan: time is nan, which is no result"),
    ],
)
def test_what_is_missing_is_said(bench: Bench, command: str, flag: str) -> None:
    assert flag in bench.measure(Evaluation(command=command, metric="time", repeats=2)).flags


def test_a_goal_without_an_evaluation_is_not_measured(bench: Bench) -> None:
    async def scenario() -> MeasurementsTaken | None:
        sandbox = PlainSandbox(environment=dict(os.environ))
        return await evaluate(Evaluation(), iteration=1, sandbox=sandbox, files=bench.files, keep=bench.keep)

    assert asyncio.run(scenario()) is None


def test_a_changed_evaluator_is_flagged_and_reaches_nothing(bench: Bench) -> None:
    (bench.root / "bench.sh").write_text("echo METRIC time=5 s\n")
    wanted = Evaluation(command="sh bench.sh", repeats=3, frozen=("bench.sh",), metric="time")
    evaluation = bench.frozen(wanted)
    assert bench.measure(evaluation).flags == ()
    (bench.root / "bench.sh").write_text("echo METRIC time=0 s\n")
    event = bench.measure(evaluation)
    assert event.flags == ("the evaluator was changed: bench.sh is another",)
    metrics = Metrics()
    metrics.apply(event)
    assert metrics.reached(Target(metric="time", relation="<", value=1))[0] is False


def test_an_evaluator_that_changes_itself_meanwhile_is_flagged(bench: Bench) -> None:
    (bench.root / "data").write_text("1")
    evaluation = bench.frozen(Evaluation(command="echo 2 > data; echo METRIC a=1", frozen=("data",)))
    assert bench.measure(evaluation).flags == ("the evaluator was changed: data is another",)


def test_folders_patterns_missing_files_and_links_can_be_frozen(bench: Bench) -> None:
    (bench.root / "tests").mkdir()
    (bench.root / "tests/a.py").write_text("a")
    (bench.root / "one.json").write_text("{}")
    (bench.root / "real").write_text("real")
    (bench.root / "link").symlink_to("real")
    evaluation = bench.frozen(Evaluation(frozen=("tests", "*.json", "absent.txt", "link")))
    assert [frozen.path for frozen in evaluation.hashes] == ["absent.txt", "link", "one.json", "tests/a.py"]
    assert changes_of(evaluation, bench.files) == []
    (bench.root / "tests/b.py").write_text("b")
    (bench.root / "one.json").unlink()
    (bench.root / "absent.txt").write_text("here")
    (bench.root / "other").write_text("other")
    (bench.root / "link").unlink()
    (bench.root / "link").symlink_to("other")
    assert changes_of(evaluation, bench.files) == [
        "the evaluator was changed: absent.txt is new",
        "the evaluator was changed: link is another",
        "the evaluator was changed: one.json is gone",
        "the evaluator was changed: tests/b.py is new",
    ]


def test_many_changes_are_counted(bench: Bench) -> None:
    (bench.root / "tests").mkdir()
    evaluation = bench.frozen(Evaluation(frozen=("tests",)))
    for number in range(40):
        (bench.root / f"tests/{number}.py").write_text("x")
    flags = changes_of(evaluation, bench.files)
    assert len(flags) == 6
    assert flags[-1] == "the evaluator was changed: 35 more files"


def test_pipes_and_what_lies_outside_are_not_read(bench: Bench) -> None:
    os.mkfifo(bench.root / "pipe")
    (bench.root / "zero").symlink_to("/dev/zero")
    assert [frozen.sha256 for frozen in hashes_of(("pipe", "zero"), bench.files)] == ["", ""]


def test_a_changed_evaluator_is_run_from_its_frozen_copy(bench: Bench) -> None:
    (bench.root / "lib").mkdir()
    (bench.root / "bench.sh").write_text("cat lib/scale; echo; echo METRIC time=$(cat answer) s\n")
    (bench.root / "lib/scale").write_text("1")
    (bench.root / "answer").write_text("5")
    evaluation = bench.frozen(
        Evaluation(command="sh bench.sh", repeats=3, frozen=("bench.sh", "lib"), metric="time")
    )
    asyncio.run(kept_contents(evaluation.hashes, bench.files, bench.keep))
    (bench.root / "bench.sh").write_text("echo METRIC time=0 s\n")
    (bench.root / "lib/scale").unlink()
    (bench.root / "lib/extra").write_text("x")
    (bench.root / "answer").write_text("4")
    event = bench.measure(evaluation)
    assert [item.value for item in event.values] == [4.0, 4.0, 4.0]
    assert event.flags == (
        "measured with the frozen files as they were, since bench.sh is another",
        "measured with the frozen files as they were, since lib/extra is new",
        "measured with the frozen files as they were, since lib/scale is gone",
    )
    assert (bench.root / "bench.sh").read_text() == "echo METRIC time=0 s\n", (
        "the workspace is left as it was"
    )
    metrics = Metrics()
    metrics.apply(event)
    assert metrics.reached(Target(metric="time", relation="<", value=5))[0] is True


def test_the_copy_holds_no_secrets_and_links_dependencies(bench: Bench) -> None:
    (bench.root / "eval.sh").write_text("ls -A\n")
    (bench.root / ".env").write_text("KEY=secret")
    (bench.root / "node_modules").mkdir()
    (bench.root / "__pycache__").mkdir()
    (bench.root / "link").symlink_to("eval.sh")
    evaluation = bench.frozen(Evaluation(command="sh eval.sh", frozen=("eval.sh",)))
    asyncio.run(kept_contents(evaluation.hashes, bench.files, bench.keep))
    (bench.root / "eval.sh").write_text("echo METRIC t=0\n")
    assert bench.output(bench.measure(evaluation)).split() == [b"eval.sh", b"link", b"node_modules"]
