"""Rows as the lines of a Markdown table, one line a row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first row is the head."""
    for number, row in enumerate(rows):
        yield row_line(row)
        if number == 0:
            yield row_line("---" for _ in row)


def row_line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_in_cell(cell) for cell in cells)} |"


def _in_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
