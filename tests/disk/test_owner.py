import asyncio
import os
import signal
import time
from pathlib import Path

import msgspec
import pytest

from mainspring.disk.owner import LOCK_NAME, Owner, own, owner_of
from mainspring.errors import JournalOwned
from mainspring.events import UserSaid
from mainspring.system import try_lock
from tests.journal.samples import write


def known_owner(directory: Path) -> Owner:
    owner = owner_of(directory)
    assert owner is not None
    return owner


def test_a_second_process_is_told_who_writes(store, worker):
    write(store, "one", [])
    process = worker("hold")
    assert process.stdout.readline() == "holding\n"
    with pytest.raises(JournalOwned) as refused:
        asyncio.run(store.open("one"))
    owner = known_owner(store.directory("one"))
    assert owner.is_alive
    assert owner.pid == process.pid
    assert f"process {process.pid} on {owner.host}, since 20" in refused.value.message
    assert refused.value.remedy


def test_a_killed_owner_is_replaced_and_its_events_stay(store, worker):
    write(store, "one", [])
    process = worker("hold")
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not known_owner(store.directory("one")).is_alive
    write(store, "one", [UserSaid(text="taken over")])
    file = store.shelf.file("one")
    assert [item.event.text for item in file.read()] == ["mine", "taken over"]
    assert file.verify().problem == ""
    file.close()


def test_a_lock_that_a_dead_owners_child_still_holds_is_taken_over(store, worker):
    write(store, "one", [])
    process = worker("hold_and_leave_a_child")
    child = int(process.stdout.readline())
    process.wait()
    try:
        write(store, "one", [UserSaid(text="mine now")])
        assert owner_of(store.directory("one")) is None
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_pid_that_was_given_to_another_process_does_not_count_as_the_owner(tmp_path):
    held = own(tmp_path, "one")
    mine = held.owner
    held.release()
    reused = msgspec.structs.replace(mine, born=mine.born - 1)
    (tmp_path / LOCK_NAME).write_bytes(msgspec.json.encode(reused))
    assert not known_owner(tmp_path).is_alive
    taken = own(tmp_path, "one")
    assert owner_of(tmp_path) == taken.owner
    taken.release()


def test_an_owner_on_another_machine_is_believed_while_its_lock_is_held(tmp_path):
    held = own(tmp_path, "one")
    elsewhere = Owner(host="faraway", pid=1, born=1, scope="another boot", since_us=time.time_ns() // 1000)
    (tmp_path / LOCK_NAME).write_bytes(msgspec.json.encode(elsewhere))
    assert known_owner(tmp_path).is_alive
    with pytest.raises(JournalOwned, match="process 1 on faraway"):
        own(tmp_path, "one")
    held.release()
    (tmp_path / LOCK_NAME).write_bytes(msgspec.json.encode(elsewhere))
    assert not known_owner(tmp_path).is_alive
    own(tmp_path, "one").release()


def test_a_session_that_is_being_given_up_is_free(tmp_path):
    lock = os.open(tmp_path / LOCK_NAME, os.O_RDWR | os.O_CREAT)  # its record is gone, the lock not yet
    assert try_lock(lock)
    taken = own(tmp_path, "one")
    os.close(lock)
    with pytest.raises(JournalOwned):
        own(tmp_path, "one")
    taken.release()


def test_a_closed_session_has_no_owner(store):
    write(store, "one", [UserSaid(text="x")])
    assert owner_of(store.directory("one")) is None


def test_a_lock_with_rubbish_in_it_belongs_to_nobody(tmp_path):
    (tmp_path / LOCK_NAME).write_bytes(b"\x00\xffnot json")
    assert owner_of(tmp_path) is None
    own(tmp_path, "one").release()
