"""The tool `impact`: the operation behind `mainspring impact`, for the model, found with `find_tools`."""

from importlib import import_module
from pathlib import Path

from mainspring.errors import MainspringError
from mainspring.settings import Config
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described
from mainspring.tools.schema import Arguments


class ImpactArguments(Arguments, frozen=True):
    paths: tuple[str, ...] = ()
    since: str = ""


def impact_tools(config: Config) -> list[Tool]:
    async def run(arguments: ImpactArguments, place: CallContext) -> Output:
        operation = import_module("mainspring.app.operations.impact")
        try:
            found = await operation.look_at_impact(config, place.workspace, arguments.paths, arguments.since)
            return Output(text="\n".join(operation.impact_lines(found)))
        except MainspringError as error:
            raise ToolFailed(f"{error.message} {error.remedy}".strip()) from error

    return [
        Tool(
            name="impact",
            description=described(Path(__file__)),
            arguments=ImpactArguments,
            effect="read",
            paths=lambda arguments: arguments.paths,
            run=run,
        )
    ]
