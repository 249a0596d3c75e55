"""The tools of the small profile: the same tools behind flat arguments, each told in one line."""

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from mainspring.system import this_system
from mainspring.tools import CallContext, Output, Tool
from mainspring.tools.edit import TOOL as EDIT
from mainspring.tools.edit import EditArguments, Replacement
from mainspring.tools.find import TOOL as FIND
from mainspring.tools.find import FindArguments
from mainspring.tools.finish import TOOL as FINISH
from mainspring.tools.finish import FinishArguments
from mainspring.tools.grep import TOOL as GREP
from mainspring.tools.grep import GrepArguments
from mainspring.tools.read import TOOL as READ
from mainspring.tools.read import ReadArguments
from mainspring.tools.schema import Arguments
from mainspring.tools.shell import TOOL as SHELL
from mainspring.tools.shell import ShellArguments
from mainspring.tools.write import TOOL as WRITE

_T = TypeVar("_T")


class FlatRead(Arguments, frozen=True):
    path: str
    offset: Annotated[int, Meta(ge=1, description="First line")] = 1


class FlatEdit(Arguments, frozen=True):
    path: str
    old: Annotated[str, Meta(min_length=1, description="Lines as they stand in the file")]
    new: Annotated[str, Meta(description="Lines to put there")]


class FlatShell(Arguments, frozen=True):
    command: Annotated[str, Meta(min_length=1)]


class FlatFind(Arguments, frozen=True):
    glob: Annotated[str, Meta(description="Names, as *.py")] = ""
    text: Annotated[str, Meta(description="Text in the files")] = ""


class FlatFinish(Arguments, frozen=True):
    summary: Annotated[str, Meta(min_length=1)]


def _flat(tool: Tool, description: str, flat: type[Arguments], whole: Callable[[Any], Any]) -> Tool:
    """A tool that takes `flat` arguments, which stand for `whole` ones."""

    async def run(arguments: Any, place: CallContext) -> Output | str:
        return await tool.run(whole(arguments), place)

    return msgspec.structs.replace(
        tool,
        description=description,
        arguments=flat,
        run=run,
        paths=_after(whole, tool.paths),
        command=_after(whole, tool.command),
        outlives=_after(whole, tool.outlives),
    )


def _after(whole: Callable[[Any], Any], told: Callable[[Any], _T]) -> Callable[[Any], _T]:
    return lambda arguments: told(whole(arguments))


def _everywhere(_: FlatFind) -> tuple[str, ...]:
    return (".",)


async def _find(arguments: FlatFind, place: CallContext) -> Output | str:
    if arguments.text:
        wanted = GrepArguments(pattern=re.escape(arguments.text), glob=arguments.glob, limit=50)
        return await GREP.run(wanted, place)
    return await FIND.run(FindArguments(glob=arguments.glob, limit=100), place)


_SHELL = _flat(
    SHELL, "Run a bash command, such as a test.", FlatShell, lambda flat: ShellArguments(command=flat.command)
)
SMALL_TOOLS: tuple[Tool, ...] = (
    _flat(
        READ,
        "Show a file with line numbers.",
        FlatRead,
        lambda flat: ReadArguments(path=flat.path, offset=flat.offset),
    ),
    msgspec.structs.replace(WRITE, description="Create a file, or replace a whole file that you have read."),
    _flat(
        EDIT,
        "Replace lines in a file.",
        FlatEdit,
        lambda flat: EditArguments(path=flat.path, edits=(Replacement(old=flat.old, new=flat.new),)),
    ),
    *((_SHELL,) if this_system().has_custody else ()),
    msgspec.structs.replace(
        FIND,
        description="List files, or find text in them.",
        arguments=FlatFind,
        paths=_everywhere,
        run=_find,
    ),
    _flat(
        FINISH,
        "Say that the work is done, in one line.",
        FlatFinish,
        lambda flat: FinishArguments(summary=flat.summary),
    ),
)
