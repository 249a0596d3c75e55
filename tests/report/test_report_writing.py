"""Reports are written down safely and stay small: hostile text is never markup, and much is a count."""

from __future__ import annotations

import asyncio
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.documents.blocks import Items, Mono, OutputBlock, Paragraph, Quote, Table
from mainspring.documents.html import as_html
from mainspring.documents.markdown import as_markdown
from mainspring.documents.previews import preview_of
from mainspring.events import (
    ArtifactChange,
    ArtifactsChanged,
    AssistantSaid,
    CallAsked,
    CallEnded,
    CallStarted,
    CheckEnded,
    Claim,
    ClaimsRead,
    Event,
    GoalChecks,
    GoalEnded,
    GoalSet,
    IterationEnded,
    IterationStarted,
    Measurement,
    MeasurementsTaken,
    OnFile,
    SpendReserved,
    SpendSettled,
    TurnEnded,
    TurnStarted,
    WaitStarted,
)
from mainspring.events import Text as Said
from mainspring.report.reader import read_report
from mainspring.secrets.screen import plain
from tests.report.telling import NOW_US, iteration, page, report_of, text, written

HOSTILE = "\"'><img src=x onerror=alert(1)></pre></title><script>alert(1)</script>`|\n# [x](http://evil) <b>"
_TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "h3",
    "div",
    "strong",
    "p",
    "span",
    "code",
    "ul",
    "li",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "blockquote",
    "pre",
    "details",
    "summary",
    "figure",
    "img",
    "figcaption",
}


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        names = {"class", "lang", "charset", "content", "name", "http-equiv", "alt", "src", "open", "data-h"}
        assert {name for name, _ in attrs} <= names

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_journal(folder: Path) -> list[Event]:
    del folder
    return [
        *iteration(
            1,
            AssistantSaid(
                step=1,
                parts=(
                    Said(text=HOSTILE),
                    CallAsked(
                        call="c1", name="shell", arguments=msgspec.json.encode({"command": HOSTILE}).decode()
                    ),
                ),
            ),
            CallEnded(call="c1", outcome="ok", output=HOSTILE, suspicious=(HOSTILE,)),
            WaitStarted(wait="w", conditions=(OnFile(path=HOSTILE),), reason=HOSTILE),
            ArtifactsChanged(
                iteration=1, new=1, changes=(ArtifactChange(path=HOSTILE, kind="new", made_by=HOSTILE),)
            ),
            MeasurementsTaken(
                iteration=1, values=(Measurement(metric=HOSTILE, value=1.0, unit=HOSTILE),), flags=(HOSTILE,)
            ),
            ClaimsRead(
                iteration=1, claims=(Claim(name=HOSTILE, statement=HOSTILE, check=HOSTILE, is_goal=True),)
            ),
            CheckEnded(iteration=1, check=HOSTILE, kind="command", passed=False, detail=HOSTILE),
        ),
        GoalEnded(ending="failed", reason=HOSTILE),
    ]


def test_hostile_text_everywhere_is_text_in_the_page(tmp_path: Path) -> None:
    goal = GoalSet(text=HOSTILE, source=HOSTILE, by=HOSTILE, checks=GoalChecks(commands=(HOSTILE,)))
    shown = page(report_of(tmp_path, *hostile_journal(tmp_path), goal=goal))
    tags = Tags()
    tags.feed(shown)
    assert tags.text.count("<script>alert(1)</script>") > 10
    assert "<script" not in shown
    assert "default-src 'none'" in shown


def test_hostile_text_everywhere_is_text_in_markdown(tmp_path: Path) -> None:
    goal = GoalSet(text=HOSTILE, source=HOSTILE, by=HOSTILE, checks=GoalChecks(commands=(HOSTILE,)))
    shown = text(report_of(tmp_path, *hostile_journal(tmp_path), goal=goal))
    outside, fence = "", ""
    for line in shown.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif found := re.match(r"(`{3,})text$", line):
            fence = found[1]
        else:
            outside += f"{line}\n"
    assert not fence
    # What is left outside of code spans has no live tag, link or heading of theirs.
    prose = re.sub(r"(?<!\\)(`+)(?!`).*?(?<!`)\1(?!`)", "", outside)
    assert not re.search(r"(?<!\\)<[A-Za-z/!]", prose)
    assert not re.search(r"(?<!\\)\[", prose)
    assert not re.search(r"https?:", prose)
    assert not [line for line in prose.splitlines() if re.match(r"#+ (\[|\\?\[)", line)]


@given(st.text(max_size=60))
def test_any_text_comes_back_out_of_the_page_as_it_went_in(given_text: str) -> None:
    blocks = [
        Paragraph((given_text,)),
        Quote(given_text),
        OutputBlock(given_text),
        Table(("a",), (((Mono(given_text),),),)),
    ]
    tags = Tags()
    tags.feed("".join(as_html(given_text, blocks)))
    assert tags.text.count(plain(given_text)) >= (4 if given_text else 0)


@given(st.text(alphabet="ab`|\\*_[]<>#!~&$-+.:1\n\t ", max_size=40))
def test_no_text_breaks_out_of_its_place_in_markdown(given_text: str) -> None:
    row = "".join(as_markdown([Table(("a", "b"), (((given_text,), (Mono(given_text),)),))])).splitlines()
    assert row[3:] == [""]
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row[2])) == 3
    (line,) = "".join(as_markdown([Items(((given_text,),))])).splitlines()[:1]
    assert line.startswith("- ") or line == "-"
    fenced = "".join(as_markdown([Quote(given_text)])).splitlines()
    fence = fenced[0].removesuffix("text")
    assert fenced.count(fence) == 1


@pytest.mark.parametrize(
    ("data", "media_type", "head", "rows", "more"),
    [
        (b"a;b\n1;2\n\n3;4\n", "text/csv", ("a", "b"), (("1", "2"), ("3", "4")), 0),
        (b"a,b\n" + b"1\n" * 20, "text/csv", ("a", "b"), (("1", ""),) * 8, 12),
        (b'{"x": 1, "y": [1, 2]}', "application/json", ("name", "value"), (("x", "1"), ("y", "[1,2]")), 0),
        (b'[{"x": 1}, {"y": "b"}]', "application/json", ("x", "y"), (("1", ""), ("", "b")), 0),
        (b"[1, 2]", "application/json", ("value",), (("1",), ("2",)), 0),
    ],
)
def test_tables_are_previewed_by_their_first_rows(data, media_type, head, rows, more) -> None:
    preview = preview_of(data, media_type)
    assert preview is not None
    assert (preview.head, preview.rows, preview.more_rows) == (head, rows, more)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"", "text/csv"),
        (b"[" * 100_000, "application/json"),
        (b"not json", "application/json"),
        (b"3", "application/json"),
        (b"[]", "application/json"),
        (b"\x89PNX", "image/png"),
        (b"x", "text/html"),
    ],
)
def test_what_cannot_be_seen_has_no_preview(data: bytes, media_type: str) -> None:
    assert preview_of(data, media_type) is None


def test_twenty_thousand_artifacts_and_five_hundred_iterations_make_a_small_page(tmp_path: Path) -> None:
    changes = tuple(
        ArtifactChange(path=f"out/{number:05}.bin", kind="new", sha256=f"{number:064x}", size=10)
        for number in range(20_000)
    )
    many = ArtifactsChanged(iteration=1, new=20_000, changes=changes)
    events = iteration(1, many)
    for number in range(2, 601):
        said = AssistantSaid(step=1, parts=(Said(text="word " * 5000),))
        checks = [
            CheckEnded(iteration=number, check=f"check {place}", kind="command", passed=False, detail="no")
            for place in range(5)
        ]
        events += iteration(number, said, *checks, outcome="refused")
    report = report_of(tmp_path, *events)
    assert (report.artifacts_total, report.iterations_total) == (20_000, 600)
    shown = page(report)
    assert len(shown) < 1_500_000
    assert "19,800 more: <code>mainspring artifacts s1 --all</code>" in shown
    assert "of 600 iterations; for all of them: <code>mainspring show s1</code>" in shown
    assert "100 iterations between are not listed." in shown
    assert len(text(report)) < 1_500_000


@pytest.mark.slow
def test_a_report_of_a_hundred_thousand_events_takes_less_than_two_seconds(tmp_path: Path) -> None:
    async def timing() -> float:
        journal = await written(tmp_path, GoalSet(text="x"))
        for number in range(1, 101):
            events: list[Event] = [IterationStarted(iteration=number), TurnStarted(turn=number)]
            for step in range(199):
                name = f"c{number}-{step}"
                call = CallAsked(call=name, name="shell", arguments='{"command": "make test"}')
                events += [
                    SpendReserved(spend=name, source="step", model="m", tokens=10, usd=0.01),
                    SpendSettled(spend=name, usd=0.01),
                    AssistantSaid(step=step, parts=(Said(text="Going on."), call)),
                    CallStarted(call=name, tool="shell"),
                    CallEnded(call=name, outcome="ok", exit_code=0, output="x" * 500),
                ]
            events += [
                TurnEnded(turn=number, ending="done"),
                IterationEnded(iteration=number, outcome="continued"),
            ]
            await journal.append(*events)
        assert await journal.last_seq() > 99_000
        started = time.process_time()
        report = await read_report(journal, now_us=NOW_US, is_running=False)
        shown = page(report)
        taken = time.process_time() - started
        await journal.close()
        assert len(shown) < 1_000_000
        return taken

    assert asyncio.run(timing()) < 2.0
