"""The sections of a report about what happened around the work."""

from __future__ import annotations

from collections.abc import Iterator

from mainspring.documents.blocks import (
    Block,
    Collapsible,
    Heading,
    Mono,
    OutputBlock,
    Paragraph,
    Spans,
    Table,
    Toned,
    more,
    row,
    slim,
)
from mainspring.events.counts import plural
from mainspring.report.describe import code, event, events, seconds, when
from mainspring.report.facts import Approval, Notice, Report, Wait
from mainspring.report.result_facts import LeftProcess


def around(report: Report) -> Iterator[Block]:
    yield from _waits(report)
    yield from _outages(report)
    yield from _approvals(report)
    yield from _notices(report)
    yield from _processes(report)
    yield from _crashes(report)


def _waits(report: Report) -> Iterator[Block]:
    if not report.waits:
        return
    yield Heading("Waits")
    late = sum(wait.late_s >= 1 for wait in report.waits)
    text = f"{plural(report.waits_total, 'wait')}, {seconds(report.clock.waiting_s)} in all."
    if late:
        text += f" {late} woke later than they could have, because nobody was there to see it."
    yield Paragraph((text,))
    head = ("iteration", "for", "why", "took", "woken by", "late", "recorded in")
    yield slim(head, tuple(map(_wait, reversed(report.waits))), frozenset({0, 3, 5}))
    yield from more(report.waits_total - len(report.waits), "earlier waits", report.show_command)


def _wait(wait: Wait) -> tuple[Spans, ...]:
    cause = f"{wait.cause}: {wait.summary}".removesuffix(": ") if wait.cause else "not woken yet"
    return row(
        str(wait.iteration),
        wait.what,
        wait.reason,
        seconds(wait.duration_s) if wait.cause else "",
        cause if wait.cause in ("met", "") else Toned(cause, "doubt"),
        seconds(wait.late_s) if wait.late_s >= 1 else "",
        event(wait.seq),
    )


def _outages(report: Report) -> Iterator[Block]:
    if not report.outages:
        return
    yield Heading("Outages and retries")
    rows = tuple(
        row(
            each.error,
            str(each.retries),
            str(each.given_up),
            ", ".join(each.models),
            each.message,
            when(each.last_us),
            events(tuple(dict.fromkeys((each.first_seq, each.last_seq)))),
        )
        for each in report.outages
    )
    head = ("error", "tried again", "given up", "model", "the last message", "last", "first and last")
    yield slim(head, rows, frozenset({1, 2}))


def _approvals(report: Report) -> Iterator[Block]:
    yield Heading("Approvals")
    rungs = ", then ".join(report.rungs) or "none was needed"
    yield Paragraph((f"Mode: {report.mode or 'not chosen'}. Sandbox: {rungs}.",))
    if not report.approvals:
        yield Paragraph(("Nobody was asked for anything.",))
        return
    head = ("asked", "for", "why", "answer", "by", "reach", "recorded in")
    yield slim(head, tuple(map(_approval, reversed(report.approvals))), frozenset())
    yield from more(report.approvals_total - len(report.approvals), "earlier questions", report.show_command)


def _approval(asked: Approval) -> tuple[Spans, ...]:
    until = f" until {when(asked.expires_us)}" if asked.expires_us is not None else ""
    pattern = f" as {asked.pattern}" if asked.pattern else ""
    seqs = tuple(dict.fromkeys(filter(None, (asked.seq, asked.answer_seq))))
    answer = asked.decision or Toned("not answered", "doubt")
    reach = f"{asked.scope}{pattern}{until}" if asked.decision == "allow" else ""
    return row(asked.tool, Mono(asked.arguments), asked.reason, answer, asked.by, reach, events(seqs))


def _notices(report: Report) -> Iterator[Block]:
    if not report.notices:
        return
    yield Heading("Warnings")
    rows = tuple(
        row(when(each.time_us), each.what, each.detail, event(each.seq)) for each in reversed(report.notices)
    )
    yield Table(("when", "what", "details", "recorded in"), rows)
    yield from more(report.notices_total - len(report.notices), "earlier warnings", report.show_command)


def _processes(report: Report) -> Iterator[Block]:
    ended = [each for each in report.left_running if each.is_ended]
    if ended:
        yield Heading("Processes that ended with the goal")
        yield Paragraph(("The engine had left them running: ", *_pids(ended), "."))
    alive = [each for each in report.left_running if not each.is_ended]
    if not report.processes and not alive:
        return
    yield Heading("Processes without a recorded end")
    if alive:
        yield Paragraph(("The engine left running: ", *_pids(alive), "."))
        yield Paragraph(("To end them: ", Mono(f"mainspring goal stop {report.session}")))
    if not report.processes:
        yield Paragraph(("Whether they still run: ", Mono("mainspring ps")))
        return
    rows = tuple(
        row(each.handle, Mono(each.command), "was told to stay" if each.is_staying else "", event(each.seq))
        for each in report.processes
    )
    yield Table(("process", "command", "", "recorded in"), rows)
    yield Paragraph(("Whether they still run: ", Mono("mainspring ps")))


def _pids(left: list[LeftProcess]) -> Spans:
    told = (f"process {each.pid} (iteration {each.iteration}, {event(each.seq)})" for each in left)
    return (", ".join(told),)


def _crashes(report: Report) -> Iterator[Block]:
    if not report.crashes and len(report.closes) < 2:
        return
    yield Heading("Interruptions of mainspring itself")
    if len(report.closes) > 1:
        rows = tuple(
            row(when(each.time_us), each.ending, each.reason, code(each.exit_code), event(each.seq))
            for each in report.closes
        )
        yield Table(("ended or paused", "how", "why", "exit code", "recorded in"), rows, frozenset({3}))
        yield from more(report.closes_left_out, "earlier ones", report.show_command)
    for each in report.crashes:
        yield from _crash(each)
    yield from more(report.crashes_total - len(report.crashes), "earlier ones", report.show_command)


def _crash(each: Notice) -> Iterator[Block]:
    if "\n" in each.detail:
        title = f"{when(each.time_us)}: {each.what} ({event(each.seq)})"
        yield Collapsible((title,), (OutputBlock(each.detail),), level=3)
    else:
        yield Paragraph((f"{when(each.time_us)}: {each.what}, {each.detail} ({event(each.seq)}).",))
