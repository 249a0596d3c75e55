"""What a program in any language tells a session that it drives: one value per line of its input.

`mainspring schema` describes these values and what comes back, for programs without Python.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.errors import MainspringError, UsageError
from mainspring.events import (
    STORED,
    ApprovalGiven,
    Decision,
    Delta,
    Effort,
    Extent,
    Scope,
)
from mainspring.events.decoding import DECODE_ERRORS
from mainspring.session.session import Session


class _Input(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", forbid_unknown_fields=True):
    """`id` is the program's own name for it, and stands in what it is answered with."""

    id: str = ""


class SayInput(_Input, frozen=True, tag="say"):
    """Says something to the agent: it starts a turn, or enters the running one between two steps. The turn
    that it starts answers with JSON that fits `output_schema`, when that is given."""

    text: str
    output_schema: dict[str, Any] | None = None


class NoteInput(_Input, frozen=True, tag="note"):
    """Tells the agent something between two steps, without asking for anything."""

    text: str


class AnswerInput(_Input, frozen=True, tag="answer"):
    """Answers an `ApprovalAsked`, by its call. With `arguments_sha256` it counts only for these arguments."""

    call: str
    decision: Decision = "allow"
    feedback: str = ""
    scope: Scope = "once"
    arguments_sha256: str = ""
    edited_arguments: str | None = None


class StopInput(_Input, frozen=True, tag="stop"):
    """Ends the running turn as interrupted."""


class ContinueInput(_Input, frozen=True, tag="continue"):
    """Goes on with a turn that was interrupted, blocked or limited."""


class CompactInput(_Input, frozen=True, tag="compact"):
    """Shortens the history; nothing is lost."""


class UndoInput(_Input, frozen=True, tag="undo"):
    """Takes back the last turn."""

    scope: Extent = "both"


class ModelInput(_Input, frozen=True, tag="model"):
    """Goes on with another model, or tier, from the next step on."""

    model: str


class EffortInput(_Input, frozen=True, tag="effort"):
    """Says how hard to think from the next step on; null is the provider's own choice."""

    effort: Effort | None = None


class CloseInput(_Input, frozen=True, tag="close"):
    """Ends the session when its turn has ended, as the end of the input does."""


ControlInput = (
    SayInput
    | NoteInput
    | AnswerInput
    | StopInput
    | ContinueInput
    | CompactInput
    | UndoInput
    | ModelInput
    | EffortInput
    | CloseInput
)


class InputDone(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """What an input asked for is on record."""

    id: str = ""


class InputRefused(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """An input could not be read, or done: why, and what to do instead."""

    id: str = ""
    message: str
    remedy: str = ""


_DECODE = msgspec.json.Decoder(ControlInput).decode


def read_input(line: bytes) -> ControlInput:
    """Raises `UsageError` when the line is none."""
    try:
        return _DECODE(line)
    except DECODE_ERRORS as error:
        raise UsageError(
            f"The line is no input: {error}.", remedy="`mainspring schema input` says what is."
        ) from error


async def take_input(session: Session, given: ControlInput) -> InputDone | InputRefused:
    """Does what a program asks for; what is wrong with it is told, and nothing else is disturbed."""
    try:
        await _do(session, given)
    except MainspringError as error:
        return InputRefused(id=given.id, message=error.message, remedy=error.remedy)
    return InputDone(id=given.id)


async def _do(session: Session, given: ControlInput) -> None:
    match given:
        case SayInput(text=text, output_schema=schema):
            await session.say(text, output=schema)
        case NoteInput(text=text):
            await session.note(text)
        case AnswerInput():
            await session.answer(_answer(session, given))
        case StopInput():
            await session.stop()
        case ContinueInput():
            if not await session.proceed():
                raise UsageError("Nothing is left to continue.", remedy="Say something new.")
        case CloseInput():
            pass
        case _:
            await _set(session, given)


async def _set(session: Session, given: CompactInput | UndoInput | ModelInput | EffortInput) -> None:
    match given:
        case CompactInput():
            await session.compact()
        case UndoInput(scope=scope):
            await session.undo(scope)
        case ModelInput(model=model):
            await session.set_model(model)
        case EffortInput(effort=effort):
            await session.set_effort(effort)


def _answer(session: Session, given: AnswerInput) -> ApprovalGiven:
    asked = session.state.requests.open.get(given.call)
    known = asked.arguments_sha256 if asked else ""
    return ApprovalGiven(
        call=given.call,
        arguments_sha256=given.arguments_sha256 or known,
        decision=given.decision,
        feedback=given.feedback,
        scope=given.scope,
        edited_arguments=given.edited_arguments,
    )


def control_schema(side: str = "output") -> dict[str, Any]:
    """The JSON Schema of one line: of the input, or of the output. Events of later versions may have further
    fields and kinds."""
    inputs = ControlInput.__args__
    recorded, deltas, replies = STORED, Delta.__args__, (InputDone, InputRefused)
    kinds = (*inputs, *recorded, *deltas, *replies)
    _, definitions = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    lines = {kind.__name__: _line(kind.__name__, least=1) for kind in recorded}
    lines |= {kind.__name__: _line(kind.__name__, least=0) for kind in deltas}
    own = {"$defs": {**definitions, **{f"{name}Line": line for name, line in lines.items()}}}
    wanted = [kind.__name__ for kind in inputs]
    if side == "output":
        wanted = [*(f"{name}Line" for name in lines), *(kind.__name__ for kind in replies)]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"One line of the {side} of `mainspring run --input-format jsonl --json`",
        "anyOf": [{"$ref": f"#/$defs/{name}"} for name in wanted],
        **own,
    }


def _line(kind: str, *, least: int) -> dict[str, Any]:
    """A line with an event; a delta has the number 0."""
    number = {"type": "integer", "minimum": 1} if least else {"const": 0}
    properties = {
        "seq": number,
        "time": {"type": "string"},
        "kind": {"const": kind},
        "body": {"$ref": f"#/$defs/{kind}"},
    }
    return {"type": "object", "properties": properties, "required": [*properties]}
