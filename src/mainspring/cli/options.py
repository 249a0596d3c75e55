"""What options of several commands share: amounts, finite and not negative, and lists of options."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import click


class Amount(click.FloatRange):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = Amount(min=0, min_open=True)
NOT_NEGATIVE = Amount(min=0)


def with_options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command all of these options, in their order."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        return reduce(lambda added, option: option(added), reversed(options), command)

    return add
