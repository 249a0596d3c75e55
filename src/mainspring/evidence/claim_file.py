"""The file in which any engine keeps the claims of a derivation: TOML, an array of tables `claim`.

Reading is tolerant: what cannot be used is a problem with a sentence, and the rest is read all the same.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, cast

from mainspring.errors import PathRefused
from mainspring.events import Claim, ClaimsRead, ClaimStatus
from mainspring.evidence.claims import cycles
from mainspring.sandbox.files import Files

DEFAULT_PATH = "projects/claims.toml"
MAX_BYTES = 1_000_000
MAX_CLAIMS = 2_000
_MAX_PROBLEMS = 50
_MAX_CHECK = 10_000
_MAX_DOTS = 5_000  # of a key; its parser takes the square of them
_MAX_NUMBER = 10**18
_STATUSES: dict[str, ClaimStatus] = {"open": "open", "assumed": "assumed", "refuted": "refuted"}
_DOES_NOTHING = re.compile(
    r"(?:(?:ba)?sh\s+-c\s+['\"]?)?(?:true|:|exit(?:\s+0)?|/(?:usr/)?bin/true|echo\b[^$`<>|&]*|)['\"]?(?:\s*#.*)?"
)
_ALWAYS_PASSES = re.compile(r"\|\|\s*(?:true|:|exit\s+0)\s*$")

EXAMPLE = """\
# One table for each claim. `goal = true` marks what is to be shown. Leave `status` out, or write "assumed"
# or "refuted"; only a check that ran makes a claim proved. A check is a command: exit code 0 proves the
# claim; the line REFUTED and another exit code refute it. A check finds its statement in the variable CLAIM;
# one that reads it is also run with a wrong statement, and must fail then.
[[claim]]
name = "main"
statement = "what is to be shown"
depends_on = ["lemma"]
check = "python checks/main.py"
goal = true

[[claim]]
name = "lemma"
statement = "what it stands on"
check = "python checks/lemma.py"
"""


def read_claims(files: Files, path: str, iteration: int) -> ClaimsRead:
    """The claims as they are written now; a file that is not there has none. For a thread."""
    try:
        data = files.read(path, max_bytes=MAX_BYTES + 1).data
    except FileNotFoundError:
        return ClaimsRead(iteration=iteration, problems=(f"{path} is not there",))
    except OSError as error:
        return ClaimsRead(iteration=iteration, problems=(f"{path} cannot be read: {error.strerror}",))
    except PathRefused as refusal:
        return ClaimsRead(iteration=iteration, problems=(refusal.message,))
    claims, problems = parse_claims(data)
    return ClaimsRead(iteration=iteration, claims=claims, problems=problems)


def parse_claims(data: bytes) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """The claims in a file, and what in it could not be used."""
    if len(data) > MAX_BYTES:
        return (), (f"the file is larger than {MAX_BYTES // 1_000_000} MB",)
    if any(line.count(b".") > _MAX_DOTS for line in data.splitlines()):
        return (), (f"the file has a line with more than {_MAX_DOTS:,} dots",)
    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return (), ("the file is not UTF-8 text",)
    except (ValueError, RecursionError) as error:  # a number of too many digits is only a ValueError
        return (), (f"the file is not TOML: {error}"[:200],)
    problems: list[str] = []
    claims: dict[str, Claim] = {}
    for table in _tables(document, problems):
        claim = _claim(table, problems)
        if claim is None:
            continue
        if claim.name in claims:
            problems.append(f"{claim.name} is written twice; the first counts")
        elif len(claims) == MAX_CLAIMS:
            problems.append(f"there are more than {MAX_CLAIMS:,} claims; the first count")
            break
        else:
            claims[claim.name] = claim
    problems += _graph_problems(claims)
    if not claims:
        problems.append("no claim is written down")
    return tuple(claims.values()), tuple(dict.fromkeys(problems))[:_MAX_PROBLEMS]


def _tables(document: dict[str, Any], problems: list[str]) -> list[dict[str, Any]]:
    tables: list[dict[str, Any]] = []
    for key in ("claim", "claims"):
        found: object = document.get(key, [])
        if isinstance(found, dict):
            named = cast("dict[str, object]", found)
            tables += [
                {"name": name} | cast("dict[str, Any]", table)
                for name, table in named.items()
                if isinstance(table, dict)
            ]
        for number, table in enumerate(cast("list[Any]", found if isinstance(found, list) else []), start=1):
            if isinstance(table, dict):
                tables.append(cast("dict[str, Any]", table))
            else:
                problems.append(f"claim {number} is not a table")
    return tables


def _claim(table: dict[str, Any], problems: list[str]) -> Claim | None:
    name = " ".join(_word(table.get("name", "")).split())
    statement = _word(table.get("statement", "")).strip()
    if not name or len(name) > 100:
        problems.append(f"a claim has no name ({statement[:60] or 'and no statement'})")
        return None
    if not statement:
        problems.append(f"{name} has no statement")
    return Claim(
        name=name,
        statement=statement,
        depends_on=_names(name, table.get("depends_on", ()), problems),
        check=_check(name, table.get("check", ""), problems),
        status=_status(name, table.get("status", "open"), problems),
        is_goal=table.get("goal") is True,
        note=_text(name, "note", table.get("note", ""), problems),
    )


def _names(name: str, given: object, problems: list[str]) -> tuple[str, ...]:
    found = cast("list[object]", given) if isinstance(given, list) else [given] if given else []
    if not all(isinstance(item, str) for item in found):
        problems.append(f"depends_on of {name} is not a list of names")
    return tuple(
        dict.fromkeys(" ".join(item.split()) for item in found if isinstance(item, str) and item.strip())
    )


def _word(given: object) -> str:
    """A text, or a number that somebody wrote without quotes."""
    if isinstance(given, int) and abs(given) < _MAX_NUMBER:
        return str(given)
    return given.replace("\0", "") if isinstance(given, str) else ""


def _check(name: str, given: object, problems: list[str]) -> str:
    check = _text(name, "check", given, problems)
    if "\0" in check or len(check) > _MAX_CHECK:
        problems.append(f"check of {name} is no command line: it is too long, or has a NUL in it")
        return ""
    if check and is_trivial(check):
        problems.append(f"check of {name} would pass whatever is true, so it proves nothing: {check[:80]}")
        return ""
    return check


def is_trivial(check: str) -> bool:
    """Whether a command line plainly cannot fail; what hides it better is not found."""
    steps = [step.strip() for step in re.split(r"&&|\|\||;|\n", check)]
    return bool(_ALWAYS_PASSES.search(check)) or all(_DOES_NOTHING.fullmatch(step) for step in steps)


def _text(name: str, field: str, given: object, problems: list[str]) -> str:
    if isinstance(given, str):
        return given.strip()
    problems.append(f"{field} of {name} is not text")
    return ""


def _status(name: str, given: object, problems: list[str]) -> ClaimStatus:
    written = _word(given).strip().lower()
    if written == "proved":
        problems.append(f"{name} is called proved; only a check that ran proves, so it counts as open")
    elif written not in _STATUSES:
        problems.append(f"{name} has the unknown status {written[:40]}; it counts as open")
    return _STATUSES.get(written, "open")


def _graph_problems(claims: dict[str, Claim]) -> list[str]:
    problems = [
        f"{claim.name} stands on {below}, which is not there"
        for claim in claims.values()
        for below in claim.depends_on
        if below not in claims
    ]
    return problems + [f"{' → '.join(circle)} is a circle" for circle in cycles(claims)]
