"""A provider that is down or has had enough is told as an outage, by codes and types, whichever agent asks it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from mainspring.engines.claude import ClaudeReader
from mainspring.engines.gemini import GeminiReader
from mainspring.engines.messages import Failed, LineReader
from mainspring.engines.opencode import OpencodeReader
from mainspring.engines.settings import EngineSettings
from mainspring.events import RequestFailed
from tests.engines.house import House
from tests.engines.test_outside import ended, of, take

OVERLOADED = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 529 Overloaded"}


def result(text: str = "no", **more: object) -> dict[str, object]:
    return {"type": "result", "subtype": "error_during_execution", "is_error": True, "result": text, **more}


@pytest.mark.parametrize(
    ("reader", "lines", "outage"),
    [
        (ClaudeReader(), [OVERLOADED], "Overloaded"),
        (ClaudeReader(), [result(api_error_status=429)], "RateLimited"),
        (ClaudeReader(), [{"type": "assistant", "error": "rate_limit"}, result()], "RateLimited"),
        (
            ClaudeReader(),
            [{"type": "system", "subtype": "api_retry", "error_status": 529}, result()],
            "Overloaded",
        ),
        (
            ClaudeReader(),
            [
                {"type": "system", "subtype": "api_retry", "error_status": 529},
                {"type": "assistant"},
                result(),
            ],
            "",
        ),
        (ClaudeReader(), [result("The tests of API Error: 529 fail")], ""),
        (ClaudeReader(), [result("API Error: 401 Unauthorized")], ""),
        (
            GeminiReader(),
            [{"type": "result", "status": "error", "error": {"type": "RetryableQuotaError"}}],
            "RateLimited",
        ),
        (GeminiReader(), [{"type": "result", "status": "error", "error": {"code": 503}}], "Overloaded"),
        (GeminiReader(), [{"type": "result", "status": "error", "error": {"message": "503"}}], ""),
        (
            OpencodeReader(),
            [{"type": "error", "error": {"name": "APIError", "data": {"statusCode": 429}}}],
            "RateLimited",
        ),
        (OpencodeReader(), [{"type": "error", "error": {"name": "UnknownError"}}], ""),
    ],
)
def test_an_outage_is_told_by_code_or_type(reader: LineReader, lines: list[object], outage: str) -> None:
    items = [item for line in lines for item in reader.read(json.dumps(line).encode())]
    assert [item.outage for item in items if isinstance(item, Failed)] == [outage]


def test_an_agent_whose_provider_is_overloaded_leaves_a_failed_request(tmp_path: Path) -> None:
    script = tmp_path / "claude.py"
    script.write_text(f"print({json.dumps(OVERLOADED)!r})\nraise SystemExit(1)\n")
    agent = EngineSettings(command=(sys.executable, str(script)), readable=(str(tmp_path),))
    events = take(House(tmp_path, claude=agent), "work", engine="claude")
    (failed,) = of(events, RequestFailed)
    assert (failed.error, failed.retry_in_s, failed.model) == ("Overloaded", None, "claude")
    assert ended(events).ending == "failed"
