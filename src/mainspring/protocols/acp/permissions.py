"""Questions of a session as the protocol's permission requests, and what a person chose as an answer."""

from __future__ import annotations

from typing import Any

from acp import RequestError, helpers, schema
from msgspec.structs import replace

from mainspring.app.operations.answers import is_question, reach
from mainspring.events import ApprovalAsked, ApprovalGiven, Decision, Scope
from mainspring.protocols.acp.calls import ShownCall
from mainspring.protocols.acp.client import AcpClient

_ALWAYS: dict[Scope, str] = {
    "session": "Always in this session",
    "project": "Always in this project",
    "forever": "Always",
}
_REJECT = "reject"
_CHOICE = "choice-"


async def ask_client(
    client: AcpClient, session: str, question: ApprovalAsked, call: ShownCall
) -> ApprovalGiven | None:
    """The answer of the person at the client; None when they cannot give one there."""
    choices = _choices(call) if is_question(question) else ()
    if is_question(question) and not choices:
        return None  # the turn ends with the question, and the next prompt answers it
    options = _answers(choices) if choices else _options(question)
    about = schema.ToolCallUpdate(
        tool_call_id=call.id,
        title=question.reason if choices else call.started().title,
        kind=call.kind,
        status="pending",
        raw_input=call.arguments,
        content=_why(question),
    )
    try:
        chosen = await client.ask_permission(session, about, options)
    except RequestError:
        return None  # it cannot be asked; the question stays open, for `mainspring approve`
    return _given(question, chosen, choices)


def _options(question: ApprovalAsked) -> list[schema.PermissionOption]:
    covers = "; ".join(reach(question.tool, offer) for offer in question.offers)
    what = f" ({covers})" if covers else ""
    always = [
        schema.PermissionOption(option_id=scope, name=f"{_ALWAYS[scope]}{what}", kind="allow_always")
        for scope in question.scopes
        if scope in _ALWAYS
    ]
    return [
        schema.PermissionOption(option_id="once", name="Allow", kind="allow_once"),
        *always,
        schema.PermissionOption(option_id=_REJECT, name="Reject", kind="reject_once"),
    ]


def _answers(choices: tuple[str, ...]) -> list[schema.PermissionOption]:
    return [
        *(
            schema.PermissionOption(option_id=f"{_CHOICE}{number}", name=choice, kind="allow_once")
            for number, choice in enumerate(choices)
        ),
        schema.PermissionOption(option_id=_REJECT, name="None of these", kind="reject_once"),
    ]


def _choices(call: ShownCall) -> tuple[str, ...]:
    match call.arguments:
        case {"choices": [*choices]}:
            return tuple(map(str, choices))
        case _:
            return ()


def _why(question: ApprovalAsked) -> list[Any] | None:
    texts = [question.reason] if question.reason else []
    texts += [f"{script.path}:\n{script.diff or script.text}" for script in question.scripts]
    return [helpers.tool_content(helpers.text_block(text)) for text in texts] or None


def _given(question: ApprovalAsked, chosen: str, choices: tuple[str, ...]) -> ApprovalGiven:
    given = ApprovalGiven(
        call=question.call, arguments_sha256=question.arguments_sha256, decision=_decision(chosen)
    )
    if chosen.startswith(_CHOICE):
        return replace(given, feedback=choices[int(chosen.removeprefix(_CHOICE))])
    return replace(given, scope=chosen) if chosen in _ALWAYS else given


def _decision(chosen: str) -> Decision:
    """No choice at all means that the person stopped the turn."""
    if not chosen:
        return "stop"
    return "reject" if chosen == _REJECT else "allow"
