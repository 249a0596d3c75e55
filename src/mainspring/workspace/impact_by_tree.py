"""What `impact` knows of a file in another language than Python, from the tree of its grammar. Pure.

Parameters go by their place, since nobody there calls them by name; a type is compared as it is written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mainspring.patterns import lazy_pattern
from mainspring.workspace.impact import CodeDefinition, FileFacts, FunctionParameter

_DEFAULT = lazy_pattern(r"(?<![=!<>])=(?![=>])")
_DEFAULT_IMPORT = lazy_pattern(r"^(?:import\s+(?:type\s+)?\w+\s*(?:,|from\b)|require|import\s*\()")


def facts_of_tree(outline: Mapping[str, Any] | None, content: bytes) -> FileFacts:
    """From what the grammar's process says that a file defines; None: it could not be read."""
    if outline is None:
        return FileFacts(is_read=False)
    lines = content.split(b"\n")
    found = {each["name"]: _definition(each, lines) for each in outline["definitions"]}
    if exports := outline["exports"]:
        found = dict(_exported(found, exports, lines))
    return FileFacts(definitions=found)


def default_imports(imports: Iterable[tuple[int, str, Sequence[str]]]) -> dict[str, int]:
    """The files whose default a script imports under a name of its own, as uses; of each import the line, the
    text and the files that it means."""
    return {
        f"default:{target}": line
        for line, text, targets in imports
        for target in targets
        if _DEFAULT_IMPORT.match(text)
    }


def _exported(
    found: Mapping[str, CodeDefinition], exports: Sequence[Sequence[Any]], lines: Sequence[bytes]
) -> Iterator[tuple[str, CodeDefinition]]:
    """The definitions under the names that others use; all else is the file's own."""
    public = {local for name, local, *_ in exports if local and name in (local, "default")}
    default = {local for name, local, *_ in exports if name == "default"}
    for name, each in found.items():
        top = name.partition(".")[0]
        yield name, _with(each, is_public=each.is_public and top in public, is_default=name in default)
    for name, local, first, last in exports:
        if name not in found and not (name == "default" and local in found):
            value = CodeDefinition(first, "value", (), _hash(lines, first, last))
            yield name, _with(found.get(local, value), is_public=True, is_default=name == "default")


def _definition(each: Mapping[str, Any], lines: Sequence[bytes]) -> CodeDefinition:
    kind, is_async = each["kind"], each["signature"].startswith("async ")
    return CodeDefinition(
        line=each["line"],
        kind=f"async {kind}" if is_async else kind,
        parameters=tuple(_parameters(each["parameters"])),
        text=_hash(lines, each["line"], each["last_line"]),
        is_public=each["is_public"],
    )


def _parameters(given: Sequence[Mapping[str, str]]) -> Iterator[FunctionParameter]:
    taken = [each for each in given if each["name"] != "self" and not each["text"].endswith("self")]
    for number, each in enumerate(taken, 1):
        declared, *default = _DEFAULT.split(each["text"], maxsplit=1)
        is_rest = "..." in declared or declared.startswith("*")
        is_optional = bool(default) or is_rest or bool(re.match(rf"{re.escape(each['name'])}\?", declared))
        kind = "" if declared.startswith(("{", "[")) else _type(declared, each["name"])
        yield FunctionParameter(str(number), "rest" if is_rest else "positional", not is_optional, kind)


def _type(declared: str, name: str) -> str:
    """What stands in a parameter beside its name."""
    rest = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)\??\s*:?", " ", declared, count=1)
    return " ".join(rest.split())


def _hash(lines: Sequence[bytes], first: int, last: int) -> str:
    words = b" ".join(b"\n".join(lines[first - 1 : last]).split())
    return hashlib.blake2b(words, digest_size=8).hexdigest()


def _with(each: CodeDefinition, *, is_public: bool, is_default: bool = False) -> CodeDefinition:
    return CodeDefinition(each.line, each.kind, each.parameters, each.text, is_public, is_default)
