"""How wide text is on a terminal, where some characters take two cells. Pure."""

from __future__ import annotations

from prompt_toolkit.utils import get_cwidth


def cut_to_width(line: str, columns: int) -> list[str]:
    """A line in pieces that each fit into so many cells."""
    if line.isascii():
        return [line[at : at + columns] for at in range(0, len(line), columns)]
    pieces, piece, used = list[str](), "", 0
    for sign in line:
        wide = get_cwidth(sign)
        if piece and used + wide > columns:
            pieces.append(piece)
            piece, used = "", 0
        piece, used = piece + sign, used + wide
    return [*pieces, piece] if piece else pieces
