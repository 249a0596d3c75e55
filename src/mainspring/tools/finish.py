"""Records that the work is done, with evidence: every claim cites calls that have a result on record."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from mainspring.events import CallEnded, Evidence, WorkFinished
from mainspring.events.counts import plural
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments

_MAX_LISTED = 20
_MAX_LINE = 80


class CitedClaim(Arguments, frozen=True):
    claim: Annotated[str, Meta(min_length=1)]
    calls: Annotated[tuple[str, ...], Meta(min_length=1)]


class FinishArguments(Arguments, frozen=True):
    summary: Annotated[str, Meta(min_length=1)]
    evidence: tuple[CitedClaim, ...] = ()


async def _run(arguments: FinishArguments, place: CallContext) -> Output:
    cited = {call for claim in arguments.evidence for call in claim.calls}
    found: Mapping[str, CallEnded] = await place.ended(cited) if cited else {}
    if missing := sorted(cited - set(found)):
        known = listed(await place.ended(()))
        raise ToolFailed(f"No call with a result has the id {', '.join(missing)}. {known}")
    evidence = tuple(Evidence(claim=claim.claim, calls=claim.calls) for claim in arguments.evidence)
    await place.record(WorkFinished(summary=arguments.summary, evidence=evidence, call=place.call))
    failed = sorted(call for call, ended in found.items() if ended.is_error)
    warning = f" Mind that these calls failed: {', '.join(failed)}." if failed else ""
    return Output(text=f"Recorded, with {plural(len(evidence), 'claim')}.{warning}")


def listed(ended: Mapping[str, CallEnded]) -> str:
    """The newest calls with the beginning of what they gave, so that the model can cite the right ones."""
    if not ended:
        return "No call has ended yet."
    lines = [
        f"{call}: {event.outcome}, {event.output.partition(chr(10))[0][:_MAX_LINE]}"
        for call, event in list(ended.items())[-_MAX_LISTED:]
    ]
    return "The newest calls are:\n" + "\n".join(lines)


TOOL = Tool(
    name="finish",
    description=described(Path(__file__)),
    arguments=FinishArguments,
    effect="none",
    run=_run,
)
