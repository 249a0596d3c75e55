"""In which order a report is told: what must be known first, then what shows it, then the rest. A section
that has nothing to say is left out, except those whose emptiness matters: evidence, and what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mainspring.documents.blocks import (
    Banner,
    Block,
    Collapsible,
    Heading,
    Items,
    Mono,
    OutputBlock,
    Paragraph,
    Quote,
    Span,
    Spans,
    Table,
    Tone,
    Toned,
    more,
    row,
    slim,
)
from mainspring.events.counts import plural
from mainspring.report import sections_around, sections_results
from mainspring.report.describe import code, digest, event, events, money, seconds, toned, when
from mainspring.report.facts import CheckFacts, CommandFacts, Finish, IterationFacts, Report, ReportText

_STANDINGS: dict[str, tuple[str, Tone]] = {
    "verified": ("Done and verified", "good"),
    "checked": ("Done and checked, by files that the agent wrote or changed", "doubt"),
    "claimed": ("Done, as the agent claims: nothing else shows all of it", "doubt"),
    "refuted": ("Refuted: said to be done, and it is not", "bad"),
    "not done": ("Not done", "bad"),
    "so far": ("Not over: the report so far", "doubt"),
}
_TITLE = 120


def title_of(report: Report) -> str:
    text = report.texts[-1].text or report.texts[0].text if report.texts else ""
    first = next((line.strip() for line in text.splitlines() if line.strip()), report.session)
    return f"{first[: _TITLE - 1]}…" if len(first) > _TITLE else first


def layout(report: Report, changes: Iterable[Block] = ()) -> Iterator[Block]:
    """`changes` are shown as they are: which changed lines have evidence."""
    yield Heading(title_of(report), 1)
    yield _banner(report)
    yield from sections_results.result(report)
    yield from _left(report)
    yield from _goal(report)
    yield from _evidence(report)
    yield from sections_results.metrics(report)
    yield from sections_results.claims(report)
    yield from changes
    yield from _iterations(report)
    yield from sections_results.artifacts(report)
    yield from _figures(report)
    yield from sections_around.around(report)
    yield from _footer(report)


def _banner(report: Report) -> Banner:
    title, tone = _STANDINGS[report.standing]
    notes: list[Spans] = []
    if report.closes and not report.is_running:
        last = report.closes[-1]
        exit_code = "" if last.exit_code is None else f", exit code {last.exit_code}"
        notes.append((f"Ending: {last.ending}{exit_code} ({event(last.seq)}). {last.reason}",))
    if report.standing_seqs:
        notes.append((f"Shown by {events(report.standing_seqs)}.",))
    notes += [(Toned(doubt, "doubt"),) for doubt in report.doubts]
    return Banner(title=title, text=report.standing_why, tone=tone, notes=tuple(notes))


def _left(report: Report) -> Iterator[Block]:
    yield Heading("What is left")
    if report.left:
        rows = tuple(row(each.what, each.detail, event(each.seq)) for each in report.left)
        yield Table(("what", "which", "recorded in"), rows)
        yield from more(report.left_out, "more are not shown here")
    elif report.standing == "verified":
        yield Paragraph(("Nothing that is on record.",))
    else:
        yield Paragraph(("No failing check, open claim or open item of a plan is on record.",))
    yield Paragraph(("Next:",))
    yield Items(tuple((Mono(command), f" ({why})") for command, why in report.next_commands))


def _goal(report: Report) -> Iterator[Block]:
    yield Heading("Goal")
    for place, text in enumerate(report.texts):
        yield from _goal_text(text, is_first=place == 0)
        yield from more(0 if place else report.texts_left_out, "changes between are not shown")
    wanted = report.checks_wanted
    conditions: list[Spans] = [
        *(("command exits with 0: ", Mono(line)) for line in wanted.commands),
        *(("file exists: ", Mono(name)) for name in wanted.files),
        *((f"metric: {each.metric} {each.relation} {each.value:g}",) for each in wanted.targets),
        *([("every claim on the path to the goal is closed by a check",)] if wanted.needs_claims else []),
    ]
    if conditions:
        yield Paragraph(("It counts as done when:",))
        yield Items(tuple(conditions))
    else:
        text = "No check was given: nothing but the agent's word can say that it is done."
        yield Paragraph((text,), "doubt")


def _goal_text(text: ReportText, *, is_first: bool) -> Iterator[Block]:
    where = f", read from {text.source}" if text.source else ""
    what = "Given" if is_first else "Changed"
    also = f" Also changed: {', '.join(text.changes)}." if text.changes and text.text else ""
    only = f" ({', '.join(text.changes)})" if text.changes and not text.text else ""
    yield Paragraph((f"{what}{only} {when(text.time_us)} by {text.by}{where}, {event(text.seq)}.{also}",))
    if text.text:
        yield Quote(text.text.strip())


def _figures(report: Report) -> Iterator[Block]:
    clock, rules = report.clock, report.rules
    limit = f" of at most {rules.max_iterations}" if rules.max_iterations else ""
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes)
    until = "now" if report.is_running else when(clock.until_us)
    version = f" {report.engine_version}" if report.engine_version else ""
    program = f" ({report.engine_program})" if report.engine_program else ""
    parts = [f"{seconds(clock.working_s)} at work", f"{seconds(clock.waiting_s)} waiting"]
    parts += [f"{seconds(clock.between_s)} between"] if clock.between_s >= 1 else []
    parts += [f"{seconds(clock.away_s)} with no process of ours there"] if clock.away_s >= 1 else []
    cap = f" of at most {money(rules.max_cost_usd)}" if rules.max_cost_usd is not None else ""
    rows: list[tuple[str, str]] = [
        ("iterations", f"{report.iterations_total}{limit}" + (f" ({outcomes})" if outcomes else "")),
        ("time", f"{seconds(clock.wall_s)}, {when(clock.started_us)} to {until}"),
        ("of it", ", ".join(parts)),
        ("cost", f"{money(report.cost_usd)}{cap}, {report.tokens:,} tokens"),
        ("engine", f"{report.engine}{version}{program}"),
        *([("models", ", ".join(report.models))] if report.models else []),
        ("kind of loop", report.profile),
        ("folder", report.workspace),
        ("sandbox", ", then ".join(report.rungs) or "none was needed"),
        ("mode", report.mode or "not chosen"),
        ("mainspring", report.version),
    ]
    yield Heading("Figures")
    yield Table(("", ""), tuple(row(name, value) for name, value in rows))
    yield from _spendings(report)


def _spendings(report: Report) -> Iterator[Block]:
    if not report.spendings:
        text = "No spending is on record: what an outside engine cost is not known here."
        yield Paragraph((text,), "quiet")
        return
    counts = ("requests", "input_tokens", "cached_tokens", "output_tokens")
    rows = tuple(
        row(
            each.source,
            Mono(each.model),
            *(f"{getattr(each, name):,}" for name in counts),
            f"{each.held_tokens:,}" if each.held_tokens else "",
            money(each.usd),
        )
        for each in report.spendings
    )
    head = (
        "source",
        "model",
        "requests",
        "input tokens",
        "of them cached",
        "output tokens",
        "not settled",
        "cost",
    )
    yield slim(head, rows, frozenset({2, 3, 4, 5, 6, 7}))
    unsettled = sum(each.unsettled for each in report.spendings)
    unpriced = sum(each.unpriced for each in report.spendings)
    if unsettled:
        yield Paragraph((f"{plural(unsettled, 'request')} never settled; they count as spent.",), "doubt")
    if unpriced:
        text = f"{plural(unpriced, 'request')} at an unknown price; they count as 0 USD."
        yield Paragraph((text,), "doubt")


def _evidence(report: Report) -> Iterator[Block]:
    yield Heading("Evidence")
    if report.checks:
        text = "The newest look at each condition. Each was recorded as it ended; "
        yield Paragraph((text, Mono(report.show_command), " shows the events by their numbers."))
        yield from _checks(report.checks)
        yield from more(report.checks_left_out, "more conditions are not shown")
    else:
        yield Paragraph(("No check has run.",), "doubt")
    if report.refusals:
        yield Heading("Refused: said to be done, and a check failed", 3)
        yield from _checks(report.refusals)
    shown = len(report.refusals) + sum(not check.passed for check in report.checks)
    yield from more(report.refusals_total - shown, "earlier failures are not shown")
    yield from _said(report)


def _checks(checks: tuple[CheckFacts, ...]) -> Iterator[Block]:
    yield slim(
        ("", "check", "result", "evidence", "iteration", "hash", "recorded in"),
        tuple(map(_check, checks)),
        frozenset({4}),
    )
    yield from (_check_output(check) for check in checks if check.output)


def _check(check: CheckFacts) -> tuple[Spans, ...]:
    passed = toned("passed" if check.passed else "failed")
    result = check.detail if check.exit_code is None else f"exit code {check.exit_code}"
    number, where = str(check.iteration), event(check.seq)
    return row(passed, Mono(check.check), result, _worth(check), number, digest(check.sha256), where)


def _worth(check: CheckFacts) -> Spans:
    """What a check that passed is worth, with the files that make it worth less."""
    if not check.grade:
        return ()
    if check.grade == "verified":
        return (toned(check.grade),)
    written = f" (written or changed by the agent: {', '.join(check.written)})" if check.written else ""
    return (toned(check.grade), written, *(f" ({doubt})" for doubt in check.doubts))


def _check_output(check: CheckFacts) -> Collapsible:
    cut = "The end of its output:" if check.is_output_cut else "Its output:"
    title: Spans = ("Output of ", Mono(check.check), f" in iteration {check.iteration}")
    blocks = (Paragraph((cut,), "quiet"), OutputBlock(check.output))
    return Collapsible(title, blocks, is_open=not check.passed, level=4)


def _said(report: Report) -> Iterator[Block]:
    """What the agent claims, and what of it nothing shows."""
    if report.finishes:
        yield Heading("What the agent claims, and what it cites", 3)
        for finish in report.finishes:
            yield from _finish(finish)
        yield from more(report.finishes_left_out, "earlier ones are not shown")
        return
    if report.last_said:
        yield Heading("What the agent said last", 3)
        whose = f"Its own words ({event(report.last_said_seq)}). They cite no recorded result:"
        yield Paragraph((f"{whose} except for what a check above shows, nothing bears them out.",), "doubt")
        yield Quote(("…" if report.is_last_said_cut else "") + report.last_said)


def _finish(finish: Finish) -> Iterator[Block]:
    yield Paragraph((f"Iteration {finish.iteration}, {event(finish.seq)}:",))
    yield Quote(finish.summary)
    if not finish.claims:
        yield Paragraph(("It cites no recorded result.",), "doubt")
        return
    good = Toned("the cited results are successes", "good")
    rows = tuple(
        row(claim.claim, _results(claim.results), Toned(claim.doubt, "doubt") if claim.doubt else good)
        for claim in finish.claims
    )
    yield Table(("claim", "results that it cites", "borne out?"), rows)


def _results(results: tuple[CommandFacts, ...]) -> Spans:
    spans: list[Span] = []
    for each in results:
        exit_code = f"exit code {each.exit_code}" if each.exit_code is not None else each.outcome
        spans += [Mono(each.command or each.tool), f" {exit_code}, {event(each.seq)}. "]
    return tuple(spans) or ("none",)


def _iterations(report: Report) -> Iterator[Block]:
    if not report.iterations:
        return
    yield Heading("Iterations")
    rows = tuple(_iteration_row(each) for each in reversed(report.iterations))
    head = (
        "iteration",
        "outcome",
        "what came of it",
        "new",
        "files",
        "calls",
        "at work",
        "waiting",
        "cost",
        "events",
    )
    yield slim(head, rows, frozenset({0, 4, 5, 6, 7, 8}))
    left_out = report.iterations_total - len(report.iterations)
    yield from more(left_out, "iterations between are not listed")
    full = [each for each in reversed(report.iterations) if _is_full(each)]
    if len(full) < report.iterations_total:
        text = f"In full: {len(full)} of {report.iterations_total:,} iterations; for all of them: "
        yield Paragraph((text, Mono(report.show_command)), "quiet")
    for place, each in enumerate(full):
        yield Collapsible(_iteration_title(each), tuple(_iteration(each, report)), is_open=place == 0)


def _is_full(each: IterationFacts) -> bool:
    return bool(each.said or each.commands or each.files or each.detail)


def _iteration_row(each: IterationFacts) -> tuple[Spans, ...]:
    return row(
        str(each.number),
        toned(each.outcome) if each.outcome else "not over",
        each.detail,
        ", ".join(each.changed) or ("nothing" if each.outcome else ""),
        f"{each.files_total:,}",
        f"{each.calls_total:,}" + (f", {each.calls_failed:,} failed" if each.calls_failed else ""),
        seconds(each.working_s),
        seconds(each.waiting_s) if each.waits else "",
        money(each.cost_usd),
        f"{each.seq} to {each.ended_seq}" if each.ended_seq else f"{each.seq} on",
    )


def _iteration_title(each: IterationFacts) -> Spans:
    outcome = toned(each.outcome) if each.outcome else "not over"
    return (f"Iteration {each.number}: ", outcome, f", {seconds(each.working_s)}, {money(each.cost_usd)}")


def _iteration(each: IterationFacts, report: Report) -> Iterator[Block]:
    away = f" No process of ours was there for {seconds(each.away_s)}." if each.away_s >= 1 else ""
    turns = f" It took {each.turns} turns." if each.turns > 1 else ""
    exit_code = f" The engine's exit code was {each.exit_code}." if each.exit_code is not None else ""
    yield Paragraph((f"Began {when(each.started_us)}, {event(each.seq)}.{turns}{exit_code}{away}",), "quiet")
    if each.failed_checks:
        yield Items(tuple((Toned("failed", "bad"), f" {check}") for check in each.failed_checks))
    if each.said:
        yield Paragraph((f"The agent said last ({event(each.said_seq)}):",))
        yield Quote(("…" if each.is_said_cut else "") + each.said)
    if each.commands:
        head = ("call", "command", "exit code", "took", "recorded in")
        yield slim(head, tuple(map(_command, each.commands)), frozenset({2, 3}))
        yield from more(each.calls_total - len(each.commands), "more calls", report.show_command)
    if each.files:
        rows = tuple(row(line.kind, Mono(line.path), Mono(line.made_by)) for line in each.files)
        yield slim(("file", "path", "made by"), rows, frozenset())
        command = f"mainspring artifacts {report.session} --all"
        yield from more(each.files_total - len(each.files), "more files", command)


def _command(each: CommandFacts) -> tuple[Spans, ...]:
    name, took = Mono(each.command or each.tool or each.call), seconds(each.duration_s)
    return row(toned(each.outcome), name, code(each.exit_code), took, event(each.seq))


def _footer(report: Report) -> Iterator[Block]:
    yield Heading("This report")
    made = f"Made {when(report.made_us)} from the journal of session {report.session}"
    upto = f"{made}, up to event {report.last_seq:,}. The journal is a chain of hashes: "
    verify = Mono(f"mainspring verify {report.session}")
    yield Paragraph((upto, verify, " says whether it was changed since."))
