"""What keys look like: the shapes that a text is searched for, and the hints that say whether it must be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_PRIVATE_KEY = (
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[A-Za-z0-9+/=\s:,\-]{0,20000}?"
    r"(?:-----END [A-Z ]{0,40}-----|\Z)"
)
_SERVICES = (
    r"(?:do[opr]_v1_[a-f0-9]{60,}|shpat_[a-fA-F0-9]{32}|dckr_pat_[A-Za-z0-9_-]{20,}|gsk_[A-Za-z0-9]{40,}"
    r"|xai-[A-Za-z0-9]{60,}|hvs\.[A-Za-z0-9_-]{24,}|lin_api_[A-Za-z0-9]{30,}|GOCSPX-[A-Za-z0-9_-]{24,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,})"
)
_SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("private_key", ("-----BEGIN ",), _PRIVATE_KEY),
    (
        "openai",
        ("sk-",),
        r"sk-(?:proj|ant|or|svcacct)-[A-Za-z0-9_-]{20,}|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{20,}",
    ),
    (
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,})",
    ),
    ("gitlab", ("glpat-",), r"glpat-[A-Za-z0-9_-]{20,}"),
    ("aws", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("slack", ("xox",), r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("google", ("AIza",), r"AIza[A-Za-z0-9_-]{35}"),
    ("stripe", ("k_live_", "k_test_"), r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("huggingface", ("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    ("registry", ("npm_", "pypi-"), r"(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_-]{40,})"),
    ("sendgrid", ("SG.",), r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    ("slack_hook", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,}"),
    ("discord_hook", ("/api/webhooks/",), r"(?<=/api/webhooks/)\d{10,}/[A-Za-z0-9_-]{50,}"),
    ("telegram", (":AA",), r"(?<![A-Za-z0-9])\d{8,10}:AA[A-Za-z0-9_-]{30,}"),
    (
        "service",
        (
            "doo_v1_",
            "dor_v1_",
            "dop_v1_",
            "shpat_",
            "dckr_pat_",
            "gsk_",
            "xai-",
            "hvs.",
            "lin_api_",
            "GOCSPX-",
            "AGE-SECRET-KEY-1",
        ),
        _SERVICES,
    ),
    ("azure", ("AccountKey=",), r"(?<=AccountKey=)[A-Za-z0-9+/]{40,}={0,2}"),
    ("jwt", ("eyJ",), r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    ("bearer", ("Bearer ",), r"(?<=Bearer )[A-Za-z0-9._~+/=-]{20,}"),
    ("url", ("://",), r"(?<=://)[^\s/:@'\"<>]{1,64}:[^\s/@'\"<>]{3,}(?=@)"),
    ("assigned_key", ("KEY=", "PWD="), r"(?<=[A-Z_](?:KEY|PWD)=)[^\s\"'$(){}<>]{12,}"),
    ("assigned_token", ("SECRET=", "_TOKEN="), r"(?<=(?:SECRET|_TOKEN)=)[^\s\"'$(){}<>]{8,}"),
    ("assigned_password", ("PASSWORD=",), r"(?<=PASSWORD=)[^\s\"'$(){}<>]{6,}"),
)
"""Name, what a text must contain for the shape to be looked for at all, and the shape."""

_HINTS = tuple(hint for _, hints, _ in _SHAPES for hint in hints)
_SIGNS = "_-=:./"
_SIGN_OF = {hint: next(filter(hint.__contains__, _SIGNS), "") for hint in _HINTS}
_SIGNED = tuple((sign, tuple(hint for hint in _HINTS if _SIGN_OF[hint] == sign)) for sign in _SIGNS)
_UNSIGNED = tuple(hint for hint in _HINTS if not _SIGN_OF[hint])
MAX_LEAD = max(map(len, _HINTS))
"""What a shape wants before it is one of its hints, or hardly more than that."""


def is_hinted(text: str) -> bool:
    """Whether a text has a hint: every text of an event comes here, and few have so much as a sign of one."""
    if _has_any(_UNSIGNED, text):
        return True
    for sign, hints in _SIGNED:  # noqa: SIM110 - as in `_has_any`
        if sign in text and _has_any(hints, text):
            return True
    return False


def shapes_in(text: str) -> Iterator[tuple[str, re.Pattern[str]]]:
    """The shapes that a text may hold; most texts hold the beginning of none."""
    if not is_hinted(text):
        return
    for name, hints, shape in _SHAPES:
        if _has_any(hints, text):
            yield name, _compiled(shape)


def _has_any(parts: tuple[str, ...], text: str) -> bool:
    for part in parts:  # noqa: SIM110 - `any` takes three times as long, and every text of an event comes here
        if part in text:
            return True
    return False


@cache
def _compiled(shape: str) -> re.Pattern[str]:
    return re.compile(shape)
