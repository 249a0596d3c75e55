"""The sections of a report about what the work left behind: metrics, claims and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.documents.blocks import (
    Block,
    Collapsible,
    Heading,
    Items,
    Mono,
    OutputBlock,
    Paragraph,
    Picture,
    Spans,
    Table,
    Tone,
    Toned,
    more,
    row,
    slim,
)
from mainspring.events.counts import plural
from mainspring.evidence.metrics import MIN_REPEATS
from mainspring.report.describe import code, digest, event, events, figure, size, toned, with_spread
from mainspring.report.facts import ArtifactFacts, ClaimFacts, Metric, MetricRow, Report
from mainspring.report.result_facts import BestResult, FileDiff

_VERDICTS = {
    "same": "within the noise",
    "too few": "too few repeats to tell",
}


def result(report: Report) -> Iterator[Block]:
    """What came of it: the number that matters, what gave it, and what changed."""
    if report.result is None and not report.diffs:
        return
    yield Heading("Result")
    if report.result is not None:
        yield from _best(report.result, report.session)
    if report.diffs:
        upto = f" up to iteration {report.result.best.iteration}" if report.result else ""
        total = len(report.diffs) + report.diffs_left_out
        yield Paragraph((f"What changed{upto}: {plural(total, 'file')}.",))
        yield from (_file_diff(each) for each in report.diffs)
        yield from more(report.diffs_left_out, "more files", f"mainspring diff {report.session}")


def _best(best: BestResult, session: str) -> Iterator[Block]:
    first, now = best.first, best.best
    start = with_spread(first.median, first.spread, best.unit)
    end = with_spread(now.median, now.spread, best.unit)
    tone: Tone = "doubt" if best.flags else "good"
    which = f"iteration {now.iteration}, {plural(now.repeats, 'repeat')}"
    if first.iteration == now.iteration:
        yield Paragraph((f"{best.metric}: ", Toned(end, tone), f" ({which}; {best.better} is better)."))
    else:
        yield Paragraph(
            (
                f"{best.metric}: from {start} (iteration {first.iteration}) to ",
                Toned(end, tone),
                f" ({which}; {best.better} is better).",
            )
        )
    for flag in best.flags:
        yield Paragraph((f"Doubtful: {flag}.",), "doubt")
    if not best.is_ours:
        yield Paragraph(("The figures are the agent's own.",), "doubt")
    if not best.is_sure:
        yield Paragraph(("Too few repeats to be sure that it is the best.",), "doubt")
    if best.parameters:
        yield Paragraph(("Parameters: ", Mono(best.parameters)))
    if best.state_seq:
        restore = Mono(f"mainspring goal best {session} --restore")
        yield Paragraph(
            (f"The files that gave it: as after event {best.state_seq}. ", restore, " puts them back.")
        )


def _file_diff(each: FileDiff) -> Block:
    title: Spans = (f"{each.kind}: ", Mono(each.path))
    if not each.diff:
        return Paragraph(title)
    left = more(each.lines_left_out, "more lines are not shown")
    return Collapsible(title, (OutputBlock(each.diff, "diff"), *left), level=0)


def metrics(report: Report) -> Iterator[Block]:
    if not report.metrics and not report.failed_evaluations:
        return
    yield Heading("Metrics")
    evaluation = report.evaluation
    if evaluation.command:
        frozen = f", with {', '.join(evaluation.frozen)} frozen" if evaluation.frozen else ""
        times = f", {plural(evaluation.repeats or MIN_REPEATS, 'time')} in each iteration{frozen}."
        if report.metrics:
            yield Paragraph(("Measured by mainspring itself with ", Mono(evaluation.command), times))
        else:
            yield Paragraph(("mainspring ran ", Mono(evaluation.command), " itself, and measured nothing."))
    yield from _failed_evaluations(report)
    for metric in report.metrics:
        yield from _metric(metric)
    yield from more(report.metrics_left_out, "more metrics are not shown")


def _failed_evaluations(report: Report) -> Iterator[Block]:
    failed = report.failed_evaluations
    if not failed:
        return
    which = ", ".join(str(each.iteration) for each in failed)
    text = f"The evaluation measured nothing in {plural(len(failed), 'iteration')} ({which})."
    yield Paragraph((text,), "bad")
    rows = tuple(row(str(each.iteration), "; ".join(each.flags), event(each.seq)) for each in failed)
    yield Table(("iteration", "why", "recorded in"), rows, frozenset({0}))
    if failed[-1].output:
        title = f"Output of the evaluation in iteration {failed[-1].iteration}"
        yield Collapsible((title,), (OutputBlock(failed[-1].output),), level=4)


def _metric(metric: Metric) -> Iterator[Block]:
    name = f"{metric.name} [{metric.unit}]" if metric.unit else metric.name
    if not metric.better:
        note = Paragraph(("Nobody said which way is better, so nothing is judged here.",), "quiet")
        yield Collapsible((name,), (note, *_values(metric)))
        return
    yield Heading(name, 3)
    if not metric.best_iteration:
        yield Paragraph(("Nothing was measured with the evaluator as it was agreed on.",), "doubt")
        yield from _values(metric)
        return
    sure = "" if metric.is_best_sure else ", which too few repeats show"
    best = f"The best is iteration {metric.best_iteration}{sure}."
    each = f"{metric.better.capitalize()} is better; each is held against the best before it."
    yield Paragraph((f"{each} {best}",))
    yield from _values(metric)


def _values(metric: Metric) -> Iterator[Block]:
    if metric.plot:
        yield Picture(f"{metric.name} by iteration", "image/svg+xml", metric.plot.encode("utf-8", "replace"))
    figures = ("repeats", "mean", "median", "spread (sd)")
    head = ("iteration", "measured by", *figures, "against the best", "parameters", "doubts")
    rows = tuple(_metric_row(each, metric) for each in metric.rows)
    yield slim(head, rows, frozenset({0, 2, 3, 4, 5}))
    yield from more(metric.rows_left_out, "earlier iterations are not shown")
    if metric.events:
        yield Paragraph((f"Recorded in {events(metric.events)}.",), "quiet")


def _metric_row(each: MetricRow, metric: Metric) -> tuple[Spans, ...]:
    return row(
        str(each.iteration),
        "mainspring" if each.is_ours else Toned("the agent", "doubt"),
        str(each.repeats),
        figure(each.mean),
        figure(each.median),
        figure(each.spread) if each.repeats > 1 else "",
        _verdict(each, metric),
        each.parameters,
        tuple(Toned(f"{flag}. ", "doubt") for flag in each.flags),
    )


def _verdict(each: MetricRow, metric: Metric) -> Spans:
    if each.is_void:
        return (Toned("does not count", "doubt"),)
    if not each.verdict:
        return ("the first",) if metric.better and each == _first_counted(metric) else ("",)
    noise = f", noise {figure(each.noise)}" if each.noise else ""
    told = _VERDICTS.get(each.verdict) or toned(each.verdict)
    sign = "+" if each.difference > 0 else ""
    return (told, f" ({sign}{figure(each.difference)}{noise})")


def _first_counted(metric: Metric) -> MetricRow | None:
    return next((each for each in metric.rows if not each.is_void), None)


def claims(report: Report) -> Iterator[Block]:
    if not report.claims and not report.claims_problems:
        return
    yield Heading("Derivation")
    if report.claims_missing:
        yield Paragraph(("On the path to the goal these are not closed by a check that ran:",), "bad")
        yield Items(tuple((line,) for line in report.claims_missing))
    else:
        yield Paragraph(("Every claim on the path to the goal is closed by a check that ran.",), "good")
    if report.claims_problems:
        yield Paragraph(("What in the file of claims could not be used:",), "doubt")
        yield Items(tuple((line,) for line in report.claims_problems))
    if report.claims:
        head = ("claim", "status", "statement", "stands on", "check", "exit code", "recorded in")
        yield slim(head, tuple(map(_claim, report.claims)), frozenset({5}))
        yield Paragraph((f"The claims as they were read last: {event(report.claims_seq)}.",), "quiet")
    yield from more(report.claims_left_out, "more claims are not shown")


def _claim(claim: ClaimFacts) -> tuple[Spans, ...]:
    place = " (the goal)" if claim.is_goal else "" if claim.is_on_path else " (not on the path)"
    note = f" Note: {claim.note}" if claim.note else ""
    doubt = (Toned(f" {claim.doubt}", "doubt"),) if claim.doubt else ()
    return row(
        (Mono(claim.name), place),
        toned(claim.status),
        f"{claim.statement}{note}",
        ", ".join(claim.depends_on),
        (Mono(claim.check), *doubt) if claim.check else Toned("no check", "doubt"),
        code(claim.exit_code),
        event(claim.seq) if claim.seq else Toned("no check ran", "doubt"),
    )


def artifacts(report: Report) -> Iterator[Block]:
    if not report.artifacts_total and not report.artifacts_deleted:
        return
    yield Heading("Artifacts")
    gone = f" {plural(report.artifacts_deleted, 'file')} deleted." if report.artifacts_deleted else ""
    total = f"{plural(report.artifacts_total, 'file')} made or changed, {size(report.artifacts_bytes)}.{gone}"
    yield Paragraph((f"{total} As they were when they were last looked at.",))
    head = ("path", "size", "hash", "iteration", "made by")
    yield slim(head, tuple(map(_artifact, report.artifacts)), frozenset({1, 3}))
    left_out = report.artifacts_total - len(report.artifacts)
    yield from more(left_out, "more", f"mainspring artifacts {report.session} --all")
    shown: set[str] = set()
    for artifact in report.artifacts:
        if artifact.preview is not None and artifact.sha256 not in shown:
            shown.add(artifact.sha256)
            yield from _preview(artifact)


def _artifact(artifact: ArtifactFacts) -> tuple[Spans, ...]:
    moved = f" (was {artifact.renamed_from})" if artifact.renamed_from else ""
    path, made_by = (Mono(artifact.path), moved), Mono(artifact.made_by)
    return row(path, size(artifact.size), digest(artifact.sha256), str(artifact.iteration), made_by)


def _preview(artifact: ArtifactFacts) -> Iterator[Block]:
    preview = artifact.preview
    if preview is None:
        return
    if preview.data:
        yield Picture(artifact.path, preview.media_type, preview.data)
        return
    yield Paragraph((Mono(artifact.path), ":"))
    yield Table(preview.head, tuple(row(*cells) for cells in preview.rows))
    if preview.more_rows:
        yield Paragraph((f"and {plural(preview.more_rows, 'row')} more",), "quiet")
