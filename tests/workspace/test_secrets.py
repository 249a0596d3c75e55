"""The time machine and secrets: files come back as they were, and the data folder never has the secret."""

import asyncio

from tests.workspace.machine import picture
from tests.workspace.sessions import World, say, shell

KEY = "sk-proj-Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3Zx9Qw7Er5Ty3"


def stored(world):
    file = world.store.shelf.file(world.session)
    try:
        blobs = [file.get(blob) for blob in _blobs(file)]
    finally:
        file.close()
    files = [path for path in world.home.rglob("*") if path.is_file() and path.name != "secrets.json"]
    return b"".join([*blobs, *(path.read_bytes() for path in files)])


def _blobs(file):
    for item in file.read(limit=1000):
        for change in getattr(item.event, "changes", ()):
            yield from (state.blob for state in (change.before, change.after) if state and state.blob)


def test_a_file_with_a_key_comes_back_exactly_and_is_never_stored_with_it(tmp_path):
    world = World(tmp_path, shell("sed -i s/debug/release/ settings.ini; rm gone.ini"), say("done"))
    (world.root / "settings.ini").write_text(f"key = {KEY}\nmode = debug\n")
    (world.root / "gone.ini").write_text(f"key = {KEY}\n")
    before = picture(world.root)
    world.turn("go")
    assert picture(world.root) != before
    assert KEY.encode() not in stored(world)
    assert KEY not in world.command("diff", world.session)
    world.command("undo", world.session)
    assert picture(world.root) == before
    assert KEY.encode() not in stored(world)


def test_a_key_in_a_file_that_is_not_utf8_is_not_stored_and_comes_back(tmp_path):
    world = World(tmp_path, shell("rm latin.ini"), say("done"))
    content = f"caf\xe9 = {KEY}\n".encode("latin-1")
    (world.root / "latin.ini").write_bytes(content)
    world.turn("go")
    assert KEY.encode() not in stored(world)
    world.command("undo", world.session)
    assert (world.root / "latin.ini").read_bytes() == content


def test_a_fork_can_put_a_file_with_a_key_back_too(tmp_path):
    world = World(tmp_path, shell("rm gone.ini"), say("done"))
    (world.root / "gone.ini").write_text(f"key = {KEY}\n")
    world.turn("go")
    world.session = world.command("fork", world.session).split()[0]
    world.command("undo", world.session)
    assert (world.root / "gone.ini").read_text() == f"key = {KEY}\n"


def test_a_file_whose_secrets_are_forgotten_is_left_alone_and_named(tmp_path):
    world = World(tmp_path, shell("rm gone.ini; echo x > new"), say("done"))
    (world.root / "gone.ini").write_text(f"key = {KEY}\n")
    world.turn("go")
    (world.store.directory(world.session) / "secrets.json").unlink()
    answer = world.command("undo", world.session)
    assert "not put back: gone.ini (the secrets in it are no longer known)" in answer
    assert list(world.root.iterdir()) == []


def test_a_session_in_a_program_puts_secrets_back_as_well(tmp_path):
    world = World(tmp_path, shell("rm gone.ini"), say("done"))
    (world.root / "gone.ini").write_text(f"key = {KEY}\n")
    world.turn("go")

    async def undo():
        async with world.open() as session:
            return await session.undo("both")

    assert asyncio.run(undo()).text == "go"
    assert (world.root / "gone.ini").read_text() == f"key = {KEY}\n"
