"""What is new is sent once, in order, and goes on where it stopped, whatever the collector or a crash does."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mainspring.app.operations import traces
from mainspring.app.operations.daemon_telemetry import SINCE, keep_telemetry
from mainspring.app.operations.traces import TracesWanted, collector_of, export_traces
from mainspring.app.stores import sessions_of
from mainspring.app.telemetry import TraceSender, send_until_changed
from mainspring.errors import UsageError
from mainspring.settings import Config, load_config
from mainspring.telemetry.sender import NotTaken
from mainspring.telemetry.spans import span_id, trace_id
from mainspring.testing import Stage
from tests.notify.conftest import Receiver, receiver

__all__ = ["receiver"]
TURN = ["chat scripted", "step", "invoke_agent mainspring"]


def config_in(folder: Path, url: str, *more: str, **environment: str) -> Config:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text("\n".join([f'[telemetry]\notlp_url = "{url}"', *more]))
    return load_config(
        {"MAINSPRING_HOME": str(home), "HOME": str(folder), "PATH": "/usr/bin:/bin", **environment}
    )


def sent(receiver: Receiver) -> list[list[tuple[str, str, str]]]:
    """The spans of each request that came: trace, id and name."""
    return [
        [
            (span["traceId"], span["spanId"], span["name"])
            for scope in request["body"]["resourceSpans"]
            for spans in scope["scopeSpans"]
            for span in spans["spans"]
        ]
        for request in receiver.got
        if request["path"] == "/v1/traces"
    ]


def names(receiver: Receiver) -> list[list[str]]:
    return [[name for _, _, name in request] for request in sent(receiver)]


def begin(config: Config) -> TraceSender:
    return TraceSender(config, print)


def test_only_what_is_new_is_sent_also_after_a_restart(tmp_path: Path, receiver: Receiver) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    stage = Stage(tmp_path / "stage", "One.", "Two.", "Three.", sessions=sessions_of(config))
    stage.run("Go")
    assert [asyncio.run(sender.send_new()) for _ in range(2)] == [4, 0]
    stage.run("On")
    assert asyncio.run(begin(config).send_new()) == 4
    assert names(receiver) == [["session", *TURN], ["resume", *TURN]]
    spans = [each for request in sent(receiver) for each in request]
    assert len(set(spans)) == len(spans)
    assert spans[0][:2] == (trace_id(stage.session), span_id(stage.session, "session"))


def test_what_a_collector_did_not_take_is_sent_again_with_the_same_ids(
    tmp_path: Path, receiver: Receiver
) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    Stage(tmp_path / "stage", "One.", sessions=sessions_of(config)).run("Go")
    receiver.answers = [503]
    with pytest.raises(NotTaken, match="503"):
        asyncio.run(sender.send_new())
    assert [asyncio.run(each.send_new()) for each in (sender, begin(config))] == [4, 0]
    first, second = sent(receiver)
    assert first == second


def test_what_a_collector_will_never_take_is_told_and_does_not_hold_up_the_rest(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    stage = Stage(tmp_path / "stage", "One.", "Two.", sessions=sessions_of(config))
    stage.run("Go")
    receiver.answers = [400]
    asyncio.run(sender.send_new())
    assert "4 spans are lost" in capsys.readouterr().out
    stage.run("On")
    assert asyncio.run(sender.send_new()) == 4


def test_what_happened_before_it_was_switched_on_stays_here(tmp_path: Path, receiver: Receiver) -> None:
    config = config_in(tmp_path, receiver.url)
    stage = Stage(tmp_path / "before", "One.", "Two.", sessions=sessions_of(config))
    stage.run("Go")
    assert asyncio.run(begin(config).send_new()) == 0
    assert sent(receiver) == []
    stage.run("On")
    assert asyncio.run(begin(config).send_new()) == 5
    assert names(receiver) == [["session", "resume", *TURN]]


def test_switching_it_off_counts_at_once_and_forgets_since_when_it_was_on(
    tmp_path: Path, receiver: Receiver
) -> None:
    config = config_in(tmp_path, receiver.url, "every_s = 1")
    since = tmp_path / "home" / SINCE

    async def gone() -> None:
        while since.exists():
            await asyncio.sleep(0)

    async def work() -> None:
        sending = asyncio.create_task(send_until_changed(config, print))
        await asyncio.to_thread(receiver.wait, 1)
        assert since.exists()
        config_in(tmp_path, "")
        await sending
        keeping = asyncio.create_task(keep_telemetry(config, print))
        await gone()
        keeping.cancel()

    asyncio.run(work())
    assert sent(receiver) == []


def test_many_spans_are_sent_in_several_requests(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    stage = Stage(tmp_path / "stage", *map(str, range(4)), sessions=sessions_of(config))
    for _ in range(4):
        stage.run("Go")
    monkeypatch.setattr("mainspring.app.telemetry.SPANS_AT_ONCE", 3)
    receiver.answers = [200, 200, 503]
    with pytest.raises(NotTaken):
        asyncio.run(sender.send_new())
    asyncio.run(begin(config).send_new())
    taken = [request for number, request in enumerate(sent(receiver)) if number != 2]
    spans = [each for request in taken for each in request]
    assert len(taken) == 4
    assert len(set(spans)) == len(spans) == 16


def test_metrics_say_what_was_counted_and_how_things_stand(tmp_path: Path, receiver: Receiver) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    Stage(tmp_path / "stage", "One.", sessions=sessions_of(config)).run("Go")
    asyncio.run(sender.send_new())
    (body,) = [each["body"] for each in receiver.got if each["path"] == "/v1/metrics"]
    metrics = {each["name"]: each for each in body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
    (turns,) = metrics["mainspring.turns"]["sum"]["dataPoints"]
    assert turns["attributes"] == [{"key": "mainspring.turn.ending", "value": {"stringValue": "done"}}]
    (sessions,) = metrics["mainspring.sessions"]["gauge"]["dataPoints"]
    assert (turns["asDouble" if "asDouble" in turns else "asInt"], sessions["asInt"]) == ("1", "1")


def test_texts_are_sent_only_when_the_settings_say_so_and_secrets_never(
    tmp_path: Path, receiver: Receiver
) -> None:
    environment = {"DEPLOY_TOKEN": "xyzzy-Plugh-4242-token"}
    for has, folder in ((False, tmp_path / "without"), (True, tmp_path / "with")):
        folder.mkdir()
        receiver.got.clear()
        more = "content = true" if has else ""
        config = config_in(folder, receiver.url, more, **environment)
        sender = begin(config)
        stage = Stage(folder / "stage", "It is xyzzy-Plugh-4242-token.", sessions=sessions_of(config))
        stage.run("QUESTION xyzzy-Plugh-4242-token")  # the stage does not know this secret: it is on record
        assert asyncio.run(sender.send_new()) == 4
        raw = b"".join(each["raw"] for each in receiver.got)
        assert (b"QUESTION" in raw) == has
        assert b"xyzzy" not in raw


def test_headers_are_for_the_address_of_the_settings_alone(tmp_path: Path, receiver: Receiver) -> None:
    config = config_in(tmp_path, receiver.url, 'headers = { "x-key" = "${MY_KEY}" }', MY_KEY="word")
    assert collector_of(config).headers == {"x-key": "word"}
    assert collector_of(config, "http://elsewhere:4318").headers == {}
    without = config_in(tmp_path, receiver.url, 'headers = { "x-key" = "${MY_KEY}" }')
    with pytest.raises(UsageError, match="MY_KEY"):
        collector_of(without)


def test_an_export_is_the_same_again_and_what_was_sent_by_itself(tmp_path: Path, receiver: Receiver) -> None:
    config = config_in(tmp_path, receiver.url)
    sender = begin(config)
    stage = Stage(tmp_path / "stage", "One.", sessions=sessions_of(config))
    stage.run("Go")
    asyncio.run(sender.send_new())
    written: list[bytes] = []
    for _ in range(2):
        wanted = TracesWanted(sessions=(stage.session,))
        done: Any = asyncio.run(export_traces(config, wanted, write=written.append, to=receiver.url))
        assert (done.sessions, done.spans) == (1, 4)
    assert written[0] == written[1]
    assert [sent(receiver)[0]] * 3 == sent(receiver)


def test_sessions_of_a_day_and_later_are_exported_a_part_at_a_time(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_in(tmp_path, receiver.url)
    for name in ("one", "two"):
        Stage(tmp_path / name, "One.", sessions=sessions_of(config)).run("Go")
    monkeypatch.setattr(traces, "SPANS_AT_ONCE", 2)
    done = asyncio.run(export_traces(config, TracesWanted(since="2020-01-01"), to=receiver.url))
    assert (done.sessions, done.spans) == (2, 8)
    assert len(sent(receiver)) > 2
    assert asyncio.run(export_traces(config, TracesWanted(since="9998-01-01"))).sessions == 0
    for since in ("", "yesterday"):
        with pytest.raises(UsageError):
            asyncio.run(export_traces(config, TracesWanted(since=since)))
