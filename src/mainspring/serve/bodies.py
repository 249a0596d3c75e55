"""Bodies of requests and answers: JSON, and an error that says what is wrong with it."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.errors import UsageError
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.events.escaping import escape_json


async def read_json(request: Request, kind: type[Any]) -> Any:
    data = await request.body()
    if data and request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise UsageError("The body must be JSON.", remedy="Send it with `Content-Type: application/json`.")
    try:
        return msgspec.json.decode(data or b"{}", type=kind)
    except DECODE_ERRORS as error:
        raise UsageError(f"The body is not valid: {error}.") from error


def json_answer(value: Any) -> Response:
    return Response(escape_json(msgspec.json.encode(value, enc_hook=str)), media_type="application/json")
