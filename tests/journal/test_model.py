"""A journal behaves as a list does, whatever is done to it in whatever order."""

import asyncio
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import AssistantSaid, CallStarted, Event, NoteAdded, Text, UserSaid

TEXTS = st.one_of(st.text(max_size=50), st.integers(15_000, 40_000).map(lambda size: "é" * size))
EVENTS = st.one_of(
    st.builds(UserSaid, text=TEXTS),
    st.builds(NoteAdded, text=TEXTS),
    st.builds(AssistantSaid, step=st.integers(1, 9), parts=st.tuples(st.builds(Text, text=TEXTS))),
    st.builds(CallStarted, call=st.text(max_size=9), tool=st.just("t")),
)
KINDS = st.sets(st.sampled_from(["UserSaid", "NoteAdded", "AssistantSaid", "CallStarted", "Nothing"]))


class JournalAsAList(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = SqliteSessions(Path(self.folder.name))
        self.loop = asyncio.new_event_loop()
        self.journal = self.loop.run_until_complete(self.store.create("one"))
        self.reader = self.loop.run_until_complete(self.store.read("one"))
        self.heard: list[Event] = []
        self.journal.subscribe(lambda recorded: self.heard.extend(item.event for item in recorded))
        self.events: list[Event] = []
        self.blobs: dict[str, bytes] = {}

    def run(self, waiting):
        return self.loop.run_until_complete(waiting)

    @rule(events=st.lists(EVENTS, max_size=4))
    def append(self, events):
        recorded = self.run(self.journal.append(*events))
        assert [item.seq for item in recorded] == [len(self.events) + n for n in range(1, len(events) + 1)]
        self.events += events

    @rule(groups=st.lists(st.lists(EVENTS, min_size=1, max_size=3), min_size=2, max_size=4))
    def append_at_once(self, groups):
        async def together():
            return await asyncio.gather(*(self.journal.append(*group) for group in groups))

        for recorded in self.run(together()):
            assert recorded[0].seq == len(self.events) + 1
            self.events += [item.event for item in recorded]

    @rule(data=st.one_of(st.binary(max_size=200), st.integers(1, 3_000_000).map(bytes)))
    def put(self, data):
        blob = self.run(self.journal.put(data))
        self.blobs[blob.sha256] = data
        assert self.run(self.journal.get(blob)) == data

    @rule()
    def reopen(self):
        self.run(self.journal.close())
        self.journal = self.run(self.store.open("one"))
        self.journal.subscribe(lambda recorded: self.heard.extend(item.event for item in recorded))

    @rule(
        after=st.integers(0, 30), until=st.none() | st.integers(0, 30), kinds=KINDS, limit=st.integers(1, 20)
    )
    def read(self, after, until, kinds, limit):
        expected = [
            (number, event)
            for number, event in enumerate(self.events, 1)
            if number > after
            and (until is None or number <= until)
            and (not kinds or type(event).__name__ in kinds)
        ][:limit]
        for reader in (self.journal, self.reader):
            found = self.run(reader.read(after=after, until=until, kinds=kinds, limit=limit))
            assert [(item.seq, item.event) for item in found] == expected

    @rule(kinds=KINDS)
    def last(self, kinds):
        numbers = [n for n, event in enumerate(self.events, 1) if not kinds or type(event).__name__ in kinds]
        found = self.run(self.reader.last(*kinds))
        assert (found and found.seq) == (numbers[-1] if numbers else None)

    @rule()
    def verify(self):
        verdict = self.run(self.journal.verify())
        assert verdict.problem == ""
        assert verdict.events == len(self.events)

    @rule()
    def the_list_counts_the_events(self):
        assert [row.events for row in self.store.shelf.sessions()] == [len(self.events)]

    @invariant()
    def everything_appended_was_heard(self):
        assert self.heard == self.events

    def teardown(self):
        self.run(self.reader.close())
        self.run(self.journal.close())
        file = self.store.shelf.file("one")
        assert [item.event for item in file.read(limit=10_000)] == self.events
        assert set(self.blobs) <= set(_blobs(file))
        file.close()
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()


def _blobs(file):
    return file.scan(
        lambda stored: [row[0].hex() for row in stored.connection.execute("SELECT sha256 FROM blobs")]
    )


TestJournalAsAList = JournalAsAList.TestCase
TestJournalAsAList.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
