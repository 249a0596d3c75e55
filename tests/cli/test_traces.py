"""`mainspring traces export`, and the daemon that sends by itself while the settings name a collector."""

from __future__ import annotations

import json
import signal
import stat

from tests.cli.conftest import Machine
from tests.daemon.test_daemon import configure, until_true
from tests.notify.conftest import Receiver, receiver
from tests.telemetry.otlp import parsed_traces

__all__ = ["receiver"]
FREE = ("--mode", "auto", "--allow-unpriced")


def spans(receiver: Receiver) -> list[str]:
    """The ids of the spans that came, in order."""
    requests = [each["raw"] for each in list(receiver.got) if each["path"] == "/v1/traces"]
    return [span.span_id.hex() for raw in requests for span in parsed_traces(raw)]


def test_a_session_is_exported_to_a_file_a_screen_and_a_collector(
    machine: Machine, receiver: Receiver
) -> None:
    model = machine.serve({"text": "SECRET ANSWER"})
    assert machine.run("run", *FREE, "--model", model, "Go").returncode == 0
    session, file = machine.only_session()["id"], machine.workspace / "traces.jsonl"
    written = machine.run("traces", "export", session[:6], "-o", str(file))
    assert (written.returncode, written.stdout, written.stderr) == (0, "", "4 spans of 1 session\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert machine.run("traces", "export", "--since", "2020-01-01").stdout == file.read_text()
    assert len(parsed_traces(file.read_bytes())) == 4
    assert "SECRET" not in file.read_text()
    assert "SECRET ANSWER" in machine.run("traces", "export", session, "--content").stdout
    assert machine.run("traces", "export", session, "--to", receiver.url).returncode == 0
    assert json.loads(file.read_text()) == receiver.got[0]["body"]
    assert machine.run("traces", "export").returncode == 2
    assert machine.run("traces", "export", "nosuch", "--to", receiver.url).returncode != 0
    receiver.answers = [503]
    assert "503" in machine.run("traces", "export", session, "--to", receiver.url).stderr


def test_the_daemon_sends_what_is_new_and_goes_on_after_it_was_killed(
    machine: Machine, receiver: Receiver
) -> None:
    configure(machine, f'[telemetry]\notlp_url = "{receiver.url}"\nevery_s = 1\n')
    daemon = machine.start("daemon", "run")
    receiver.wait(1)  # metrics: it has begun
    model = machine.serve({"text": "Done."}, {"text": "More."})
    assert machine.run("run", *FREE, "--model", model, "Go").returncode == 0
    until_true(lambda: len(spans(receiver)) >= 4)
    daemon.send_signal(signal.SIGKILL)
    daemon.communicate()
    session = machine.only_session()["id"]
    assert machine.run("resume", session, "On").returncode == 0
    daemon = machine.start("daemon", "run")
    until_true(lambda: len(set(spans(receiver))) >= 8)
    daemon.send_signal(signal.SIGTERM)
    daemon.communicate(timeout=60)
    assert f"telemetry: sent to {receiver.url}, without texts" in machine.run("daemon", "logs").stdout
    exported = machine.run("traces", "export", session).stdout
    # What was sent when it was killed, and not noted yet, comes again with the same ids.
    assert {span.span_id.hex() for span in parsed_traces(exported.encode())} == set(spans(receiver))
