"""The conformance suite of hosts, over ssh to a real sshd, with stand-ins for Slurm, and with a double of a hub."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from mainspring.app.operations.doctor import DoctorCheck
from mainspring.app.operations.jobs import check_hosts
from mainspring.cli.doctor import found_and_remedy
from mainspring.errors import JobHostError, UsageError
from mainspring.jobs import JobHost, JobRef
from mainspring.jobs.hosts import open_host
from mainspring.jobs.remote import answer_of, status_of
from mainspring.jobs.settings import HardwareSettings, JobHostSettings
from mainspring.sandbox import Sandbox
from mainspring.sandbox.rungs.process import PlainSandbox
from mainspring.testing import jobs as suite
from tests.jobs.hub_double import TOKEN, HubDouble
from tests.jobs.slurm_stand_in import install
from tests.jobs.stage import config_of
from tests.ssh_server import ssh_server

Check = Callable[[JobHost, str], Awaitable[None]]


@contextmanager
def settings_of(kind: str, folder: Path) -> Generator[tuple[JobHostSettings, dict[str, str]]]:
    """Settings of a host of this kind, and the environment to reach it in."""
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    if kind == "ssh":
        options = ssh_server().options
        yield (
            JobHostSettings(host="machine", ssh_options=options, folder=str(folder / "jobs")),
            environment,
        )
    elif kind == "slurm":
        environment["PATH"] = f"{install(folder / 'slurm')}:{environment['PATH']}"
        yield JobHostSettings(kind="slurm", folder=str(folder / "jobs")), environment
    else:
        hub = HubDouble()
        try:
            yield (
                JobHostSettings(kind="hub", url=hub.url, namespace="me"),
                {**environment, "HF_TOKEN": TOKEN},
            )
        finally:
            hub.close()


def run(
    settings: JobHostSettings, environment: dict[str, str], work: Callable[[JobHost], Awaitable[None]]
) -> None:
    async def outside() -> Sandbox:
        return PlainSandbox(environment=environment)

    async def opened() -> None:
        host = open_host(settings, environment, outside)
        try:
            await work(host)
        finally:
            await host.close()

    asyncio.run(opened())


@pytest.mark.parametrize("kind", ["ssh", "slurm", "hub"])
@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
def test_a_host_does_what_the_port_says(kind: str, check: Check, tmp_path: Path) -> None:
    with settings_of(kind, tmp_path) as (settings, environment):
        run(settings, environment, lambda host: check(host, "ms-suite-j1"))


@pytest.mark.parametrize("kind", ["ssh", "slurm"])
def test_files_go_there_and_come_back(kind: str, tmp_path: Path) -> None:
    with settings_of(kind, tmp_path) as (settings, environment):
        run(
            settings,
            environment,
            lambda host: suite.files_go_there_and_come_back(host, "ms-suite-j1", tmp_path),
        )


def test_what_a_job_leaves_running_over_ssh_ends_with_it(tmp_path: Path) -> None:
    async def work(host: JobHost) -> None:
        command = "sh -c 'echo $$ > left; exec sleep 300' & while [ ! -s left ]; do sleep 0.02; done"
        submitted = await host.submit(suite.spec_of("ms-left-j1", command))
        await suite.until(host, JobRef("ms-left-j1", submitted.remote), "done")

    with settings_of("ssh", tmp_path) as (settings, environment):
        run(settings, environment, work)
    left = int((tmp_path / "jobs/ms-left-j1/work/left").read_text())
    assert not Path(f"/proc/{left}").exists() or "Z" in Path(f"/proc/{left}/stat").read_text().split()[2]


def test_a_job_whose_shell_was_killed_is_lost(tmp_path: Path) -> None:
    async def work(host: JobHost) -> None:
        submitted = await host.submit(suite.spec_of("ms-lost-j1", "sleep 300"))
        job = JobRef("ms-lost-j1", submitted.remote)
        await suite.until(host, job, "running")
        pid = int((tmp_path / "jobs/ms-lost-j1/pid").read_text().split()[0])
        os.killpg(pid, 9)
        status = await suite.until(host, job, "lost")
        assert "no exit code" in status.detail

    with settings_of("ssh", tmp_path) as (settings, environment):
        run(settings, environment, work)


def test_two_submissions_to_slurm_that_know_nothing_of_each_other_run_the_job_once(tmp_path: Path) -> None:
    """As after a crash while the queue does not answer: the second is in the queue too, and does nothing."""

    async def work(host: JobHost) -> None:
        submitted = await host.submit(suite.spec_of("ms-twice-j1", "echo once >> effects; sleep 0.2"))
        folder = tmp_path / "jobs/ms-twice-j1"
        (folder / "slurm").unlink()
        for name in (tmp_path / "slurm").glob("[0-9]*/name"):
            name.write_text("nobody's")
        again = await host.submit(suite.spec_of("ms-twice-j1", "echo once >> effects; sleep 0.2"))
        assert (again.was_there, again.remote) == (False, "101")
        await suite.until(host, JobRef("ms-twice-j1", submitted.remote), "done")
        await suite.until(host, JobRef("ms-twice-j1", again.remote), "done")
        assert (folder / "work/effects").read_text() == "once\n"

    with settings_of("slurm", tmp_path) as (settings, environment):
        run(settings, environment, work)


def test_a_job_that_slurm_ended_itself_has_ended_also_without_accounting(tmp_path: Path) -> None:
    """As by an administrator, or with its node; later even its name is forgotten."""

    async def work(host: JobHost) -> None:
        submitted = await host.submit(suite.spec_of("ms-node-j1", "sleep 300"))
        job, kept = JobRef("ms-node-j1", submitted.remote), tmp_path / "slurm" / submitted.remote
        await suite.until(host, job, "running")
        os.killpg(int((kept / "pid").read_text()), 9)
        (kept / "state").write_text("NODE_FAIL\n")
        assert (await host.status(job)).state == "failed"
        (tmp_path / "slurm/down").touch()
        assert (await host.status(job)).state == "unknown"
        (tmp_path / "slurm/down").unlink()
        shutil.rmtree(kept)
        status = await host.status(job)
        assert (status.state, status.detail) == ("lost", "Slurm has forgotten it, and it left no exit code")

    with settings_of("slurm", tmp_path) as (settings, environment):
        (tmp_path / "slurm/bin/sacct").write_text("#!/bin/sh\necho 'accounting is disabled' >&2; exit 1\n")
        run(settings, environment, work)


def test_slurm_gets_the_options_of_the_hardware(tmp_path: Path) -> None:
    async def work(host: JobHost) -> None:
        spec = suite.spec_of("ms-gpu-j1", "true", time_limit_s=3600)
        submitted = await host.submit(msgspec.structs.replace(spec, hardware="a100"))
        await suite.until(host, JobRef("ms-gpu-j1", submitted.remote), "done")
        with pytest.raises(UsageError, match="no hardware 'h100'"):
            await host.submit(msgspec.structs.replace(spec, name="ms-gpu-j2", hardware="h100"))

    with settings_of("slurm", tmp_path) as (settings, environment):
        hardware = {"a100": HardwareSettings(usd_per_hour=3.0, options=("--gres=gpu:a100:1",))}
        priced = JobHostSettings(
            kind="slurm", folder=settings.folder, options=("--partition=long",), hardware=hardware
        )
        run(priced, environment, work)
    (line,) = (tmp_path / "slurm/submissions").read_text().splitlines()
    assert "--job-name=ms-gpu-j1 --comment=ms-gpu-j1" in line
    assert "--time=62 --partition=long --gres=gpu:a100:1" in line


def test_a_hub_that_took_a_job_and_lost_its_answer_is_not_given_it_again() -> None:
    hub = HubDouble()
    hub.fails_after_taking = 1

    async def work(host: JobHost) -> None:
        with pytest.raises(JobHostError) as failed:
            await host.submit(suite.spec_of("ms-hub-j1", "true"))
        assert not failed.value.is_refused  # nobody knows whether it has it
        assert (await host.submit(suite.spec_of("ms-hub-j1", "true"))).was_there

    try:
        settings = JobHostSettings(
            kind="hub", url=hub.url, namespace="me", image="alpine", hub_hardware="t4-small"
        )
        run(settings, {"HF_TOKEN": TOKEN}, work)
        (job,) = hub.jobs.values()
        assert job.spec["labels"] == {"mainspring": "ms-hub-j1"}
        assert (job.spec["dockerImage"], job.spec["flavor"], job.spec["timeoutSeconds"]) == (
            "alpine",
            "t4-small",
            600,
        )
    finally:
        hub.close()


def test_a_hub_without_a_token_and_a_machine_that_is_not_there_say_so(tmp_path: Path) -> None:
    async def check(host: JobHost) -> None:
        with pytest.raises(JobHostError) as failed:
            await host.check()
        told.append(str(failed.value))

    told: list[str] = []
    run(JobHostSettings(kind="hub", url="http://127.0.0.1:9", namespace="me"), {}, check)
    options = ("-o", "Port=9", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null")
    away = JobHostSettings(host="127.0.0.1", ssh_options=options)
    run(away, {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, check)
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name not in (
            "sbatch",
            "squeue",
            "sacct",
            "scancel",
        ):  # machines of developers may have them
            (programs / program.name).symlink_to(program)
    run(JobHostSettings(kind="slurm", folder=str(tmp_path)), {"PATH": str(programs)}, check)
    assert "Set HF_TOKEN" in told[0]
    assert "127.0.0.1 cannot be reached" in told[1]
    assert "Connection refused" in told[1]
    assert told[2] == "this machine did not check: sbatch is not there."


def test_prices_are_those_of_the_hardware_or_the_host() -> None:
    async def outside() -> Sandbox:
        raise AssertionError("nothing is run for a price")

    hardware = {"a100": HardwareSettings(usd_per_hour=3.0), "cpu": HardwareSettings()}
    host = open_host(JobHostSettings(host="machine", hardware=hardware), {}, outside)
    assert [host.usd_per_hour("a100"), host.usd_per_hour("cpu")] == [3.0, None]
    host = open_host(JobHostSettings(host="machine", hardware=hardware, usd_per_hour=0.5), {}, outside)
    assert [host.usd_per_hour("a100"), host.usd_per_hour("cpu"), host.usd_per_hour("")] == [3.0, 0.5, 0.5]
    hub = open_host(JobHostSettings(kind="hub", namespace="me", hardware=hardware), {}, outside)
    assert [hub.usd_per_hour("a100"), hub.usd_per_hour("t4-small")] == [3.0, None]


def test_states_of_slurm_in_words_that_are_new_are_no_end() -> None:
    told = {
        "slurm:PENDING - -": "queued",
        "slurm:CANCELLED 0 12": "cancelled",
        "slurm:OUT_OF_MEMORY 0 12": "failed",
        "slurm:TIMEOUT 0 12": "timed_out",
        "slurm:SUSPENDED - 4": "running",
        "nonsense": "unknown",
        "": "unknown",
    }
    assert {line: status_of(line).state for line in told} == told


@pytest.mark.parametrize("number", ["²", "9" * 5000, "-1", "1e9", "٣"])
def test_what_a_job_writes_as_its_own_end_is_not_believed_beyond_a_number(number: str) -> None:
    """It may write where its end is kept."""
    told = status_of(f"failed {number} {number} {'x' * 5000}")
    assert (told.state, told.exit_code, told.ran_s, len(told.detail)) == ("failed", None, None, 500)


@pytest.mark.parametrize("said", ["ms-1 new\n", "Welcome!\n\nms-1 new\n", "ms-1 new"])
def test_a_shell_that_begins_with_words_of_its_own_is_understood(said: str) -> None:
    assert answer_of(said) == "ms-1 new"
    assert answer_of("\n") == ""
    assert len(answer_of("x" * 5000)) == 2000


def test_doctor_tells_what_a_host_lacks_in_whole_sentences(tmp_path: Path) -> None:
    hub = JobHostSettings(kind="hub", url="http://127.0.0.1:9", namespace="me")
    config = config_of(tmp_path)
    settings = msgspec.structs.replace(config.settings, jobs={"hub": hub})
    (host,) = asyncio.run(check_hosts(msgspec.structs.replace(config, settings=settings)))
    check = DoctorCheck(name="jobs hub", is_ok=host.is_ok, found=host.found, remedy=host.remedy)
    said = found_and_remedy(check)
    assert said.startswith("There is no token for http://127.0.0.1:9. To fix it: Set HF_TOKEN")
    assert found_and_remedy(DoctorCheck(name="x", is_ok=False, found="no answer", remedy="")) == "no answer"
