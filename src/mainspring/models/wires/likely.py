"""What else a model nearly wrote, as servers tell it beside each token of a reply (`logprobs`). There is more
than one form of that; one that is not known here says nothing.
"""

from __future__ import annotations

import math
from heapq import nlargest

import msgspec

from mainspring.events import Alternative
from mainspring.events.decoding import DECODE_ERRORS

_LEAST = 0.002
_MOST = 256


class _Other(msgspec.Struct, gc=False):
    token: str
    logprob: float | None = None


class _Token(msgspec.Struct, gc=False):
    token: str
    top_logprobs: list[_Other] | None = None


class _Told(msgspec.Struct, gc=False):
    content: list[_Token] | None = None


class Likely:
    """Grows with the tokens of one reply."""

    def __init__(self) -> None:
        self._found: list[Alternative] = []

    def add(self, told: msgspec.Raw, at: int) -> None:
        """Tokens that begin behind so many characters of the text."""
        try:
            tokens = msgspec.json.decode(told, type=_Told | None)
        except DECODE_ERRORS:
            return
        for token in (tokens and tokens.content) or ():
            for other in token.top_logprobs or ():
                share = math.exp(min(other.logprob, 0.0)) if other.logprob is not None else 0.0
                if other.token != token.token and share >= _LEAST:
                    alternative = Alternative(
                        at=at, text=other.token, instead=token.token, probability=round(share, 4)
                    )
                    self._found.append(alternative)
            at += len(token.token)

    def alternatives(self) -> tuple[Alternative, ...]:
        """The likeliest first."""
        return tuple(nlargest(_MOST, self._found, key=lambda each: each.probability))
