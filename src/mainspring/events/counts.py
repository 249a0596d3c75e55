"""A number with its noun, for sentences that are recorded or shown."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """`1 step`, `2 steps`, `1,000 processes`, `3 crashes`, `2 entries`."""
    if count != 1 and noun.endswith("ry"):
        return f"{count:,} {noun[:-1]}ies"
    ending = "" if count == 1 else "es" if noun.endswith(("s", "ch", "sh", "x")) else "s"
    return f"{count:,} {noun}{ending}"


def rounded_usd(usd: float) -> float:
    """Money as it is recorded and told: with twelve decimal places, so that a sum has no tail such as
    0.10000000000000007."""
    return round(usd, 12)


def readable_bytes(count: int) -> str:
    """A size for people, with three digits: `1.23 MB`."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError
