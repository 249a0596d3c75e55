"""Keys in what a goal names (checks, frozen files, artifacts) are hidden on record and known to its loop."""

from __future__ import annotations

from mainspring.events import ArtifactChange
from mainspring.evidence.artifacts import LISTED_FROM, Artifacts, listing_of, summed
from mainspring.secrets.redaction import redacted, redacted_blob
from mainspring.secrets.vault import PLACEHOLDER, Vault
from tests.cli.conftest import Machine, machine
from tests.goals.test_loop import DONE, engine, events, goal

__all__ = ["machine"]

KEY = "sk-proj-" + "Zx9Qw7Er5Ty3" * 3


def test_a_goal_goes_on_with_keys_in_its_checks_its_frozen_files_and_its_artifacts(machine: Machine) -> None:
    frozen, made = f"frozen-{KEY}.sh", f"made-{KEY}.csv"
    (machine.workspace / frozen).write_text(f"echo 'METRIC q=1'; test -s {made}\n")
    cases = engine(
        machine, t1=f"echo one > {made}", t2="echo nothing", other=f"echo more >> {made}; echo {DONE!r}"
    )
    options = ("--check", f"grep -q more {made}", "--file", made, "--evaluate", f"bash {frozen}")
    first = goal(machine, cases, *options, "--frozen", frozen, "--max-iterations", "1")
    assert first.returncode == 1, first.stderr
    name = machine.only_session()["id"]
    second = machine.run("goal", "resume", name, "--frozen", frozen, "--max-iterations", "4")
    assert second.returncode == 0, second.stderr
    assert all(check["passed"] for check in events(machine, "CheckEnded"))
    assert len(events(machine, "CheckEnded")) == 3
    recorded = [item["evaluation"] for item in events(machine, "GoalSet")]
    assert len(recorded) > 1
    assert [(item["hashes"], item["frozen"]) for item in recorded] == [
        (recorded[0]["hashes"], recorded[0]["frozen"])
    ] * len(recorded)
    assert all("flags" not in item for item in events(machine, "MeasurementsTaken"))
    kinds = [
        (event["iteration"], change["kind"])
        for event in events(machine, "ArtifactsChanged")
        for change in event.get("changes", ())
        if PLACEHOLDER.search(change["path"]) and "made" in change["path"]
    ]
    assert kinds == [(1, "new"), (3, "modified")], "no look takes it for a new or a deleted file"
    report = machine.run("goal", "report", name)
    for text in (first.stdout + first.stderr, second.stdout + second.stderr, report.stdout):
        assert KEY not in text
    for path in machine.home.rglob("*"):
        if path.is_file() and path.name != "secrets.json":
            assert KEY.encode() not in path.read_bytes(), path


def test_a_long_listing_is_kept_without_secrets_and_read_with_them() -> None:
    secret = 'p"q\\w 12345'
    vault = Vault({"DEPLOY_TOKEN": secret})
    changes = [ArtifactChange(path=f"{number}-{secret}", kind="new") for number in range(LISTED_FROM + 1)]
    listing = redacted_blob(listing_of(changes), "application/json", vault)
    assert b"12345" not in listing
    known = Artifacts(vault)
    known.apply(redacted(summed(1, changes), vault), listing)
    assert set(known.present) == {change.path for change in changes}
