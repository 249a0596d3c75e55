"""What counts as a measurement of an iteration: new rows, named metrics, declared files; never parameters."""

from __future__ import annotations

from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]


def measured(machine: Machine) -> list[list[tuple[str, float]]]:
    taken = [item for item in events(machine, "MeasurementsTaken") if item["iteration"]]
    return [[(each["metric"], each["value"]) for each in item.get("values", ())] for item in taken]


def test_only_rows_that_are_new_since_the_last_look_are_measured(machine: Machine) -> None:
    (machine.workspace / "runs.csv").write_text("lr,loss\n0.1,0.5\n0.2,0.4\n0.3,0.4\n")
    cases = {
        "t1": f"echo 0.4,0.3 >> runs.csv; echo {DONE!r}",
        "t2": f"echo 0.5,0.1 >> runs.csv; echo {DONE!r}",
    }
    ran = goal(machine, engine(machine, **cases), "--target", "loss<=0.1", "--max-iterations", "2")
    assert ran.returncode == 0, ran.stderr
    assert measured(machine) == [[("loss", 0.3)], [("loss", 0.1)]]
    assert "loss <= 0.1: 0.1 (1 repeat) in iteration 2" in ran.stderr


def test_rows_of_json_lines_and_lists_are_new_once_and_a_file_written_anew_is_read_whole(
    machine: Machine,
) -> None:
    cases = {
        "t1": """echo '{"loss": 3}' > a.jsonl; echo '[{"loss": 30}]' > b.json; echo '{"loss": 300}' > c.json""",
        "t2": """echo '{"loss": 2}' >> a.jsonl; echo '[{"loss": 30}, {"loss": 20}]' > b.json""",
        "t3": """echo '{"loss": 2}' > a.jsonl; echo '{"loss": 300, "n": 1}' > c.json""",
    }
    goal(machine, engine(machine, **cases), "--minimize", "loss", "--max-iterations", "3")
    values = [sorted(value for _, value in taken) for taken in measured(machine)]
    assert values == [[3, 30, 300], [2, 20], [2, 300]]


def test_rows_that_came_while_the_goal_slept_belong_to_the_next_iteration(machine: Machine) -> None:
    work = "sh -c 'sleep 0.2; echo 7 >> runs.csv' > /dev/null 2>&1 &"
    cases = {"t1": f'echo loss > runs.csv; {work} echo "<pid_number>$!</pid_number>"', "t2": "echo hi"}
    goal(machine, engine(machine, **cases), "--minimize", "loss", "--max-iterations", "2")
    assert measured(machine)[-1] == [("loss", 7)]


def test_parameters_and_axes_are_no_metrics_and_stand_beside_the_results(machine: Machine) -> None:
    table = "echo step,lr,loss > runs.csv; echo 1,0.01,0.2 >> runs.csv"
    cases = {
        "t1": f"{table}; echo PARAM lr=0.01; echo PARAM name=big one",
        "t2": 'grep -q "loss (lower is better): .*with lr=0.01, name=big one" <<<"$prompt" && touch told',
    }
    goal(machine, engine(machine, **cases), "--minimize", "loss", "--max-iterations", "2")
    assert measured(machine) == [[("loss", 0.2)]]
    assert (machine.workspace / "told").exists()
    report = machine.run("goal", "report").stdout
    assert "lr=0.01, name=big one" in report


def test_of_a_declared_file_every_number_is_a_metric(machine: Machine) -> None:
    cases = {"t1": "echo a,b > x.csv; echo 1,2 >> x.csv; echo c > y.csv; echo 3 >> y.csv"}
    goal(machine, engine(machine, **cases), "--results", "x.csv", "--max-iterations", "1")
    assert measured(machine) == [[("a", 1), ("b", 2)]]


def test_an_evaluation_that_fails_each_time_is_not_told_as_a_measurement(machine: Machine) -> None:
    options = ("--evaluate", "exit 3", "--minimize", "loss", "--max-iterations", "1")
    ran = goal(machine, engine(machine, t1="date > f"), *options)
    assert "The one iteration is used up." in ran.stderr
    report = machine.run("goal", "report").stdout
    assert "mainspring ran `exit 3` itself, and measured nothing." in report
    assert "Measured by mainspring itself" not in report


def test_a_best_value_by_an_evaluator_that_the_agent_changed_is_told_as_doubtful(machine: Machine) -> None:
    (machine.workspace / "bench.sh").write_text("echo METRIC loss=5\n")
    cases = {"t1": "true", "t2": "echo 'echo METRIC loss=0' > bench.sh"}
    measure = ("--evaluate", "sh bench.sh", "--minimize", "loss", "--max-iterations", "2")
    goal(machine, engine(machine, **cases), *measure)
    doubt = "the agent wrote or changed bench.sh, and it is not frozen"
    assert [item.get("flags", []) for item in events(machine, "MeasurementsTaken")][-2:] == [[], [doubt]]
    assert f"doubtful: {doubt}" in machine.run("goal", "best").stdout
    assert "to ? 0 (iteration 2" in machine.run("goal", "report").stdout
