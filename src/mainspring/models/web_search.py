"""Web search, asked of whom a person named: SearXNG, Brave, any address that answers JSON, or a provider of
models whose wire has a search of its own. One request each; results have addresses and are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from mainspring.errors import MainspringError
from mainspring.events import Usage
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.models.providers import WireName
from mainspring.net.client import send_request
from mainspring.patterns import lazy_pattern

_TAG = lazy_pattern(r"<[^>]{0,200}>")
_MAX_TITLE, _MAX_TEXT, _MAX_URL, _MAX_ANSWER = 200, 400, 2000, 4000
_TIMEOUT_S, _PROVIDER_TIMEOUT_S = 30.0, 180.0
_MAX_OUTPUT_TOKENS = 2048
_BRAVE = "https://api.search.brave.com/res/v1/web/search"
_ASK = "Search the web once for the following, then list what the results say, with their sources:\n"
_LISTS = ("results", "items", "organic", "organic_results", "data", "hits", "web", "value")
_URLS, _TITLES = ("url", "link", "href", "uri"), ("title", "name")
_TEXTS = ("content", "snippet", "description", "text", "body")


class SearchFailed(MainspringError):
    """Nothing was found out; the message says why."""


class WebResult(msgspec.Struct, frozen=True):
    url: str
    title: str = ""
    text: str = ""


class SearchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`answer` is what a provider's model wrote, `usage` what that took, `searches` how often it searched."""

    results: tuple[WebResult, ...]
    answer: str = ""
    usage: Usage | None = None
    searches: int = 1


class SearchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How a backend is asked for a text, and how its answer is read."""

    host: str
    url: Callable[[str], str]
    read: Callable[[bytes], SearchAnswer]
    headers: Mapping[str, str] = {}
    body: Callable[[str], dict[str, Any]] | None = None
    timeout_s: float = _TIMEOUT_S


async def search_web(
    request: SearchRequest, query: str, environment: Mapping[str, str], *, most: int
) -> SearchAnswer:
    """Asks once, through the proxy and with the certificates of the environment. Raises `SearchFailed`."""
    body = b"" if request.body is None else msgspec.json.encode(request.body(query))
    try:
        answer = await send_request(
            "GET" if request.body is None else "POST",
            request.url(query),
            environment=environment,
            headers={"accept": "application/json", "content-type": "application/json", **request.headers},
            body=body,
            timeout_s=request.timeout_s,
        )
    except TimeoutError as error:
        raise SearchFailed(f"{request.host} did not answer within {request.timeout_s:g} s.") from error
    except (OSError, ValueError) as error:
        raise SearchFailed(f"{request.host} could not be asked: {error or type(error).__name__}.") from error
    if answer.status != 200:
        said = " ".join(answer.body[:300].decode("utf-8", "replace").split())
        raise SearchFailed(f"{request.host} answered {answer.status}: {said}")
    try:
        found = request.read(answer.body)
    except DECODE_ERRORS as error:
        raise SearchFailed(f"{request.host} did not answer with results in JSON.") from error
    return msgspec.structs.replace(
        found, results=_bounded(found.results)[:most], answer=found.answer[:_MAX_ANSWER]
    )


def searxng(url: str) -> SearchRequest:
    base = url.rstrip("/").removesuffix("/search")
    return _plain(f"{base}/search?q={{query}}&format=json", {})


def brave(key: str, most: int, url: str = "") -> SearchRequest:
    return _plain(f"{url or _BRAVE}?q={{query}}&count={most}", {"x-subscription-token": key})


def template(url: str, headers: Mapping[str, str]) -> SearchRequest:
    return _plain(url, headers)


def _plain(url: str, headers: Mapping[str, str]) -> SearchRequest:
    return SearchRequest(
        host=urlsplit(url).hostname or "",
        url=lambda query: url.replace("{query}", quote_plus(query)),
        headers=headers,
        read=lambda data: SearchAnswer(results=tuple(_results(msgspec.json.decode(data)))),
    )


def _results(content: Any) -> Iterator[WebResult]:
    """The results of an answer: the first list of objects with addresses, under one of the usual names."""
    if isinstance(content, list):
        for each in cast("list[Any]", content):
            if isinstance(each, dict) and (url := _first(cast("dict[str, Any]", each), _URLS)):
                entry = cast("dict[str, Any]", each)
                yield WebResult(url, _first(entry, _TITLES), _first(entry, _TEXTS))
    elif isinstance(content, dict):
        table = cast("dict[str, Any]", content)
        for name in _LISTS:
            if found := list(_results(table.get(name))):
                yield from found
                return


def _first(entry: dict[str, Any], names: tuple[str, ...]) -> str:
    return next((value for name in names if isinstance(value := entry.get(name), str) and value), "")


def _bounded(results: tuple[WebResult, ...]) -> tuple[WebResult, ...]:
    """Each address once, only such as can be fetched, and texts without marks."""
    kept: dict[str, WebResult] = {}
    for each in results:
        if re.match(r"https?://\S+$", each.url) and len(each.url) <= _MAX_URL:
            kept.setdefault(
                each.url, WebResult(each.url, _text(each.title, _MAX_TITLE), _text(each.text, _MAX_TEXT))
            )
    return tuple(kept.values())


def _text(text: str, most: int) -> str:
    plain = " ".join(_TAG.sub("", text).split())
    for name, sign in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#39;", "'"), ("&amp;", "&")):
        plain = plain.replace(name, sign)
    return plain if len(plain) <= most else f"{plain[:most]}…"


def provider_search(wire: WireName, base_url: str, model: str, key: str) -> SearchRequest | None:
    """The search of a provider; None where its wire has none."""
    host = urlsplit(base_url).hostname or ""
    match wire:
        case "anthropic":
            return SearchRequest(
                host=host,
                url=lambda _: f"{base_url}/v1/messages",
                headers={"x-api-key": key, "anthropic-version": "2023-06-01"},
                body=lambda query: {
                    "model": model,
                    "max_tokens": _MAX_OUTPUT_TOKENS,
                    "messages": [{"role": "user", "content": _ASK + query}],
                    "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}],
                },
                read=_of_anthropic,
                timeout_s=_PROVIDER_TIMEOUT_S,
            )
        case "responses":
            return SearchRequest(
                host=host,
                url=lambda _: f"{base_url}/responses",
                headers={"authorization": f"Bearer {key}"},
                body=lambda query: {
                    "model": model,
                    "input": _ASK + query,
                    "tools": [{"type": "web_search"}],
                    "tool_choice": "required",
                    "include": ["web_search_call.action.sources"],
                    "store": False,
                },
                read=_of_responses,
                timeout_s=_PROVIDER_TIMEOUT_S,
            )
        case "gemini":
            return SearchRequest(
                host=host,
                url=lambda _: f"{base_url}/models/{quote(model)}:generateContent",
                headers={"x-goog-api-key": key},
                body=lambda query: {
                    "contents": [{"role": "user", "parts": [{"text": _ASK + query}]}],
                    "tools": [{"google_search": {}}],
                    "generationConfig": {"maxOutputTokens": _MAX_OUTPUT_TOKENS},
                },
                read=_of_gemini,
                timeout_s=_PROVIDER_TIMEOUT_S,
            )
        case "chat":
            return None


class _Source(msgspec.Struct, frozen=True):
    """A page, wherever a provider names one."""

    type: str = ""
    url: str = ""
    uri: str = ""
    title: str | None = None
    cited_text: str | None = None

    def result(self, text: str = "") -> WebResult:
        return WebResult(self.url or self.uri, self.title or "", text or self.cited_text or "")


_Sources = tuple[_Source, ...] | None


class _Failure(msgspec.Struct, frozen=True):
    error_code: str = ""


class _Block(msgspec.Struct, frozen=True):
    type: str
    text: str = ""
    content: _Failure | _Sources = None
    citations: _Sources = None


class _Searches(msgspec.Struct, frozen=True):
    web_search_requests: int = 1


class _Tokens(msgspec.Struct, frozen=True):
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int | None = None
    server_tool_use: _Searches | None = None


class _AnthropicReply(msgspec.Struct, frozen=True):
    content: tuple[_Block, ...]
    usage: _Tokens


def _of_anthropic(data: bytes) -> SearchAnswer:
    reply = msgspec.json.decode(data, type=_AnthropicReply)
    results: list[WebResult] = []
    for block in reply.content:
        if isinstance(block.content, _Failure):
            raise SearchFailed(f"The search failed: {block.content.error_code}.")
        results += (each.result() for each in (*(block.content or ()), *(block.citations or ())))
    usage = reply.usage
    asked = usage.input_tokens + (usage.cache_read_input_tokens or 0)
    searches = usage.server_tool_use.web_search_requests if usage.server_tool_use else 1
    answer = "".join(block.text for block in reply.content if block.type == "text")
    return _answered(results, answer, asked, usage.output_tokens, searches)


class _Action(msgspec.Struct, frozen=True):
    sources: _Sources = None


class _Part(msgspec.Struct, frozen=True):
    text: str = ""
    annotations: _Sources = None


class _Item(msgspec.Struct, frozen=True):
    type: str
    action: _Action | None = None
    content: tuple[_Part, ...] | None = None


class _ResponsesReply(msgspec.Struct, frozen=True):
    output: tuple[_Item, ...]
    usage: _Tokens | None = None


def _of_responses(data: bytes) -> SearchAnswer:
    reply = msgspec.json.decode(data, type=_ResponsesReply)
    parts = [part for item in reply.output if item.type == "message" for part in item.content or ()]
    cited = [each.result() for part in parts for each in part.annotations or () if each.url]
    calls = [item for item in reply.output if item.type == "web_search_call"]
    sources = [each.result() for item in calls if item.action for each in item.action.sources or ()]
    usage = reply.usage or _Tokens()
    answer = "".join(part.text for part in parts)
    return _answered([*cited, *sources], answer, usage.input_tokens, usage.output_tokens, len(calls))


class _Chunk(msgspec.Struct, frozen=True):
    web: _Source | None = None


class _Segment(msgspec.Struct, frozen=True):
    text: str = ""


class _Support(msgspec.Struct, frozen=True, rename="camel"):
    segment: _Segment = _Segment()
    grounding_chunk_indices: tuple[int, ...] = ()


class _Grounds(msgspec.Struct, frozen=True, rename="camel"):
    web_search_queries: tuple[str, ...] = ()
    grounding_chunks: tuple[_Chunk, ...] = ()
    grounding_supports: tuple[_Support, ...] = ()

    def text_for(self, number: int) -> str:
        supports = (each for each in self.grounding_supports if number in each.grounding_chunk_indices)
        return " ".join(each.segment.text for each in supports)


class _Piece(msgspec.Struct, frozen=True):
    text: str = ""
    thought: bool = False


class _Content(msgspec.Struct, frozen=True):
    parts: tuple[_Piece, ...] = ()


class _Candidate(msgspec.Struct, frozen=True, rename="camel"):
    content: _Content = _Content()
    grounding_metadata: _Grounds = _Grounds()


class _GeminiTokens(msgspec.Struct, frozen=True, rename="camel"):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0


class _GeminiReply(msgspec.Struct, frozen=True, rename="camel"):
    candidates: tuple[_Candidate, ...]
    usage_metadata: _GeminiTokens = _GeminiTokens()


def _of_gemini(data: bytes) -> SearchAnswer:
    reply = msgspec.json.decode(data, type=_GeminiReply)
    candidate = reply.candidates[0] if reply.candidates else _Candidate()
    grounds, usage = candidate.grounding_metadata, reply.usage_metadata
    chunks = enumerate(grounds.grounding_chunks)
    results = [chunk.web.result(grounds.text_for(number)) for number, chunk in chunks if chunk.web]
    answer = "".join(piece.text for piece in candidate.content.parts if not piece.thought)
    written = usage.candidates_token_count + usage.thoughts_token_count
    return _answered(results, answer, usage.prompt_token_count, written, len(grounds.web_search_queries))


def _answered(results: list[WebResult], answer: str, asked: int, written: int, searches: int) -> SearchAnswer:
    # What says more of an address comes first, so that it is the one that is kept.
    ordered = sorted(results, key=lambda each: not each.text)
    usage = Usage(input_tokens=asked, output_tokens=written)
    return SearchAnswer(results=tuple(ordered), answer=answer, usage=usage, searches=max(searches, 1))
