"""Numbers on the command line that are amounts: finite, and not negative."""

from __future__ import annotations

import math
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
