"""`/metrics` is read by Prometheus' own parser, and counts what ends from the first look on."""

from __future__ import annotations

from tests.serve.conftest import Served
from tests.telemetry.test_metrics import samples


def test_a_scraper_with_a_token_to_watch_reads_what_is_and_what_was_done(served: Served) -> None:
    code = served.post("/devices/offer", {"role": "watch", "name": "scraper"})["code"]
    token = served.post("/pair", {"code": code}, token="")["token"]
    model = served.machine.serve({"text": "Done.", "usage": {"input_tokens": 1000}})

    def read() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        with served.client(token) as client:
            answer = client.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain")
        return samples(answer.text)

    done = ("mainspring_turns_total", frozenset({("mainspring_turn_ending", "done")}))
    before = ("--mode", "auto", "--allow-unpriced", "--model", model)
    assert served.machine.run("run", *before, "Go").returncode == 0
    first = read()
    assert first["mainspring_sessions", frozenset({("state", "done")})] == 1
    assert first["mainspring_questions_open", frozenset()] == 0
    assert done not in first  # it ended before anybody looked
    session = served.machine.only_session()["id"]
    assert served.machine.run("resume", session, "On").returncode == 0
    second = read()
    assert second[done] == 1
    assert read() == second
    requests = {
        name: value
        for (name, _), value in second.items()
        if name.endswith("operation_duration_seconds_count")
    }
    assert requests == {"gen_ai_client_operation_duration_seconds_count": 1}
