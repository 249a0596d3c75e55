"""What replies cost that break off or do not end, by the prices of the settings."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Machine, lines

SETTINGS = "[retry]\nwaits_s = [0.0]\n[prices.test]\ninput = 3.0\noutput = 15.0\n"
LONG = {
    "text": " ".join(f"line {n:06}" for n in range(1000)),
    "usage": {"input_tokens": 3000, "output_tokens": 3000},
}


def by_source(machine: Machine) -> dict[str, dict[str, float]]:
    rows = lines(machine.run("cost", "--by", "source", "--json").stdout)
    return {row["source"]: row for row in rows}


def with_prices(machine: Machine) -> None:
    machine.home.mkdir(mode=0o700)
    (machine.home / "config.toml").write_text(SETTINGS)


def test_attempts_that_broke_off_are_paid_for_and_counted(machine: Machine) -> None:
    with_prices(machine)
    model = machine.serve({**LONG, "fault": {"kind": "drop", "at": "text", "times": 2}})
    ran = machine.run("run", "go", "--model", model, "--max-cost-usd", "1")
    assert ran.returncode == 0, ran.stderr
    spent = by_source(machine)
    assert spent["step"]["usd"] == pytest.approx((3000 * 3 + 3000 * 15) / 1e6)
    # Half of the reply came each time: 6,000 characters are 1,500 tokens.
    retried = spent["retry"]
    assert retried["output_tokens"] == pytest.approx(3000, rel=0.05)
    assert retried["usd"] == pytest.approx(
        (retried["input_tokens"] * 3 + retried["output_tokens"] * 15) / 1e6, abs=1e-6
    )


def test_replies_that_always_break_off_end_with_the_money(machine: Machine) -> None:
    with_prices(machine)
    model = machine.serve({**LONG, "fault": {"kind": "drop", "at": "text", "times": 100}})
    ran = machine.run("run", "go", "--model", model, "--max-cost-usd", "0.08")
    assert ran.returncode == 4, ran.stderr
    assert "The budget is used up" in ran.stderr
    # The server sends more than it may, so the last one passes the cap by a part of itself.
    assert 0.08 <= sum(row["usd"] for row in by_source(machine).values()) < 0.1
    limits = [seen.json()["max_tokens"] for seen in machine.seen]
    assert limits[-1] < limits[0]
    assert len(limits) < 6


def test_a_reply_that_does_not_end_is_cut(machine: Machine) -> None:
    with_prices(machine)
    model = machine.serve({"text": "good answer ", "fault": {"kind": "endless"}})
    ran = machine.run("run", "go", "--model", model, "--max-cost-usd", "10")
    assert ran.returncode == 0, ran.stderr
    events = machine.events(machine.only_session()["id"])
    (cut, *_) = [each["body"] for each in events if each["kind"] == "AssistantSaid"]
    assert cut["stop"] == "length"
