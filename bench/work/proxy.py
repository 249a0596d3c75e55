"""A proxy on loopback between a harness and its model that counts what each request cost.

It passes everything on as it comes, with three exceptions: a streamed request is asked for its usage, a seed
and a temperature are filled in where the harness gives none, and the key of the model is added here, so that
no harness ever has it. Figures are those the model's server reports; a request that the harness broke off
has none, and is counted as estimated.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

_TIMEOUT_S = 3600
_BYTES_PER_TOKEN = 4
_NOT_PASSED_ON = {"host", "content-length", "connection", "accept-encoding", "transfer-encoding"}


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One request for a reply. `prompt` counts all input tokens, the cached ones included."""

    status: int
    prompt: int
    completion: int
    cached: int
    seconds: float
    is_estimated: bool = False


class CountingProxy:
    """`with CountingProxy(url) as proxy`: clients use `proxy.url`; `proxy.exchanges` is what they asked."""

    def __init__(
        self, upstream: str, *, key: str = "", seed: int | None = None, temperature: float | None = None
    ) -> None:
        self.upstream = urlsplit(upstream.rstrip("/"))
        self.key = key
        self.defaults = {"seed": seed, "temperature": temperature}
        self.exchanges: list[Exchange] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def path(self, asked: str) -> str:
        """Where a request goes: below the base URL, or, as probes of servers do, below the root."""
        return self.upstream.path + asked.removeprefix("/v1") if asked.startswith("/v1/") else asked

    def connect(self) -> http.client.HTTPConnection:
        assert self.upstream.hostname
        if self.upstream.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                self.upstream.hostname, self.upstream.port, timeout=_TIMEOUT_S, context=context
            )
        return http.client.HTTPConnection(self.upstream.hostname, self.upstream.port, timeout=_TIMEOUT_S)


def _handler(proxy: CountingProxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._relay(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            self._relay(_filled(body, proxy.defaults))

        def _relay(self, body: bytes | None) -> None:
            started, received, is_whole, status = time.monotonic(), bytearray(), False, 502
            connection = proxy.connect()
            try:
                connection.request(self.command, proxy.path(self.path), body, self._headers())
                answer = connection.getresponse()
                status = answer.status
                self._begin(answer)
                while piece := answer.read1(65536):
                    received += piece
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.write(b"0\r\n\r\n")
                is_whole = True
            except (OSError, http.client.HTTPException):
                # Either side went away; what came until then is counted below.
                self.close_connection = True
            finally:
                connection.close()
            if body is not None and _asks_for_reply(self.path):
                seconds = time.monotonic() - started
                proxy.exchanges.append(counted(body, bytes(received), status, seconds, is_whole=is_whole))

        def _headers(self) -> dict[str, str]:
            kept = {name: text for name, text in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
            if proxy.key:
                kept = {name: text for name, text in kept.items() if name.lower() != "authorization"}
                kept |= {"Authorization": f"Bearer {proxy.key}"}
            return {**kept, "Accept-Encoding": "identity"}

        def _begin(self, answer: http.client.HTTPResponse) -> None:
            self.send_response_only(answer.status)
            for name in ("content-type", "retry-after"):
                if text := answer.headers.get(name):
                    self.send_header(name, text)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
            pass

    return Handler


def _asks_for_reply(path: str) -> bool:
    return path.partition("?")[0].endswith(("/completions", "/responses", "/messages"))


def _filled(body: bytes, defaults: dict[str, Any]) -> bytes:
    try:
        asked = json.loads(body)
    except ValueError:
        return body
    if not isinstance(asked, dict) or "messages" not in asked:
        return body
    for name, value in defaults.items():
        if value is not None:
            asked.setdefault(name, value)
    if asked.get("stream"):
        asked["stream_options"] = {**(asked.get("stream_options") or {}), "include_usage": True}
    return json.dumps(asked, ensure_ascii=False).encode()


def counted(asked: bytes, answer: bytes, status: int, seconds: float, *, is_whole: bool) -> Exchange:
    """What a request cost, by the usage in its answer: one object, or the last of a stream."""
    documents = _documents(answer)
    usage: dict[str, Any] = {}
    cached = 0
    for document in documents:
        inner = document.get("message") or document.get("response") or {}
        usage |= document.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None) or {}
        cached = max(cached, (document.get("timings") or {}).get("cache_n") or 0)
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    read, written = usage.get("cache_read_input_tokens") or 0, usage.get("cache_creation_input_tokens") or 0
    is_estimated = status == 200 and not usage
    return Exchange(
        status=status,
        prompt=len(asked) // _BYTES_PER_TOKEN
        if is_estimated
        else usage.get("prompt_tokens", usage.get("input_tokens", 0)) + read + written,
        completion=len(documents)
        if is_estimated
        else usage.get("completion_tokens", usage.get("output_tokens", 0)),
        cached=details.get("cached_tokens") or read or cached,
        seconds=seconds,
        is_estimated=is_estimated or not is_whole,
    )


def _documents(answer: bytes) -> list[dict[str, Any]]:
    texts = [line[5:] for line in answer.splitlines() if line.startswith(b"data:")] or [answer]
    found: list[dict[str, Any]] = []
    for text in texts:
        try:
            value = json.loads(text)
        except ValueError:
            continue  # the end of a stream, or of what was broken off
        if isinstance(value, dict):
            found.append(value)
    return found
