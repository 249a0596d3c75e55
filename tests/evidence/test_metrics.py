"""Measurements: read where people and programs write them, and judged against the noise."""

import math
import random
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.events import Measurement, MeasurementsTaken, Target
from mainspring.evidence.metrics import EVALUATOR_CHANGED, Metrics, Summary, compare
from mainspring.evidence.plots import line_plot
from mainspring.evidence.readings import MAX_VALUES, read_file, read_lines


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("METRIC time=1.25 s", ("time", 1.25, "s")),
        ("METRIC time = 1.2e-3 s", ("time", 1.2e-3, "s")),
        ("  METRIC val/loss.final=-3  \r", ("val/loss.final", -3.0, "")),
        ("METRIC accuracy=93.5%", ("accuracy", 93.5, "%")),
        ("METRIC speed=.5 [GB/s]", ("speed", 0.5, "GB/s")),
        ("METRIC n=7.", ("n", 7.0, "")),
    ],
)
def test_a_metric_line_is_read(line: str, expected: tuple[str, float, str]) -> None:
    (value,) = read_lines(f"before\n{line}\nafter").values
    assert (value.metric, value.value, value.unit) == expected


@pytest.mark.parametrize(
    "line",
    [
        "METRIC time=nan",
        "METRIC time=-inf s",
        "METRIC time=1e999",
        "METRIC time=1,5 s",
        "METRIC time=fast",
        "METRIC =3",
        "METRIC a b=3",
        "METRIC time=1 s s",
        "METRIC time=1 2",
        "METRIC x=" + "1" * 400,
    ],
)
def test_a_line_that_gives_no_number_is_noted(line: str) -> None:
    readings = read_lines(line, "run")
    assert readings.values == ()
    assert readings.notes[0].startswith("run: ")


@pytest.mark.parametrize("line", ["metric a=1", "# METRIC a=1", "the METRIC a=1", "METRICS a=1"])
def test_what_only_looks_like_a_metric_line_is_text(line: str) -> None:
    readings = read_lines(line)
    assert (readings.values, readings.notes) == ((), ())


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("r.json", '{"time": 1.5, "ok": true, "name": "x", "n": 3}', [("time", 1.5, ""), ("n", 3, "")]),
        ("r.json", '[{"time": 1}, {"time": 2}]', [("time", 1, ""), ("time", 2, "")]),
        ("r.json", '{"test": {"loss": [0.5, 0.25]}}', [("test.loss", 0.5, ""), ("test.loss", 0.25, "")]),
        ("r.json", '{"metric": "time", "value": 4, "unit": "ms"}', [("time", 4, "ms")]),
        ("r.jsonl", '{"a": 1}\n\n{"a": 2}\n', [("a", 1, ""), ("a", 2, "")]),
        ("r.csv", "name,time [ms]\nx,1\ny,2\n", [("time", 1, "ms"), ("time", 2, "ms")]),
        ("r.tsv", "a\tb\n1\t\n2\tz\n", [("a", 1, ""), ("a", 2, "")]),
        ("r.csv", "metric,value,unit\ntime,1.5,s\nbad,x,s\n", [("time", 1.5, "s")]),
        ("r.CSV", "\ufeffa;b\n1;2\n", [("a", 1, ""), ("b", 2, "")]),
        ("notes.txt", "time=3", []),
        ("r.json", "{broken", []),
        ("r.json", "[" * 100_000, []),
        ("r.json", '{"a": NaN, "b": 1e400}', []),
        ("r.csv", "", []),
    ],
)
def test_result_files_are_read(name: str, text: str, expected: list[tuple[str, float, str]]) -> None:
    found = read_file(name, text.encode()).values
    assert [(item.metric, item.value, item.unit) for item in found] == expected


def test_what_is_read_is_bounded() -> None:
    many = read_file("r.csv", b"a\n" + b"1\n" * (MAX_VALUES + 5))
    assert len(many.values) == MAX_VALUES
    assert "more than 10,000" in many.notes[0]
    assert "larger than 2 MB" in read_file("r.json", b" " * 2_000_001).notes[0]
    assert len(read_lines("\n".join(f"METRIC bad={n}x y" for n in range(100))).notes) == 20


@given(st.text(max_size=200), st.sampled_from(["r.json", "r.csv", "r.jsonl", "r.tsv"]))
def test_whatever_is_read_only_finite_values_of_printable_metrics_come_out(text: str, name: str) -> None:
    for found in (read_file(name, text.encode()), read_lines(f"METRIC {text}\nMETRIC a={text}")):
        assert all(item.metric and item.metric.isprintable() for item in found.values)
        assert all(math.isfinite(item.value) for item in found.values)
        assert all(map(str.isprintable, found.notes))


def row(iteration: int, *values: float) -> Summary:
    return Summary(iteration=iteration, values=values)


@pytest.mark.parametrize(
    ("old", "new", "outcome"),
    [
        ((1.00, 1.01, 1.02), (0.80, 0.81, 0.82), "better"),
        ((1.00, 1.01, 1.02), (1.20, 1.21, 1.22), "worse"),
        ((1.00, 1.10, 0.90), (1.01, 1.08, 0.93), "same"),
        ((1.0, 1.0), (0.5, 0.5), "too few"),
        ((1.0,), (0.5, 0.5, 0.5), "too few"),
        ((1.0, 1.0, 1.0), (0.9, 0.9, 0.9), "better"),
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "same"),
        ((0.1 + 0.2,) * 3, (0.3,) * 3, "same"),
        ((1.0, 1.0, 1.5), (1.1, 1.1, 0.5), "same"),
        ((1.00, 1.01, 1.02, 0.99, 9.0), (0.90, 0.91, 0.92, 0.89, 0.90), "better"),
    ],
)
def test_better_and_worse_are_decided_against_the_noise(
    old: tuple[float, ...], new: tuple[float, ...], outcome: str
) -> None:
    assert compare(row(1, *old), row(2, *new), "lower").outcome == outcome
    turned = {"better": "worse", "worse": "better"}.get(outcome, outcome)
    assert compare(row(1, *old), row(2, *new), "higher").outcome == turned


@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize("has_outliers", [False, True])
def test_noise_alone_is_seldom_called_a_difference(repeats: int, has_outliers: bool) -> None:
    draw = random.Random(7)

    def noise(shift: float = 0.0) -> Summary:
        wild = [8 * abs(draw.gauss(0, 1)) * (has_outliers and draw.random() < 0.15) for _ in range(repeats)]
        return row(1, *(draw.gauss(10, 1) + shift + extra for extra in wild))

    wrong = sum(compare(noise(), noise(), "lower").outcome != "same" for _ in range(8000))
    right = sum(compare(noise(), noise(-4), "lower").outcome == "better" for _ in range(1000))
    assert wrong / 8000 < 0.075
    assert right > {3: 330, 5: 700, 10: 950}[repeats]


def taken(iteration: int, *values: float, unit: str = "s", is_ours: bool = True) -> MeasurementsTaken:
    measured = tuple(Measurement(metric="time", value=value, unit=unit) for value in values)
    return MeasurementsTaken(iteration=iteration, values=measured, is_ours=is_ours)


def metrics(*events: MeasurementsTaken) -> Metrics:
    folded = Metrics()
    for event in events:
        folded.apply(event)
    return folded


def test_the_table_has_unit_repeats_mean_and_spread() -> None:
    folded = metrics(taken(1, 1.0, 2.0, 6.0), taken(2, 5.0))
    first, second = folded.table("time")
    assert folded.unit("time") == "s"
    assert (first.repeats, first.mean, first.median, first.mad) == (3, 3.0, 2.0, 1.0)
    assert first.sd == pytest.approx(2.6457, abs=1e-3)
    assert (second.repeats, second.sd, second.mad) == (1, 0.0, 0.0)


def test_what_we_measured_counts_before_what_the_agent_says() -> None:
    folded = metrics(taken(1, 0.001, is_ours=False), taken(1, 2.0, 2.1, 2.2), taken(1, 0.002, is_ours=False))
    (only,) = folded.table("time")
    assert (only.median, only.is_ours) == (2.1, True)
    target = Target(metric="time", relation="<", value=1.0)
    assert folded.reached(target)[0] is False
    reported = metrics(taken(1, 0.001, is_ours=False))
    assert reported.reached(target)[0] is True
    assert reported.reached(target, needs_ours=True) == (False, "time < 1: nothing was measured by us")


def test_another_unit_is_flagged_and_left_out() -> None:
    folded = metrics(taken(1, 1.0, 1.0), taken(2, 900.0, unit="ms"), taken(2, 0.9, unit=""))
    assert [summary.values for summary in folded.table("time")] == [(1.0, 1.0), (0.9,)]
    assert folded.flags(2) == ("time is in ms here and in s before; left out",)


@pytest.mark.parametrize(
    ("relation", "value", "is_reached"),
    [("<", 1.0, False), ("<=", 1.0, True), (">", 0.5, True), (">=", 1.1, False), ("==", 1.0 + 1e-15, True)],
)
def test_a_target_is_reached_by_the_newest_median(relation: str, value: float, is_reached: bool) -> None:
    folded = metrics(taken(1, 9.0), taken(2, 0.9, 1.0, 55.0))
    target = Target(metric="time", relation=relation, value=value)  # pyright: ignore[reportArgumentType]
    assert folded.reached(target)[0] is is_reached
    assert folded.reached(Target(metric="other", relation="<", value=1))[0] is False


def test_a_target_is_not_reached_with_a_changed_evaluator() -> None:
    changed = MeasurementsTaken(
        iteration=1,
        is_ours=True,
        values=(Measurement(metric="time", value=0.1),),
        flags=(f"{EVALUATOR_CHANGED}: bench.py",),
    )
    is_reached, said = metrics(changed).reached(Target(metric="time", relation="<", value=1))
    assert not is_reached
    assert "bench.py" in said


def test_best_plateau_and_dead_ends_feed_the_next_prompt() -> None:
    folded = metrics(
        taken(1, 2.0, 2.0, 2.1),
        taken(2, 1.0, 1.01, 1.02),
        taken(3, 3.0, 3.1, 3.2),
        taken(4, 1.0, 1.01, 1.03),
        taken(5, 1.0, 1.01, 1.02),
    )
    course = folded.course("time", "lower")
    assert course is not None
    assert (course.best.iteration, course.is_sure, course.since_best) == (2, True, 3)
    assert folded.lines("time", "lower") == (
        "time (lower is better): best so far 1.01 ± 0.01 s (3 repeats), iteration 2.",
        "Plateau: 3 iterations without a better time; try another idea.",
        "Dead end: iteration 3 made time worse, 1.01 to 3.1 ± 0.1 s (3 repeats).",
    )
    assert folded.lines("nothing", "lower") == ()


def test_too_few_repeats_are_said_to_be_unsure() -> None:
    course = metrics(taken(1, 2.0), taken(2, 1.0)).course("time", "lower")
    assert course is not None
    assert (course.best.iteration, course.is_sure) == (2, False)


FINITE = st.floats(-1e150, 1e150)
ROWS = st.lists(st.lists(FINITE, min_size=1, max_size=4), max_size=12)


@given(ROWS, st.text(max_size=10))
def test_a_plot_is_well_formed_whatever_the_numbers(values: list[list[float]], title: str) -> None:
    rows = [Summary(iteration=number, values=tuple(found)) for number, found in enumerate(values)]
    title = "".join(sign for sign in title if sign.isprintable()) + "<&>"
    picture = line_plot(title, "s", rows, best=rows[0] if rows else None)
    root = ET.fromstring(picture)
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == len(rows)
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= 640
        assert 0 <= float(circle.attrib["cy"]) <= 320


def test_what_a_changed_evaluator_measured_is_never_best_nor_told() -> None:
    def measured(iteration: int, value: float, *flags: str) -> MeasurementsTaken:
        values = tuple(Measurement(metric="loss", value=value + n / 1000) for n in range(3))
        return MeasurementsTaken(iteration=iteration, values=values, is_ours=True, flags=flags)

    folded = Metrics()
    folded.apply(measured(1, 0.0, "the evaluator was changed: bench.py is another"))
    assert folded.lines("loss", "lower") == ("Doubtful: the evaluator was changed: bench.py is another.",)
    assert folded.newest("loss") == ()
    folded.apply(measured(2, 5.0))
    folded.apply(measured(3, 4.0))
    folded.apply(measured(4, 0.0, "the evaluator was changed: bench.py is another"))
    course = folded.course("loss", "lower")
    assert course is not None
    assert (course.best.iteration, course.is_sure, course.since_best, course.dead_ends) == (3, True, 0, ())
    told = folded.lines("loss", "lower")
    assert told[0].startswith("loss (lower is better): best so far 4.001")
    assert [row.is_void for row in folded.table("loss")] == [True, False, False, True]
