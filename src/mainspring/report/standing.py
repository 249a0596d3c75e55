"""Whether a goal is reached, what is left of it, and what to run next: said only as far as events show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from mainspring.events import GoalEnded, GoalRules, Grade, PlanSet, Recorded
from mainspring.events.counts import plural
from mainspring.evidence.grades import named, weakest
from mainspring.evidence.metrics import EVALUATOR_CHANGED
from mainspring.goals.fold import Goal
from mainspring.report.around import EventsAround
from mainspring.report.evidence import Condition, wanted
from mainspring.report.facts import CheckFacts, Remaining, Standing

SHOWN_LEFT = 60

_RULES = {
    "iterations": "the limit of iterations",
    "cost": "the limit on money",
    "tokens": "the limit on tokens",
    "steps": "a limit on steps or calls",
    "time": "the limit on time",
    "no_progress": "the rule against iterations without anything new",
    "blocked": "it needs a person",
    "failed": "the rule against repeated failure",
    "stopped": "a person stopped it",
    "max_wait": "the longest wait",
}


_WORTH: dict[Grade, str] = {
    "": "",
    "verified": "",
    "checked": ", by files that the agent itself wrote or changed",
    "claimed": ", by figures that the agent itself reported",
}


_FREEZE = "--frozen FILE keeps what decides as it is."


class Judged(msgspec.Struct, frozen=True):
    """Where the goal stands, why, and the events that show it."""

    standing: Standing
    why: str
    seqs: tuple[int, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """What the evidence is worth when the goal is done."""
        return self.standing if self.standing in ("verified", "checked", "claimed") else ""


def judge(
    goal: Goal,
    checks: Mapping[Condition, CheckFacts],
    flags: Iterable[str],
    *,
    is_running: bool,
) -> Judged:
    """`checks` are the newest looks, each with its grade; what counts for the end are those of the last
    iteration."""
    ended = goal.ended
    if ended is None:
        return _open(goal, checks, is_running=is_running)
    if ended.ending == "done":
        return _done(goal, ended, checks, tuple(flags))
    failing = [check for check in _last(goal, checks) if not check.passed]
    rule = _RULES.get(ended.ending, ended.ending)
    if failing and goal.last is not None and goal.last.outcome == "refused":
        why = (
            f"The agent said that it was done, and {plural(len(failing), 'check')} failed. Ended by: {rule}."
        )
        return Judged("refuted", why, tuple(check.seq for check in failing))
    return Judged("not done", f"Ended by: {rule}. Nobody has shown that the goal is reached.")


def _done(
    goal: Goal,
    ended: GoalEnded,
    checks: Mapping[Condition, CheckFacts],
    flags: tuple[str, ...],
) -> Judged:
    last = _last(goal, checks)
    seqs = tuple(check.seq for check in last)
    failing = [check for check in last if not check.passed]
    if failing:
        why = f"The goal was ended as done, and {plural(len(failing), 'check')} of the last iteration failed."
        return Judged("refuted", why, tuple(check.seq for check in failing))
    if not last:
        lacking = "It wrote down no claim" if goal.now.checks.needs_claims else "No check was given"
        why = f"The agent says that it is done. {lacking}, so nothing but its word shows it."
        return Judged("claimed", why)
    missing = _not_looked_at(goal, last)
    if missing or not (ended.grade or ended.is_verified):
        said = f"Not looked at: {', '.join(missing)}." if missing else "It was not recorded as verified."
        return Judged("claimed", f"The agent says that it is done. {said}", seqs)
    doubts = [flag for flag in flags if flag.startswith(EVALUATOR_CHANGED)]
    if doubts:
        return Judged("claimed", f"Every check passed, and yet: {doubts[0]}.", seqs)
    grade = weakest(check.grade for check in last)
    why = f"Done, and {plural(len(last), 'check')} passed after the last iteration{_WORTH[grade]}."
    return Judged(grade or "claimed", why, seqs, tuple(_doubts(last)))


def _doubts(looked: list[CheckFacts]) -> Iterator[str]:
    """What speaks against checks that passed, and what would help."""
    for check in looked:
        if check.grade == "claimed":
            yield f"{check.check} rests on what the agent reported: --evaluate COMMAND would measure it."
        if check.written:
            files = named(check.written)
            yield f"{check.check} is decided by files that the agent wrote or changed: {files}. {_FREEZE}"
        yield from (f"{check.check}: {doubt}" for doubt in check.doubts)


def _not_looked_at(goal: Goal, looked: list[CheckFacts]) -> list[str]:
    """The conditions of being done that these checks do not cover."""
    covered = {(check.kind, check.check) for check in looked}
    missing = [name for kind, name in wanted(goal.now.checks) if (kind, name) not in covered]
    has_claims = any(check.kind == "claims" for check in looked)
    return [*missing, "the claims"] if goal.now.checks.needs_claims and not has_claims else missing


def _open(goal: Goal, checks: Mapping[Condition, CheckFacts], *, is_running: bool) -> Judged:
    if goal.paused is not None:
        now = f"Paused: {goal.paused.reason}"
    elif is_running:
        now = "The goal is being worked on."
    else:
        now = "The goal has not ended, and nobody works on it now."
    failing = [check for check in _last(goal, checks) if not check.passed]
    if failing:
        now += f" The last time that the agent said it was done, {plural(len(failing), 'check')} failed."
    return Judged("so far", now, tuple(check.seq for check in failing))


def _last(goal: Goal, checks: Mapping[Condition, CheckFacts]) -> list[CheckFacts]:
    number = goal.current.number if goal.current and goal.current.checks else goal.iterations
    return [check for check in checks.values() if check.iteration == number]


def left_of(
    goal: Goal,
    checks: Mapping[Condition, CheckFacts],
    claims: tuple[str, ...],
    claims_seq: int,
    plan: Recorded | None,
    around: EventsAround,
) -> tuple[Remaining, ...]:
    """What is not done: checks that fail or never ran, open claims, plan, questions, waits, processes."""
    is_done = goal.ended is not None and goal.ended.ending == "done"
    plan_seq, items = (plan.seq, plan.event.items) if plan and isinstance(plan.event, PlanSet) else (0, ())
    left = [
        ("failing check", f"{check.check}: {check.detail}".removesuffix(": "), check.seq)
        for check in checks.values()
        if not check.passed
    ]
    named = wanted(goal.now.checks)
    left += [("check never run", name, 0) for kind, name in named if (kind, name) not in checks]
    if not is_done or goal.now.checks.needs_claims:
        left += [("open claim", line, claims_seq) for line in claims]
    left += [(f"plan, {item.progress}", item.text, plan_seq) for item in items if item.progress != "done"]
    left += [
        ("open question", f"{asked.tool}: {asked.reason or asked.arguments}", asked.seq)
        for asked in around.approvals.values()
        if not asked.decision
    ]
    if goal.ended is None:
        left += [("waiting for", wait.what, wait.seq) for wait in around.waits.values() if not wait.cause]
    left += [
        ("process without a recorded end", f"{each.handle}: {each.command}", each.seq)
        for each in around.processes.values()
    ]
    left += [
        ("process left by the engine", f"process {each.pid}, iteration {each.iteration}", each.seq)
        for each in around.left_running
        if not each.is_ended
    ]
    return tuple(Remaining(what=what, detail=detail, seq=seq) for what, detail, seq in left)


def next_commands(
    session: str, goal: Goal, judged: Judged, around: EventsAround, *, is_running: bool
) -> tuple[tuple[str, str], ...]:
    """Commands to run next, each with what it is for."""
    resume = f"mainspring goal resume {session}"
    commands: list[tuple[str, str]] = []
    if is_running and goal.ended is None:
        commands.append((f"mainspring tail {session}", "watch the work"))
    elif goal.ended is None:
        commands.append((resume, "go on with it"))
    elif any(not asked.decision for asked in around.approvals.values()):
        commands.append((f"mainspring approve {session}", "answer the open question, then resume the goal"))
    else:
        commands += _after(resume, session, goal, goal.ended, judged)
    if around.processes or any(not each.is_ended for each in around.left_running):
        commands.append(("mainspring ps", "see which processes still run"))
    commands.append((f"mainspring verify {session}", "check that the record was not changed"))
    commands.append((f"mainspring show {session}", "see every event by its number"))
    return tuple(commands)


def _after(resume: str, session: str, goal: Goal, ended: GoalEnded, judged: Judged) -> list[tuple[str, str]]:
    rules = goal.now.rules
    match ended.ending:
        case "done" if judged.standing == "verified":
            return []
        case "done":
            text = shlex.quote(goal.now.text.strip().splitlines()[0][:80] if goal.now.text.strip() else "…")
            how = "--check COMMAND" if judged.standing == "claimed" else "--frozen FILE"
            return [(f"mainspring goal start {text} {how}", "have it verified")]
        case "iterations" | "cost" | "tokens" | "time" | "max_wait":
            return [(f"{resume} {_more(ended.ending, rules)}", "go on with more room")]
        case "no_progress":
            return [
                (f"mainspring goal change {session} TEXT", "say what to do otherwise"),
                (resume, "and go on"),
            ]
        case "steps" | "blocked" | "failed" | "stopped":
            return [(resume, "go on, once the reason above is dealt with")]


def _more(ending: str, rules: GoalRules) -> str:
    """Twice the limit that ended it."""
    return {
        "iterations": f"--max-iterations {2 * (rules.max_iterations or 10)}",
        "cost": f"--max-cost-usd {2 * (rules.max_cost_usd or 1.0):g}",
        "tokens": f"--max-tokens {2 * (rules.max_tokens or 100_000)}",
        "time": f"--max-time {2 * (rules.max_time_s or 3600):.0f}",
        "max_wait": f"--max-wait-seconds {2 * (rules.max_wait_s or 6000):.0f}",
    }[ending]
