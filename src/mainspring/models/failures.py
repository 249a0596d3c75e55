"""What a provider's refusal means: its status, codes and body, mapped once to the `ModelError` tree.

Codes decide first, then the status. Wording decides only where a provider gives nothing else (how each says
that a request is too large), and only in an answer that is a refusal. Every error says what happened and what
to do about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from mainspring.errors import (
    AuthFailed,
    BadRequest,
    ContentRefused,
    ContextOverflow,
    MediaRefused,
    ModelError,
    ModelTimeout,
    ModelUnknown,
    NetworkFailed,
    NoCredit,
    Overloaded,
    RateLimited,
)
from mainspring.models.field_faults import first_fault, unsupported
from mainspring.models.retry_after import retry_after_s

_SAID_CHARACTERS = 400


class Endpoint(msgspec.Struct, frozen=True):
    """Whom we talk to, in the words that a person needs."""

    provider: str
    base_url: str
    model: str
    key_variable: str = ""
    is_local: bool = False


class ProviderRefusal(msgspec.Struct, frozen=True):
    """A provider's refusal, whatever its shape was. `codes` are all names that it gave for the reason."""

    status: int
    codes: frozenset[str] = frozenset()
    said: str = ""
    param: str = ""
    retry_after_s: float | None = None


class _Rule(msgspec.Struct, frozen=True):
    """`cause` marks a refusal that a wire may be able to live with."""

    error: type[ModelError]
    happened: str
    remedy: str
    codes: frozenset[str] = frozenset()
    statuses: frozenset[int] = frozenset()
    wording: str = ""
    wording_statuses: frozenset[int] = frozenset()
    cause: str = ""

    def fits(self, refusal: ProviderRefusal) -> bool:
        if self.codes & refusal.codes or refusal.status in self.statuses:
            return True
        has_say = self.wording and refusal.status in self.wording_statuses
        return bool(has_say and re.search(self.wording, refusal.said))


# Compiled when a provider refuses something, which most processes never see.
_TOO_LARGE = (
    r"(?i)maximum (context|prompt) length|context (window|size|length)|prompt is too long"
    r"|exceed context limit"
    r"|input token count|exceeds the available context|context the overflows"
    r"|too large for model|reduce the length of the messages"
)
_NO_MONEY = r"(?i)credit balance is too low|(used|exhausted) all .{0,20}credits"
_NEVER_FITS = r"(?i)^request too large"
_NO_MODEL = r"(?i)not a valid model id|model .{0,200}(not found|does not exist)"
_NO_KEY = r"(?i)(incorrect|invalid) api key"

_NO_TOOLS = (
    r"(?i)(does not|doesn't) support (tools|tool use|tool call|function call)|found that support tool use"
    r"|enable-auto-tool-choice|tool use is not supported|function calling is not (enabled|supported)"
)
_ORDER = r"(?i)unexpected role 'user' after role 'tool'"
_STALE = (
    r"(?is)(invalid|corrupted) [`']?(thought )?signature"
    r"|blocks in the latest assistant message cannot be modified"
    r"|encrypted content .{0,200}could not be verified|signature: field required"
    r"|missing a [`']?thought_signature"
)

_TOO_MUCH_OUTPUT = (
    r"(?i)max_(completion_|output_)?tokens[`'\"]?:? (is too large|must be less than|\d+ > \d)"
    r"|maxOutputTokens value of|valid range of max_tokens"
)
_MOST = (
    r"(?i)at most (\d+) (?:completion|output)|> (\d+), which is the maximum|less than or equal to [`']?(\d+)"
    r"|max_tokens is \[1, (\d+)\]|range is from 1 \(inclusive\) to (\d+) \(exclusive\)"
)
_MEDIA = (
    r"(?i)could not process (the )?(image|pdf|document)|image exceeds|image\.source|unsupported image"
    r"|(unable to process|provided|invalid|corrupt(ed)?|bad) (input |base64 )?image|support image|image input"
    r"|image (format|is not valid|dimensions)|(decode|load|identify|parse|process) (the )?image"
    r"|a valid image\b|\bimages? .{0,60}(not supported|too (large|big|many))|pdf specified|invalid pdf"
)
_THINKING_ORDER = (
    r"(?i)expected [`']?thinking[`']? or [`']?redacted_thinking"
    r"|when [`']?thinking[`']? is disabled, an?\b"
)

_RULES = (
    _Rule(
        MediaRefused,
        "{provider} did not accept an attachment.",
        "Attach it in another form, or choose another model.",
        codes=frozenset({"invalid_image", "image_parse_error", "invalid_image_format", "image_too_large"})
        | frozenset({"invalid_image_url", "unsupported_image_media_type", "invalid_base64_image"}),
        wording=_MEDIA,
        wording_statuses=frozenset({400, 404, 415, 422, 500}),
    ),
    _Rule(
        BadRequest,
        "{model} does not give so much output at once.",
        "Choose a model with a larger output limit.",
        wording=_TOO_MUCH_OUTPUT,
        wording_statuses=frozenset({400, 422}),
        cause="output",
    ),
    _Rule(
        BadRequest,
        "{provider} wants thinking in all of an exchange of calls, or in none of it.",
        "Try again with another --effort, or start a new session.",
        wording=_THINKING_ORDER,
        wording_statuses=frozenset({400}),
        cause="thinking",
    ),
    _Rule(
        BadRequest,
        "{model} takes no tools.",
        "Choose a model that can use tools.",
        wording=_NO_TOOLS,
        wording_statuses=frozenset({400, 404, 422, 500}),
        cause="tools",
    ),
    _Rule(
        BadRequest,
        "{provider} does not accept its earlier reasoning back.",
        "Try again, or start a new session.",
        codes=frozenset({"invalid_encrypted_content"}),
        wording=_STALE,
        wording_statuses=frozenset({400}),
        cause="signature",
    ),
    _Rule(
        BadRequest,
        "{provider} wants messages in another order.",
        "Choose another model.",
        codes=frozenset({"invalid_request_message_order"}),
        wording=_ORDER,
        wording_statuses=frozenset({400, 500}),
        cause="order",
    ),
    _Rule(
        ContextOverflow,
        "The request is larger than {model} takes.",
        "Compact the session, start a new one, or choose a model with a larger context.",
        codes=frozenset({"context_length_exceeded", "exceed_context_size_error", "context_exceeded"})
        | frozenset({"request_too_large", "model_max_prompt_tokens_exceeded", "string_above_max_length"}),
        statuses=frozenset({413}),
        wording=_TOO_LARGE,
        wording_statuses=frozenset({0, 400, 422, 500}),
    ),
    _Rule(
        ContextOverflow,
        "{provider} takes no request as large as this one from this account.",
        "Compact the session, raise the limit there, or choose another model.",
        wording=_NEVER_FITS,
        wording_statuses=frozenset({429}),
    ),
    _Rule(
        NoCredit,
        "{provider} says that there is no credit left.",
        "Add credit there, or choose another model.",
        codes=frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
        | frozenset({"billing_error", "insufficient_balance", "insufficient_credits"}),
        statuses=frozenset({402}),
        wording=_NO_MONEY,
        wording_statuses=frozenset({400, 403, 429}),
    ),
    _Rule(
        ContentRefused,
        "{provider} declined to answer this request.",
        "Rephrase it, or choose another model.",
        codes=frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
        | frozenset({"moderation", "prohibited_content", "cyber_policy"}),
    ),
    _Rule(
        AuthFailed,
        "{provider} did not accept the key.",
        "{set_key}",
        codes=frozenset({"invalid_api_key", "authentication_error", "permission_error", "api_key_invalid"})
        | frozenset({"unauthenticated", "permission_denied"}),
        statuses=frozenset({401, 403}),
        wording=_NO_KEY,
        wording_statuses=frozenset({400}),
    ),
    _Rule(
        ModelUnknown,
        "{provider} has no model {model} at {url}.",
        "Check the model's name and the base URL; `mainspring models` lists what is known.",
        codes=frozenset({"model_not_found", "not_found_error", "invalid_model", "model_not_available"}),
        statuses=frozenset({404}),
        wording=_NO_MODEL,
        wording_statuses=frozenset({400}),
    ),
    _Rule(
        ModelTimeout,
        "{provider} gave up waiting.",
        "Try again later, or choose another model.",
        codes=frozenset({"timeout_error", "deadline_exceeded"}),
        statuses=frozenset({408}),
    ),
    _Rule(
        RateLimited,
        "{provider} asks for fewer requests.",
        "Wait, raise the limit there, or choose another model.",
        codes=frozenset({"rate_limit_exceeded", "rate_limit_error", "resource_exhausted"}),
        statuses=frozenset({429}),
    ),
    _Rule(
        Overloaded,
        "{provider} could not answer.",
        "Try again later, or choose another model.",
        codes=frozenset({"overloaded_error", "api_error", "server_error", "unavailable", "internal"})
        | frozenset({"server_is_overloaded", "slow_down", "unavailable_error", "internal_server_error"}),
        statuses=frozenset({409, 425, *range(500, 600)}),
    ),
)
_BAD_REQUEST = _Rule(
    BadRequest,
    "{provider} did not accept the request.",
    "If this is a fault of mainspring, please report it with `mainspring export`.",
)
_REDIRECTED = _Rule(
    BadRequest, "{provider} wants the request at {location}.", "Set the base URL to where it points."
)


def refused(
    endpoint: Endpoint, status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> ModelError:
    """The error that an HTTP answer other than success, or an error object inside a stream, stands for."""
    refusal = read_refusal(status, body, headers or {})
    if 300 <= refusal.status < 400:
        return _error(endpoint, refusal, _REDIRECTED, location=_location(headers or {}))
    # What goes wrong after a reply began, and has no name, is the provider's own trouble.
    default = _BAD_REQUEST if refusal.status else _RULES[-1]
    return _error(endpoint, refusal, next((rule for rule in _RULES if rule.fits(refusal)), default))


def not_the_protocol(endpoint: Endpoint, what: str) -> NetworkFailed:
    return NetworkFailed(
        f"{endpoint.provider} sent an invalid reply ({_one_line(what) or 'an empty one'}).",
        remedy=f"Check that {endpoint.base_url} is the base URL of a model server.",
    )


def dropped(endpoint: Endpoint) -> NetworkFailed:
    return NetworkFailed(
        f"{endpoint.provider} closed the connection in the middle of its reply.",
        remedy="Try again; check the network if it repeats.",
    )


def _location(headers: Mapping[str, str]) -> str:
    """Where a redirection points, without what may be secret in it."""
    try:
        url = urlsplit(headers.get("location", ""))
    except ValueError:
        return "an address that is none"
    scheme = f"{url.scheme}:" if url.scheme else ""
    host = f"{scheme}//{url.netloc.rpartition('@')[2]}" if url.netloc else ""
    return _one_line(f"{host}{url.path}") or "another address, which it does not name"


def _error(endpoint: Endpoint, refusal: ProviderRefusal, rule: _Rule, *, location: str = "") -> ModelError:
    key = endpoint.key_variable
    words = {
        "provider": endpoint.provider,
        "model": endpoint.model,
        "url": endpoint.base_url,
        "location": location,
        "set_key": f"Set {key} to a valid key." if key else "Give the key that this server wants.",
    }
    happened = rule.happened.format_map(words)
    reason = ": ".join(filter(None, (str(refusal.status or ""), refusal.said)))
    if reason:
        happened = f"{happened[:-1]} ({reason})."
    remedy = rule.remedy.format_map(words)
    if rule.error is not BadRequest:
        return rule.error(happened, remedy=remedy, retry_after_s=refusal.retry_after_s)
    cause, param = rule.cause, _most_output(refusal)
    if not cause:
        cause, param = unsupported(refusal.said, refusal.param, refusal.codes)
    return BadRequest(happened, remedy=remedy, cause=cause, param=param)


def _most_output(refusal: ProviderRefusal) -> str:
    """How many tokens of output a refusal allows; empty when it does not say."""
    found = re.search(_MOST, refusal.said)
    if found is None:
        return ""
    most = int(next(filter(None, found.groups())))
    return str(most - 1 if "exclusive" in found[0] else most)


def read_refusal(status: int, body: bytes, headers: Mapping[str, str]) -> ProviderRefusal:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        said = "a web page" if b"<html" in body[:500].lower() else body[:2000].decode("utf-8", "replace")
        return ProviderRefusal(status, said=_one_line(said), retry_after_s=retry_after_s(headers, []))
    outer = _mapping(found[0] if isinstance(found, list) and found else found)
    inner = _mapping(outer.get("error")) or _mapping(outer.get("response")) or outer
    inner = _mapping(inner.get("error")) or inner
    codes = {
        value.lower()
        for where in (inner, outer, *_details(inner))
        for name in ("code", "type", "status", "reason")
        if isinstance(value := where.get(name), str)
    }
    if "reasons" in _mapping(inner.get("metadata")):
        codes.add("moderation")
    fault = first_fault(outer)
    number = inner.get("code")
    if not status and isinstance(number, int) and 100 <= number < 600:
        status = number
    refusal = ProviderRefusal(
        status=status,
        codes=frozenset(codes),
        said=_one_line(fault.said or _said(outer, inner)),
        param=value if isinstance(value := inner.get("param"), str) else fault.param,
        retry_after_s=retry_after_s(headers, _details(inner)),
    )
    passed_on = _mapping(inner.get("metadata")).get("raw")
    return _with_upstream(refusal, passed_on, headers) if isinstance(passed_on, str) else refusal


def _with_upstream(refusal: ProviderRefusal, passed_on: str, headers: Mapping[str, str]) -> ProviderRefusal:
    """The refusal of a router (OpenRouter), with what the provider behind it said."""
    upstream = read_refusal(refusal.status, passed_on.encode("utf-8", "replace"), headers)
    if not upstream.said:
        return refusal
    codes = refusal.codes | upstream.codes
    return msgspec.structs.replace(refusal, codes=codes, said=upstream.said, param=upstream.param)


def _said(outer: dict[str, Any], inner: dict[str, Any]) -> str:
    for value in (inner.get("message"), outer.get("error"), outer.get("message"), outer.get("detail")):
        if isinstance(value, str):
            return value
        if value and value is not inner:
            return msgspec.json.encode(value).decode()
    return ""


def _mapping(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _details(inner: dict[str, Any]) -> list[dict[str, Any]]:
    details = inner.get("details")
    return [_mapping(detail) for detail in cast("list[Any]", details)] if isinstance(details, list) else []


def _one_line(text: str) -> str:
    line = " ".join(text[: 4 * _SAID_CHARACTERS].split())
    return "".join(each if each.isprintable() else " " for each in line)[:_SAID_CHARACTERS].strip(". ")
