"""Tools that ask the language servers of the project: what is wrong in a file, where a name is defined and
used, and renaming it everywhere. They are offered only where a server can answer, and found with
`find_tools`. Where none knows a file, the index of the repository tells names, and says so."""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from msgspec import Meta

from mainspring.checks import NotChecked
from mainspring.checks.language_server import LanguageServer
from mainspring.checks.servers import SessionLanguageServers
from mainspring.checks.symbol_values import (
    Place,
    TextEdit,
    edited,
    edits_in,
    outline_in,
    places_in,
    utf16_column,
)
from mainspring.documents.findings import line_of
from mainspring.index import IndexedSymbol, UsedAt
from mainspring.tools import CallContext, Output, Tool, ToolFailed
from mainspring.tools.files import described, encoded, look_at, text_to_change
from mainspring.tools.patch import Change, make_changes
from mainspring.tools.schema import Arguments
from mainspring.tools.text import decode

_MAX_LINES = 200
_MAX_FILES = 500
_MAX_TEXT = 160
_Line = Annotated[int, Meta(ge=1, description="Counted from 1")]
T = TypeVar("T")


class DiagnosticsArguments(Arguments, frozen=True):
    path: str


class SymbolsArguments(Arguments, frozen=True):
    action: Literal["outline", "definition", "references"]
    path: str = ""
    line: Annotated[int, Meta(ge=0, description="Counted from 1; not for an outline")] = 0
    symbol: str = ""


class RenameArguments(Arguments, frozen=True):
    path: str
    line: _Line
    symbol: Annotated[str, Meta(min_length=1)]
    new_name: Annotated[str, Meta(min_length=1)]


class SymbolIndex(Protocol):
    """What an index knows by names alone. `is_busy`: somebody is filling it."""

    is_busy: bool

    async def outline(self, path: str) -> list[IndexedSymbol]: ...
    async def definitions(self, name: str) -> list[IndexedSymbol]: ...
    async def references(self, name: str) -> list[UsedAt]: ...
    def path_here(self, path: str) -> str: ...


def code_tools(
    servers: Callable[[], SessionLanguageServers] | None,
    *,
    has_symbols: bool,
    index: SymbolIndex | None = None,
) -> list[Tool]:
    """The tools of a session: of its servers, and what its index can tell without one."""
    tools = _CodeTools(servers, index)
    here = Path(__file__)
    diagnostics = Tool(
        name="diagnostics",
        description=described(here.with_name("diagnostics.py")),
        arguments=DiagnosticsArguments,
        effect="read",
        paths=lambda arguments: (arguments.path,),
        run=tools.diagnostics,
    )
    symbols = Tool(
        name="symbols",
        description=described(here.with_name("symbols.py")),
        arguments=SymbolsArguments,
        effect="read",
        paths=lambda arguments: (arguments.path,) if arguments.path else (),
        run=tools.symbols,
    )
    rename = Tool(
        name="rename",
        description=described(here.with_name("rename.py")),
        arguments=RenameArguments,
        effect="execute",  # which files it changes is not known before
        paths=lambda arguments: (arguments.path,),
        run=tools.rename,
    )
    offered = ((diagnostics, servers), (symbols, has_symbols or index), (rename, has_symbols))
    return [tool for tool, is_offered in offered if is_offered]


class _CodeTools:
    def __init__(
        self, servers: Callable[[], SessionLanguageServers] | None, index: SymbolIndex | None
    ) -> None:
        self._servers, self._index = servers, index

    async def diagnostics(self, arguments: DiagnosticsArguments, place: CallContext) -> Output:
        path, text = await _text(place, arguments.path)
        lines: list[str] = []
        for server in await self._for(place, path):
            try:
                lines += [line_of(path, each) for each in await server.findings(path, text.encode())]
            except NotChecked as error:
                lines.append(f"{path}: not checked by {server.name}: {error}")
        return Output(text=_shown(lines) or f"{path}: nothing is wrong.")

    async def symbols(self, arguments: SymbolsArguments, place: CallContext) -> Output:
        if self._index and not (arguments.path and await self._knows_symbols(place, arguments)):
            return await self._from_index(self._index, arguments, place)
        path, text = await _text(place, arguments.path)
        if arguments.action == "outline":
            lines = await self._ask(place, path, text, "textDocument/documentSymbol", {}, outline_in)
            return Output(text=_shown(lines) or f"{path} has no symbols.")
        params: dict[str, Any] = {"position": _position(text, arguments.line, arguments.symbol)}
        if arguments.action == "references":
            params["context"] = {"includeDeclaration": True}
        method = f"textDocument/{arguments.action}"
        found = await self._ask(place, path, text, method, params, places_in)
        lines = [await _place_line(place, each) for each in dict.fromkeys(found[:_MAX_LINES])]
        left = [f"and {len(found) - _MAX_LINES} more"] if len(found) > _MAX_LINES else []
        return Output(text="\n".join([*lines, *left]) or f"No {arguments.action} of {arguments.symbol!r}.")

    async def rename(self, arguments: RenameArguments, place: CallContext) -> Output:
        path, text = await _text(place, arguments.path)
        position = _position(text, arguments.line, arguments.symbol)
        params = {"position": position, "newName": arguments.new_name}
        edits = await self._ask(place, path, text, "textDocument/rename", params, edits_in)
        if not edits:
            raise ToolFailed(f"The language server renames nothing at {path}:{arguments.line}.")
        if len(edits) > _MAX_FILES:
            raise ToolFailed(f"That would change {len(edits)} files; nothing was changed.")
        changes = [await _change(place, file, each, arguments.symbol) for file, each in edits.items()]
        await make_changes(place, changes)
        lines = [f"{change.path}: {len(each)}" for change, each in zip(changes, edits.values(), strict=True)]
        return Output(text=f"Renamed {arguments.symbol} to {arguments.new_name}:\n{_shown(lines)}")

    async def _knows_symbols(self, place: CallContext, arguments: SymbolsArguments) -> bool:
        """Whether a server can be asked: for a name it must be told a line."""
        if self._servers is None or (arguments.action != "outline" and not arguments.line):
            return False
        found, _ = await self._servers().usable(place.files.policy, place.sandbox, [arguments.path])
        return any(server.knows_symbols and server.takes(arguments.path) for server in found)

    async def _from_index(
        self, index: SymbolIndex, arguments: SymbolsArguments, place: CallContext
    ) -> Output:
        if arguments.action == "outline":
            path, _ = await _text(place, arguments.path)
            lines = [_outline_line(each) for each in await index.outline(path)]
        elif not arguments.symbol:
            raise ToolFailed("Give a symbol.")
        elif arguments.action == "definition":
            found = await index.definitions(arguments.symbol)
            lines = [f"{index.path_here(each.path)}:{each.line}: {each.signature}" for each in found]
        else:
            used = await index.references(arguments.symbol)
            places = [Place(index.path_here(each.path), line) for each in used for line in each.lines]
            lines = [await _place_line(place, each) for each in places[:_MAX_LINES]]
            lines += [f"and {len(places) - _MAX_LINES} more"] if len(places) > _MAX_LINES else []
        what = f"{arguments.action} of {arguments.symbol or arguments.path}"
        busy = "; it is being filled and not complete" if index.is_busy else ""
        return Output(text=f"{_shown(lines) or f'No {what}.'}\n(from the index, by name alone{busy})")

    async def _for(self, place: CallContext, path: str) -> list[LanguageServer]:
        if self._servers is None:
            raise ToolFailed(f"No language server knows {path}.")
        found, missing = await self._servers().usable(place.files.policy, place.sandbox, [path])
        takes = [server for server in found if server.takes(path)]
        if not takes:
            why = "; ".join(f"{name}: {reason}" for name, reason in missing.items())
            raise ToolFailed(f"No language server knows {path}{f' ({why})' if why else ''}.")
        return takes

    async def _ask(
        self,
        place: CallContext,
        path: str,
        text: str,
        method: str,
        params: dict[str, Any],
        read: Callable[[Any], T],
    ) -> T:
        servers = [server for server in await self._for(place, path) if server.knows_symbols]
        if not servers:
            raise ToolFailed(f"No language server knows the symbols of {path}.")
        try:
            return await servers[0].ask(path, text, method, params, read)
        except NotChecked as error:
            raise ToolFailed(f"{servers[0].name}: {error}.") from error


async def _text(place: CallContext, path: str) -> tuple[str, str]:
    """The path from the workspace on, and what the file holds."""
    content = await look_at(place, path)
    decoded = decode(content.data)
    if decoded is None or not content.path.is_relative_to(place.workspace):
        raise ToolFailed(f"{path} is no text file of the workspace.")
    return str(content.path.relative_to(place.workspace)), content.data.decode("utf-8", "replace")


def _position(text: str, line: int, symbol: str) -> dict[str, int]:
    lines = text.split("\n")
    if not (symbol and 0 < line <= len(lines)):
        raise ToolFailed(f"Give a line of the file (1 to {len(lines)}) and a symbol that stands in it.")
    found = re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", lines[line - 1])
    if found is None:
        raise ToolFailed(f"{symbol!r} does not stand in line {line}: {lines[line - 1].strip()[:_MAX_TEXT]!r}")
    return {"line": line - 1, "character": utf16_column(lines[line - 1], found.start())}


async def _place_line(place: CallContext, found: Place) -> str:
    """A place as grep writes it, as far as the file may be read."""
    path = Path(found.path)
    name = str(path.relative_to(place.workspace)) if path.is_relative_to(place.workspace) else found.path
    try:
        lines = (await look_at(place, name)).data.decode("utf-8", "replace").split("\n")
    except ToolFailed:
        return f"{name}:{found.line}"
    text = lines[found.line - 1].strip() if 0 < found.line <= len(lines) else ""
    return f"{name}:{found.line}: {text[:_MAX_TEXT]}"


async def _change(place: CallContext, file: str, edits: Sequence[TextEdit], symbol: str) -> Change:
    path = Path(file)
    if not path.is_relative_to(place.workspace):
        raise ToolFailed(f"{file} is outside the workspace; nothing was changed.")
    name = str(path.relative_to(place.workspace))
    content, decoded = await text_to_change(place, name)
    try:
        after = edited(decoded.text, edits, symbol)
    except (ValueError, UnicodeError) as error:
        raise ToolFailed(f"{name}: {error}; nothing was changed.") from error
    return Change(name, content, encoded(decoded, after, name))


def _outline_line(symbol: IndexedSymbol) -> str:
    depth = symbol.parent.count(".") + 1 if symbol.parent else 0
    return f"{'  ' * depth}{symbol.line}: {symbol.kind} {symbol.name}"


def _shown(lines: Iterable[str]) -> str:
    given = list(lines)
    left = [f"and {len(given) - _MAX_LINES} more"] if len(given) > _MAX_LINES else []
    return "\n".join([*given[:_MAX_LINES], *left])
