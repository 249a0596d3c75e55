"""What an agent says of its goal counts only in its last message, alone on a line, outside code and quotes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.goals.protocol import DONE, read

FENCE = "```"


@pytest.mark.parametrize(
    ("text", "is_done"),
    [
        (DONE, True),
        (f"All is well.\n\n{DONE}\n", True),
        (f"  {DONE}  \r\nBye.", True),
        (f"I will say {DONE} when it is done.", False),
        (f"{DONE} and more", False),
        (f"{FENCE}\n{DONE}\n{FENCE}", False),
        (f"{FENCE}text\n{DONE}\n{FENCE}\nnot yet", False),
        (f"~~~\n{DONE}\n~~~", False),
        (f"````\n{FENCE}\n{DONE}\n{FENCE}\n````", False),
        (f"{FENCE}\nnever closed\n{DONE}", False),
        (f"{FENCE}\ncode\n{FENCE}\n{DONE}", True),
        (f"> {DONE}", False),
        (f"    {DONE}", False),
        (f"\t{DONE}", False),
        (f"`{DONE}`", False),
        (f'"{DONE}"', False),
        (DONE.lower(), False),
        ("", False),
    ],
)
def test_done_counts_only_when_the_agent_itself_says_it(text, is_done):
    assert read(text).is_done is is_done


def test_processes_jobs_and_a_pause_are_read():
    said = read(
        "<pid_number>123</pid_number>\n<pid_number> 124 </pid_number>\n<pid_number>123</pid_number>\n"
        "<slurm_job_number>77_1</slurm_job_number>\n"
        "<wait_seconds>5</wait_seconds>\n<wait_seconds>2.5</wait_seconds>"
    )
    assert (said.pids, said.jobs, said.wait_s, said.problems) == ((123, 124), ("77_1",), 2.5, ())


@pytest.mark.parametrize(
    "value", ["99999999999999999999", "0", "1", "-5", "12x", "", "1.5", "4194305", "१२३"]
)
def test_an_absurd_process_number_is_a_problem_and_nothing_else(value):
    said = read(f"<pid_number>{value}</pid_number>")
    assert said.pids == ()
    assert len(said.problems) == 1


@pytest.mark.parametrize("value", ["-1", "soon", "1e99", "nan", ""])
def test_an_absurd_pause_is_a_problem(value):
    said = read(f"<wait_seconds>{value}</wait_seconds>")
    assert said.wait_s is None
    assert len(said.problems) == 1


@pytest.mark.parametrize("job", ["1; rm -rf /", "1\u0663"])
def test_a_job_that_no_cluster_gives_is_a_problem(job):
    said = read(f"<slurm_job_number>{job}</slurm_job_number>")
    assert said.jobs == ()
    assert len(said.problems) == 1


@given(
    st.text(),
    st.sampled_from(["pid_number", "slurm_job_number", "wait_seconds"]),
    st.text(alphabet="0123456789.-+e_ ;x\u0663", max_size=12),
)
def test_whatever_is_said_only_what_can_be_waited_for_comes_out(text, word, value):
    for said in (read(text), read(f"{text}\n<{word}>{value}</{word}>")):
        assert all(1 < pid <= 2**22 for pid in said.pids)
        assert all(job.isascii() and " " not in job and ";" not in job for job in said.jobs)
        assert said.wait_s is None or 0 <= said.wait_s <= 31 * 24 * 3600


@given(st.text(alphabet="ab\n `>~"))
def test_done_inside_a_fence_never_counts(inside):
    closing = [line for line in inside.splitlines() if line.strip().startswith("`````")]
    if not closing:
        assert not read(f"`````\n{inside}\n{DONE}\n`````").is_done
