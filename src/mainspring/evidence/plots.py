"""A metric by iteration as SVG text: a line through the medians, with their spread. Pure; no library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from mainspring.evidence.metrics import Summary

WIDTH, HEIGHT = 640, 360
MAX_POINTS = 1000
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 22, 40, 56
_TICKS = 5
_CAP = 5
_STYLE = (
    "text{font:18px sans-serif;fill:#333}.t{font-weight:bold;font-size:20px}.a{stroke:#999}"
    ".g{stroke:#e4e4e4}.l{fill:none;stroke:#1f6feb;stroke-width:2}.s{fill:none;stroke:#1f6feb;stroke-width:1.5;opacity:.7}"
    ".p{fill:#1f6feb}.b{fill:#1a7f37}"
)


def line_plot(title: str, unit: str, rows: Sequence[Summary], *, best: Summary | None = None) -> str:
    """A self-contained picture; of very many iterations it shows the newest."""
    rows = rows[-MAX_POINTS:]
    named = escape(f"{title} [{unit}]" if unit else title)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{named}</title><style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="t" x="{_LEFT}" y="24">{named}</text>',
    ]
    if not rows:
        return "".join([*parts, f'<text x="{_LEFT}" y="{HEIGHT // 2}">nothing measured</text></svg>'])
    low, high = _range([row.median - row.sd for row in rows] + [row.median + row.sd for row in rows])
    first, last = rows[0].iteration, rows[-1].iteration

    def x(iteration: int) -> str:
        share = (iteration - first) / (last - first) if last > first else 0.5
        return f"{_LEFT + share * (WIDTH - _LEFT - _RIGHT):.1f}"

    def y(value: float) -> str:
        share = (value - low) / (high - low)
        return f"{HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM):.1f}"

    for value in _ticks(low, high):
        parts.append(f'<path class="g" d="M{_LEFT} {y(value)}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(value)}" dy="6" text-anchor="end">{value:.3g}</text>')
    parts.append(f'<path class="a" fill="none" d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}"/>')
    parts += [
        f'<text x="{x(iteration)}" y="{HEIGHT - _BOTTOM + 22}" text-anchor="middle">{iteration}</text>'
        for iteration in sorted({first, (first + last) // 2, last})
    ]
    for row in rows:
        if row.sd:
            at, cap = x(row.iteration), f"m-{_CAP} 0h{2 * _CAP}"
            low_end, high_end = y(row.median - row.sd), y(row.median + row.sd)
            parts.append(f'<path class="s" d="M{at} {low_end}V{high_end}{cap}M{at} {low_end}{cap}"/>')
    points = " ".join(f"{x(row.iteration)},{y(row.median)}" for row in rows)
    parts.append(f'<polyline class="l" points="{points}"/>')
    for row in rows:
        is_best = best is not None and row.iteration == best.iteration
        parts.append(
            f'<circle class="{"b" if is_best else "p"}" cx="{x(row.iteration)}" cy="{y(row.median)}" '
            f'r="{5 if is_best else 3}"/>'
        )
    bars = " (bars: standard deviation)" if any(row.sd for row in rows) else ""
    label = f'<text x="{WIDTH // 2}" y="{HEIGHT - 6}" text-anchor="middle">iteration{bars}</text></svg>'
    return "".join([*parts, label])


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(high) * 0.05 or 1.0
    return low - margin, high + margin


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two others."""
    step = 10 ** math.floor(math.log10((high - low) / _TICKS))
    while (high - low) / step > _TICKS:
        step *= 2 if (high - low) / step <= 2 * _TICKS else 5 if (high - low) / step <= 5 * _TICKS else 10
    start = math.ceil(low / step)
    return [(start + number) * step for number in range(_TICKS + 1) if (start + number) * step <= high]
