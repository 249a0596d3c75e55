"""Asks the user. The question takes the path of an approval: it is on record before a person sees it, the
answer is on record before the call runs, and without a person the turn ends as blocked.
"""

from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

NAME = "ask"


class AskArguments(Arguments, frozen=True):
    question: Annotated[str, Meta(min_length=1)]
    choices: Annotated[tuple[str, ...], Meta(max_length=9)] = ()


async def _run(arguments: AskArguments, place: CallContext) -> Output:
    answer = place.answer.strip()
    if answer.isdecimal() and 0 < int(answer) <= len(arguments.choices):
        answer = arguments.choices[int(answer) - 1]
    return Output(text=f"The user answered: {answer}" if answer else "The user agreed without saying more.")


def _question(arguments: AskArguments) -> str:
    choices = [f"  {number}. {choice}" for number, choice in enumerate(arguments.choices, 1)]
    return "\n".join([arguments.question, *choices])


TOOL = Tool(
    name=NAME,
    description=described(Path(__file__)),
    arguments=AskArguments,
    effect="none",
    question=_question,
    run=_run,
)
