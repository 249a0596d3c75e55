"""The sections of a report about what the work left behind: metrics, claims and artifacts."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.documents.blocks import (
    Block,
    Collapsible,
    Heading,
    Items,
    Mono,
    Paragraph,
    Picture,
    Spans,
    Table,
    Toned,
    slim,
)
from mainspring.events.counts import plural
from mainspring.report.describe import code, digest, event, events, figure, size, toned
from mainspring.report.facts import ArtifactFacts, ClaimFacts, Metric, MetricRow, Report

_VERDICTS = {
    "same": "within the noise",
    "too few": "too few repeats to tell",
}


def metrics(report: Report) -> Iterator[Block]:
    if not report.metrics:
        return
    yield Heading("Metrics")
    evaluation = report.evaluation
    if evaluation.command:
        frozen = f", with {', '.join(evaluation.frozen)} frozen" if evaluation.frozen else ""
        yield Paragraph(
            (
                "Measured by mainspring itself with ",
                Mono(evaluation.command),
                f", {evaluation.repeats} times{frozen}.",
            )
        )
    for metric in report.metrics:
        yield from _metric(metric)
    if report.metrics_left_out:
        yield Paragraph((f"{report.metrics_left_out:,} more metrics are not shown.",), "quiet")


def _metric(metric: Metric) -> Iterator[Block]:
    name = f"{metric.name} [{metric.unit}]" if metric.unit else metric.name
    if not metric.better:
        note = Paragraph(("Nobody said which way is better, so nothing is judged here.",), "quiet")
        yield Collapsible((name,), (note, *_values(metric)))
        return
    yield Heading(name, 3)
    sure = "" if metric.is_best_sure else ", which too few repeats show"
    best = f"The best is iteration {metric.best_iteration}{sure}."
    each = f"{metric.better.capitalize()} is better; each is held against the best before it."
    yield Paragraph((f"{each} {best}",))
    yield from _values(metric)


def _values(metric: Metric) -> Iterator[Block]:
    if metric.plot:
        yield Picture(f"{metric.name} by iteration", "image/svg+xml", metric.plot.encode("utf-8", "replace"))
    head = (
        "iteration",
        "measured by",
        "repeats",
        "mean",
        "median",
        "spread (sd)",
        "against the best",
        "doubts",
    )
    rows = tuple(_metric_row(row, metric) for row in metric.rows)
    yield slim(head, rows, frozenset({0, 2, 3, 4, 5}))
    if metric.rows_left_out:
        yield Paragraph((f"{metric.rows_left_out:,} earlier iterations are not shown.",), "quiet")
    if metric.events:
        yield Paragraph((f"Recorded in {events(metric.events)}.",), "quiet")


def _metric_row(row: MetricRow, metric: Metric) -> tuple[Spans, ...]:
    return (
        (str(row.iteration),),
        ("mainspring" if row.is_ours else Toned("the agent", "doubt"),),
        (str(row.repeats),),
        (figure(row.mean),),
        (figure(row.median),),
        (figure(row.spread) if row.repeats > 1 else "",),
        _verdict(row, metric),
        tuple(Toned(f"{flag}. ", "doubt") for flag in row.flags),
    )


def _verdict(row: MetricRow, metric: Metric) -> Spans:
    if not row.verdict:
        return ("the first",) if metric.better and row == metric.rows[0] else ("",)
    noise = f", noise {figure(row.noise)}" if row.noise else ""
    word = _VERDICTS.get(row.verdict)
    told = word or toned(row.verdict)
    return (told, f" ({row.difference:+.4g}{noise})")


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
    if report.claims_left_out:
        yield Paragraph((f"{report.claims_left_out:,} more claims are not shown.",), "quiet")


def _claim(claim: ClaimFacts) -> tuple[Spans, ...]:
    place = " (the goal)" if claim.is_goal else "" if claim.is_on_path else " (not on the path)"
    note = f" Note: {claim.note}" if claim.note else ""
    return (
        (Mono(claim.name), place),
        (toned(claim.status),),
        (f"{claim.statement}{note}",),
        (", ".join(claim.depends_on),),
        (Mono(claim.check),) if claim.check else (Toned("no check", "doubt"),),
        (code(claim.exit_code),),
        (event(claim.seq) if claim.seq else Toned("no check ran", "doubt"),),
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
    if report.artifacts_total > len(report.artifacts):
        text = f"{report.artifacts_total - len(report.artifacts):,} more: "
        yield Paragraph((text, Mono(f"mainspring artifacts {report.session} --all")), "quiet")
    shown: set[str] = set()
    for artifact in report.artifacts:
        if artifact.preview is not None and artifact.sha256 not in shown:
            shown.add(artifact.sha256)
            yield from _preview(artifact)


def _artifact(artifact: ArtifactFacts) -> tuple[Spans, ...]:
    moved = f" (was {artifact.renamed_from})" if artifact.renamed_from else ""
    return (
        (Mono(artifact.path), moved),
        (size(artifact.size),),
        digest(artifact.sha256),
        (str(artifact.iteration),),
        (Mono(artifact.made_by),),
    )


def _preview(artifact: ArtifactFacts) -> Iterator[Block]:
    preview = artifact.preview
    if preview is None:
        return
    if preview.data:
        yield Picture(artifact.path, preview.media_type, preview.data)
        return
    yield Paragraph((Mono(artifact.path), ":"))
    yield Table(preview.head, tuple(tuple((cell,) for cell in row) for row in preview.rows))
    if preview.more_rows:
        yield Paragraph((f"and {plural(preview.more_rows, 'row')} more",), "quiet")
