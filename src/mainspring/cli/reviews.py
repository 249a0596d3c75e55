"""`reviews`: reviews on record, what became of their findings, and how far reviewers know themselves."""

from __future__ import annotations

import asyncio
from typing import Literal

import click

from mainspring.app.operations.reviews import (
    Bucket,
    PastReview,
    list_reviews,
    load_calibration,
    settle_finding,
)
from mainspring.cli.config import load_config, load_config_or_defaults
from mainspring.cli.json_output import json_line
from mainspring.documents.figures import when
from mainspring.events.counts import plural
from mainspring.secrets.screen import plain

_LIMIT = click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="How many of the newest sessions are looked through.",
)


@click.group("reviews", invoke_without_command=True)
@click.option("--json", "is_json", is_flag=True, help="Print one review per line as JSON.")
@_LIMIT
@click.pass_context
def reviews_command(context: click.Context, limit: int, *, is_json: bool) -> None:
    """List reviews, the newest first, with what became of each finding."""
    if context.invoked_subcommand is not None:
        return
    found = asyncio.run(list_reviews(load_config_or_defaults(), limit=limit))
    for each in found:
        click.echo(json_line(each) if is_json else plain("\n".join(_lines(each))))
    if not found and not is_json:
        click.echo("No reviews yet. Make one: mainspring review", err=True)


@reviews_command.command("dismiss")
@click.argument("review")
@click.argument("number", type=click.IntRange(min=1))
@click.option("--why", default="", help="Why it is no problem.")
@_LIMIT
def dismiss_command(review: str, number: int, why: str, limit: int) -> None:
    """Say that finding NUMBER of REVIEW was wrong."""
    _settle(review, number, "dismissed", why, limit)


@reviews_command.command("fixed")
@click.argument("review")
@click.argument("number", type=click.IntRange(min=1))
@click.option("--why", default="", help="What was done.")
@_LIMIT
def fixed_command(review: str, number: int, why: str, limit: int) -> None:
    """Say that finding NUMBER of REVIEW was right, and is fixed."""
    _settle(review, number, "fixed", why, limit)


@reviews_command.command("calibration")
@click.option("--json", "is_json", is_flag=True, help="Print it as JSON.")
@_LIMIT
def calibration_command(limit: int, *, is_json: bool) -> None:
    """Compare what reviewers thought of themselves with what became of it. This is no evidence of
    anything."""
    found = asyncio.run(load_calibration(load_config_or_defaults(), limit=limit))
    if is_json:
        click.echo(json_line(found))
        return
    lines = [
        *_table("findings that were right", found.findings, found.open_findings),
        *_table("reviews that held", found.reviews, found.open_reviews),
    ]
    click.echo("\n".join(lines))


def _settle(review: str, number: int, verdict: Literal["fixed", "dismissed"], why: str, limit: int) -> None:
    found = asyncio.run(settle_finding(load_config(), review, number, verdict, why, limit=limit))
    click.echo(plain("\n".join(_lines(found))))


def _lines(review: PastReview) -> list[str]:
    head = f"{when(review.time_us)} {review.review} {review.subject}"
    if review.ended is None:
        return [f"{head}: not ended"]
    if review.ended.failure:
        return [f"{head}: failed: {review.ended.failure}"]
    own = "" if review.ended.confidence is None else f", own confidence {review.ended.confidence}"
    held = "" if review.state == "unknown" else f", {review.state}"
    lines = [f"{head}: {plural(len(review.ended.findings), 'finding')}{own}{held}"]
    for number, (each, state) in enumerate(zip(review.ended.findings, review.states, strict=True), 1):
        lines.append(f"  [{number}] {state}: {each.file}:{each.line}: {each.severity}: {each.title}")
    apart = len(review.ended.unverified)
    return [*lines, f"  {apart} could not be verified"] if apart else lines


def _table(title: str, buckets: tuple[Bucket, ...], still_open: int) -> list[str]:
    lines = [f"{title}, by the reviewer's own confidence:"]
    for each in buckets:
        share = 100 * each.right / each.decided
        lines.append(f"  {each.low:>3}-{each.high:<3} {each.right} of {each.decided} ({share:.0f} %)")
    if not buckets:
        lines.append("  nothing is decided yet")
    return [*lines, f"  {still_open} open, and not counted"] if still_open else lines
