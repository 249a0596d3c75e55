"""A Jupyter notebook as text: each cell with its number, its source and what it printed."""

from __future__ import annotations

import msgspec

from mainspring.events.decoding import DECODE_ERRORS

_MAX_OUTPUT = 4000

_Lines = str | list[str]


class _Output(msgspec.Struct, frozen=True):
    text: _Lines = ""
    data: dict[str, msgspec.Raw] = {}
    ename: str = ""
    evalue: str = ""


class _Cell(msgspec.Struct, frozen=True):
    cell_type: str = "code"
    source: _Lines = ""
    outputs: list[_Output] = []


class _Notebook(msgspec.Struct, frozen=True):
    cells: list[_Cell]


def notebook_text(text: str) -> str:
    """The notebook as a person would read it; empty when it is not one."""
    try:
        notebook = msgspec.json.decode(text, type=_Notebook)
        return "\n\n".join(_cell(number, cell) for number, cell in enumerate(notebook.cells, 1))
    except DECODE_ERRORS:
        return ""


def _cell(number: int, cell: _Cell) -> str:
    parts = [f"[cell {number}: {cell.cell_type}]", _joined(cell.source)]
    parts += [f"[output of cell {number}]\n{told}" for output in cell.outputs if (told := _output(output))]
    return "\n".join(parts)


def _output(output: _Output) -> str:
    if output.ename:
        return f"{output.ename}: {output.evalue}"
    text = _joined(output.text)
    if plain := output.data.get("text/plain"):
        text += _joined(msgspec.json.decode(plain, type=_Lines))
    others = sorted(kind for kind in output.data if kind.startswith("image/"))
    text += "".join(f"\n({kind}, not shown)" for kind in others)
    return f"{text[:_MAX_OUTPUT]}… ({len(text):,} characters)" if len(text) > _MAX_OUTPUT else text


def _joined(lines: _Lines) -> str:
    return lines if isinstance(lines, str) else "".join(lines)
