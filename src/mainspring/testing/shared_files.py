"""What every implementation of the `SharedFiles` port must do, as checks that any test runner can run.

Give each check an empty place, and a second view of it, as another process or machine has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from mainspring.disk.shared_files import SharedFiles

_WRITERS = 4
_EACH = 8


def what_one_writes_the_other_reads_whole(one: SharedFiles, other: SharedFiles) -> None:
    assert other.read("inbox/a.json") is None
    assert other.names("inbox") == []
    for content in (b"first", b"", bytes(range(256)) * 1000):
        one.write("inbox/a.json", content)
        assert other.read("inbox/a.json") == content
    assert "a.json" in other.shown("inbox/a.json")


def names_are_those_of_one_folder_in_order(one: SharedFiles, other: SharedFiles) -> None:
    for name in ("inbox/b.json", "inbox/a.json", "inboxes/c.json", "inbox.json"):
        one.write(name, b"x")
    assert other.names("inbox") == ["a.json", "b.json"]


def of_two_who_remove_or_rename_one_does(one: SharedFiles, other: SharedFiles) -> None:
    one.write("inbox/a.json", b"x")
    assert [one.rename("inbox/a.json", "inbox/a.taken"), other.rename("inbox/a.json", "inbox/a.taken")] == [
        True,
        False,
    ]
    assert other.names("inbox") == ["a.taken"]
    assert one.rename("inbox/a.taken", "inbox/a.taken")
    one.write("inbox/b.json", b"y")
    assert one.rename("inbox/b.json", "inbox/a.taken")
    assert (other.names("inbox"), other.read("inbox/a.taken")) == (["a.taken"], b"y")
    assert [other.remove("inbox/a.taken"), one.remove("inbox/a.taken")] == [True, False]
    assert one.names("inbox") == []


def changes_wait_for_each_other(one: SharedFiles, other: SharedFiles) -> None:
    def add(files: SharedFiles, word: str) -> None:
        files.change("words", lambda before: (before or b"") + f"{word} ".encode())

    words = [f"{writer}-{number}" for writer in range(_WRITERS) for number in range(_EACH)]
    with ThreadPoolExecutor(_WRITERS) as threads:
        list(threads.map(add, [one, other] * (len(words) // 2), words))
    assert sorted((one.read("words") or b"").decode().split()) == sorted(words)


def a_change_can_remove_and_one_that_fails_changes_nothing(one: SharedFiles, other: SharedFiles) -> None:
    def fail(_: bytes | None) -> bytes:
        raise ValueError("no")

    for before in (None, b"kept"):
        if before is not None:
            one.write("words", before)
        try:
            one.change("words", fail)
        except ValueError:
            assert other.read("words") == before
        else:
            raise AssertionError("the failure was not raised")
    one.change("words", lambda _: None)
    one.change("words", lambda before: before)
    assert other.read("words") is None


def a_folder_is_filled_when_something_is_in_it(one: SharedFiles, other: SharedFiles) -> None:
    assert not asyncio.run(other.is_filled("inbox"))
    one.write("inbox/a.json", b"x")
    assert asyncio.run(other.is_filled("inbox"))
    one.remove("inbox/a.json")
    assert not asyncio.run(other.is_filled("inbox"))


CHECKS: tuple[Callable[[SharedFiles, SharedFiles], None], ...] = (
    what_one_writes_the_other_reads_whole,
    names_are_those_of_one_folder_in_order,
    of_two_who_remove_or_rename_one_does,
    changes_wait_for_each_other,
    a_change_can_remove_and_one_that_fails_changes_nothing,
    a_folder_is_filled_when_something_is_in_it,
)
