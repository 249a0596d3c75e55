"""What a line that a person types means as answers to the questions before them. Pure.

A line is `[N | all] LETTER [REST]`. With one open question it needs no number; to a question of the agent's
own the whole line is the answer.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from mainspring.approvals.answers import NOT_EDITABLE, SEVERAL_AGREE, misfit
from mainspring.approvals.grants import Grant, is_pattern
from mainspring.approvals.questions import Approver as Approver  # noqa: PLC0414 - faces name it
from mainspring.errors import UsageError
from mainspring.events import ApprovalAsked, ApprovalGiven, Offer, Scope
from mainspring.tools.ask import NAME as ASK

_SCOPES: dict[str, Scope] = {"a": "session", "p": "project", "f": "forever"}
_REACHES: dict[Scope, str] = {
    "session": "[a]lways in this session",
    "project": "in this [p]roject",
    "forever": "[f]or ever",
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def help_for(questions: Sequence[ApprovalAsked]) -> str:
    """The answers that at least one of these questions takes."""
    reaches = [
        text for scope, text in _REACHES.items() if any(scope in question.scopes for question in questions)
    ]
    always = [f"{', '.join(reaches)} (add 8h or 7d, and your own pattern)"] if reaches else []
    is_editable = any(question.is_editable for question in questions)
    edit = ["[e]dit (add the new command or JSON)"] if is_editable else []
    return ", ".join(["[y]es", *always, *edit, "[n]o (add why), [s]top the turn, [v]iew all"])


def answers_in(line: str, questions: Sequence[ApprovalAsked], *, now_us: int) -> tuple[ApprovalGiven, ...]:
    """The answers that a line gives; raises `UsageError` with a sentence when it gives none."""
    which, rest = _which(line.strip(), questions)
    answers = tuple(_answer(rest, question, now_us=now_us) for question in which)
    for question, given in zip(which, answers, strict=True):
        if why := misfit(question, given):
            raise UsageError(f"This answer is not possible: {why}.")
    return answers


def lasting(text: str, *, now_us: int) -> int:
    """When something that lasts `30m`, `8h` or `7d` from now is over."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if not found:
        raise UsageError(f"{text!r} is not a time.", remedy="Write it like 30m, 8h or 7d.")
    return now_us + int(found[1]) * _SECONDS[found[2]] * 1_000_000


async def nobody(_: ApprovalAsked) -> None:
    """The approver where no person is: the turn ends as blocked, and its question stays open."""
    return


async def consent(question: ApprovalAsked) -> ApprovalGiven:
    """The approver of what a person entered themselves: typing it was the yes."""
    return ApprovalGiven(call=question.call, arguments_sha256=question.arguments_sha256, decision="allow")


def is_question(asked: ApprovalAsked) -> bool:
    """Whether the agent itself asks something; else a call needs approval."""
    return asked.tool == ASK


def reach(tool: str, given: Offer | Grant) -> str:
    """What a grant covers, in words."""
    if isinstance(given, Grant) and given.arguments_sha256:
        return f"{tool}: one exact call"
    named = given.arguments if isinstance(given, Grant) else {}
    told = ", ".join(f"{name}={pattern}" for name, pattern in named.items())
    what = given.command or given.path or given.host or told or "every call"
    return f"{tool}: {what}" + (f" (accepts {', '.join(given.accepts)})" if given.accepts else "")


def editable_text(question: ApprovalAsked) -> str:
    """What a person edits: the command when the call has one, else all its arguments as JSON."""
    arguments: dict[str, Any] = _arguments(question.arguments)
    match arguments:
        case {"command": str(command)}:
            return command
        case {"argv": [*argv]}:
            return shlex.join(map(str, argv))
        case _:
            return question.arguments


def edited(question: ApprovalAsked, text: str) -> str:
    """New arguments for a call: JSON, or the command in place of the one that was asked for."""
    if not question.is_editable:
        why = SEVERAL_AGREE if question.quorums else NOT_EDITABLE
        raise UsageError(f"The arguments cannot be edited: {why}.")
    if text.startswith("{"):
        _arguments(text)
        return text
    match _arguments(question.arguments):
        case {"command": _} as arguments if text:
            changed = {**arguments, "command": text}
        case {"argv": _} as arguments if is_pattern(text):
            changed = {**arguments, "argv": shlex.split(text)}
        case _:
            raise UsageError("Type the new arguments as a JSON object.")
    return msgspec.json.encode(changed).decode()


def _which(line: str, questions: Sequence[ApprovalAsked]) -> tuple[tuple[ApprovalAsked, ...], str]:
    if len(questions) == 1 and is_question(questions[0]):
        return (questions[0],), line
    first, _, rest = line.partition(" ")
    if first == "all":
        return tuple(question for question in questions if not is_question(question)), rest.strip()
    if first.isdecimal() and 0 < int(first) <= len(questions):
        return (questions[int(first) - 1],), rest.strip()
    if len(questions) > 1:
        raise UsageError("Say which one: `1 y`, `2 n too risky`, or `all y`.")
    return (questions[0],), line


def _answer(text: str, question: ApprovalAsked, *, now_us: int) -> ApprovalGiven:
    yes = ApprovalGiven(call=question.call, arguments_sha256=question.arguments_sha256, decision="allow")
    replace = msgspec.structs.replace
    if is_question(question):
        return replace(yes, decision="allow" if text else "reject", feedback=text)
    letter, _, rest = text.partition(" ")
    rest = rest.strip()
    match letter.lower()[:1]:
        case "y":
            return yes
        case "n":
            return replace(yes, decision="reject", feedback=rest)
        case "s":
            return replace(yes, decision="stop", feedback=rest)
        case "e":
            return replace(yes, edited_arguments=edited(question, rest))
        case "a" | "p" | "f" as scope:
            return _lasting(replace(yes, scope=_SCOPES[scope]), rest, now_us=now_us)
        case _:
            raise UsageError(f"{help_for((question,))}.")


def _lasting(yes: ApprovalGiven, rest: str, *, now_us: int) -> ApprovalGiven:
    """A yes for more than once, perhaps for a while, perhaps for a pattern of the person's own."""
    first, _, pattern = rest.partition(" ")
    if not re.fullmatch(r"\d+[smhdw]", first):
        return msgspec.structs.replace(yes, pattern=rest)
    expires_us = lasting(first, now_us=now_us)
    return msgspec.structs.replace(yes, pattern=pattern.strip(), expires_us=expires_us)


def _arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise UsageError(f"The arguments are not a JSON object: {error}.") from error
