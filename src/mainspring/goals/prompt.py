"""What an agent is told at the start of an iteration. Pure: the same facts give the same text.

Everything that can grow is bounded here; what does not fit is told as a count, and where to find it.
"""

from __future__ import annotations

import msgspec

from mainspring.events import GoalChecks, GoalRules, GoalSet, WaitEnded
from mainspring.goals.profiles import Profile

MAX_LINES = 40
_MAX_BLOCK = 12_000


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when an iteration begins; empty where there is nothing to tell."""

    profile: Profile
    goal: GoalSet
    iteration: int
    spent_usd: float = 0.0
    time_left_s: float | None = None
    memory: str = ""
    skills: tuple[str, ...] = ()
    artifacts: tuple[str, ...] = ()
    artifacts_total: int = 0
    findings: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    woke: WaitEnded | None = None
    is_read_only: bool = False


def iteration_prompt(brief: Brief) -> str:
    """The whole text, most stable parts first."""
    goal, profile = brief.goal, brief.profile
    blocks = [
        profile.prompt.strip(),
        _protocol(profile),
        f"# The goal\n{goal.text.strip()}",
        _done_when(goal.checks),
        _block(
            "Skills (read the file before you use one)", tuple(map(_on_one_line, brief.skills)), whole=True
        ),
        f"# Where you are\n{_where(brief)}",
        f"# The memory file, {goal.memory}\n{_cut(brief.memory)}" if brief.memory.strip() else "",
        _block(
            "Files that changed since the last turn",
            tuple(map(_on_one_line, brief.artifacts)),
            total=brief.artifacts_total,
        ),
        _block("What was found", brief.findings),
        _block("What happened", _happened(brief)),
        _block("You said that the goal is done. It is not: these checks failed", brief.failing, whole=True),
    ]
    return "\n\n".join(block for block in blocks if block)


def _protocol(profile: Profile) -> str:
    lines = [
        "# How to end a turn",
        "A program reads your last message. These count alone on their line, outside code and quotations:",
        f"- `{profile.done}` when the whole goal is reached and you have seen that it is.",
        "- `<wait_seconds>30</wait_seconds>` to suggest a pause before the next turn.",
    ]
    if profile.waits != "time":
        lines += [
            "- `<pid_number>123</pid_number>` for each process that must end before the next turn.",
            "- `<slurm_job_number>123</slurm_job_number>` for each Slurm job to wait for.",
        ]
    return "\n".join(lines)


def _done_when(checks: GoalChecks) -> str:
    wanted = [f"`{command}` exits with 0" for command in checks.commands]
    wanted += [f"{name} exists and is not empty" for name in checks.files]
    wanted += [f"{target.metric} {target.relation} {target.value:g}" for target in checks.targets]
    if checks.needs_claims:
        wanted.append("every claim on the path to the goal is closed by a check that ran")
    return _block("Done is accepted only when", tuple(wanted), whole=True)


def _where(brief: Brief) -> str:
    rules: GoalRules = brief.goal.rules
    total = f" of {rules.max_iterations}" if rules.max_iterations else ""
    lines = [f"Turn {brief.iteration}{total}."]
    if rules.max_cost_usd is not None:
        lines.append(f"{brief.spent_usd:.2f} of {rules.max_cost_usd:.2f} USD are spent.")
    if brief.time_left_s is not None:
        lines.append(f"{brief.time_left_s / 60:.0f} minutes are left.")
    if brief.is_read_only:
        lines.append("No file can be written here: end with all that the next turn must know.")
    else:
        lines.append(f"Keep {brief.goal.memory} up to date: its sections are yours to write, except the log.")
    if brief.profile.claims:
        lines.append(f"The claims are in {brief.profile.claims}.")
    return " ".join(lines)


def _happened(brief: Brief) -> tuple[str, ...]:
    if brief.woke is None:
        return brief.news
    late = f" ({brief.woke.late_s:.0f} s ago, while nobody was here)" if brief.woke.late_s >= 1 else ""
    return (f"You waited; {brief.woke.cause}: {brief.woke.summary}{late}", *brief.news)


def _block(title: str, lines: tuple[str, ...], *, whole: bool = False, total: int = 0) -> str:
    """Of so many lines in total those that were given, or the first of them."""
    if not lines:
        return ""
    shown = lines if whole else lines[:MAX_LINES]
    left = max(total, len(lines)) - len(shown)
    more = [f"- … and {left:,} more"] if left else []
    return _cut("\n".join([f"# {title}", *(f"- {line}" for line in shown), *more]))


def _on_one_line(text: str) -> str:
    """A file name may hold anything, also what reads like a heading of ours."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _cut(text: str) -> str:
    if len(text) <= _MAX_BLOCK:
        return text
    head, tail = text[: _MAX_BLOCK // 3], text[-_MAX_BLOCK * 2 // 3 :]
    return f"{head}\n… {len(text) - len(head) - len(tail):,} characters left out …\n{tail}"
