"""The index of a repository: what it finds, what it reads again, and what it does with what it cannot read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import apsw
import pytest

from mainspring.app.index import RepositoryIndex, repository_index
from mainspring.app.operations.index import find_in_index, index_status, prompt_map, uses_of
from mainspring.app.session_index import SessionIndex
from mainspring.errors import UsageError
from mainspring.index import IndexDamaged
from mainspring.index.update import IndexChange
from mainspring.settings import Config, load_config

MODEL = '"""Cars of the fleet."""\n\nclass Car:\n    """Drives on wheels."""\n\n    def drive(self):\n        return 1\n'
USER = "from shop.model import Car\n\nprint(Car().drive())  # Car\n"


def config_in(folder: Path) -> Config:
    return load_config(
        {"MAINSPRING_HOME": str(folder / "home"), "PATH": os.environ["PATH"], "HOME": "/nowhere"}
    )


def repository(folder: Path, files: dict[str, str] | None = None) -> Path:
    root = folder / "work"
    (root / ".git").mkdir(parents=True)
    usual = {
        "shop/model.py": MODEL,
        "shop/user.py": USER,
        ".gitignore": "built/\n",
        "built/x.py": "zzz = 1\n",
    }
    for name, text in (files or usual).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def indexed(folder: Path, root: Path, *steps: Any) -> list[Any]:
    """Updates, then does each step with the index, updating after those that give nothing."""

    async def main() -> list[Any]:
        found: list[Any] = []
        async with repository_index(config_in(folder), root) as index:
            found.append(await index.update())
            for step in steps:
                answer = step(index)
                found.append(await index.update() if answer is None else answer)
        return found

    return asyncio.run(main())


def ask(question: str, *about: Any) -> Any:
    def asked(index: RepositoryIndex) -> Any:
        with index.store() as store:
            return getattr(store, question)(*about)

    return asked


def test_names_uses_and_texts_are_found_and_ignored_files_are_not(tmp_path: Path) -> None:
    root = repository(tmp_path)
    _, defined, method, used, outline, texts, ignored, listed = indexed(
        tmp_path,
        root,
        ask("definitions", "Car"),
        ask("definitions", "Car.drive"),
        ask("references", "Car"),
        ask("outline", "shop/model.py"),
        ask("search", "wheel"),
        ask("definitions", "zzz"),
        ask("paths"),
    )
    assert [(each.path, each.line, each.kind) for each in defined] == [("shop/model.py", 3, "class")]
    assert [(each.line, each.full_name) for each in method] == [(6, "Car.drive")]
    assert [(each.path, each.lines) for each in used] == [("shop/model.py", (3,)), ("shop/user.py", (1, 3))]
    assert [each.name for each in outline] == ["Car", "drive"]
    assert [(each.path, each.title) for each in texts] == [("shop/model.py", "Car")]
    assert ignored == []
    assert listed == [".gitignore", "shop/model.py", "shop/user.py"]
    assert not [path for path in root.rglob("*") if path.suffix == ".sqlite"]


def test_only_what_changed_is_read_again(tmp_path: Path) -> None:
    root = repository(tmp_path)

    def touched(_: RepositoryIndex) -> None:
        os.utime(root / "shop/model.py", (1, 1))

    def changed(_: RepositoryIndex) -> None:
        (root / "shop/user.py").write_text("from shop.model import Car as Wagon\n")

    def gone(_: RepositoryIndex) -> None:
        (root / "shop/model.py").unlink()

    first, again, new, used, removed, left, texts = indexed(
        tmp_path, root, touched, changed, ask("references", "Wagon"), gone, ask("definitions", "Car"),
        ask("search", "wheels"),
    )  # fmt: skip
    assert (first.read, first.files) == (3, 3)
    assert again == IndexChange(files=3)
    assert (new.read, new.removed) == (1, 0)
    assert [each.path for each in used] == ["shop/user.py"]
    assert (removed.read, removed.removed, left, texts) == (0, 1, [], [])


def test_an_index_that_was_made_for_a_question_is_ranked_by_the_next_update(tmp_path: Path) -> None:
    root = repository(tmp_path)

    async def main() -> list[Any]:
        async with repository_index(config_in(tmp_path), root) as index:
            await index.refresh()
            await index.update()
            with index.store() as store:
                return store.best(5)

    assert "shop/model.py" in [path for path, *_ in asyncio.run(main())]


def test_one_file_is_updated_alone(tmp_path: Path) -> None:
    root = repository(tmp_path)

    async def main() -> None:
        async with repository_index(config_in(tmp_path), root) as index:
            await index.update()
            (root / "shop/new.py").write_text("def honk(): ...\n")
            (root / "shop/user.py").unlink()
            assert (await index.update_files("shop/new.py", "shop/user.py")).removed == 1
            with index.store() as store:
                assert [each.path for each in store.definitions("honk")] == ["shop/new.py"]
                assert [each.path for each in store.references("Car")] == ["shop/model.py"]

    asyncio.run(main())


def test_files_that_cannot_be_read_are_told_and_not_tried_again(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.py": "x = 1\n"})
    (root / "b.py").write_bytes(b"a\0b")
    (root / "c.md").write_bytes(b"\xff\xfe\x00")
    (root / "d.pdf").write_bytes(b"no document")
    (root / "f.docx").touch()
    (root / "e.py").write_bytes(b"#" * (2 << 20))
    first, status, again = indexed(tmp_path, root, ask("status", root), lambda _: None)
    assert first.read == 6
    assert sum(status.problems.values()) == 5
    assert status.problems["its content is no PDF, DOCX, XLSX or PPTX"] == 2
    assert "it has more than 1 MiB" in status.problems
    assert again.read == 0


def test_what_no_sandbox_could_read_is_read_once_there_is_one(tmp_path: Path) -> None:
    files = {"shop/model.py": MODEL, "notes.md": "# Wheels\n"}
    root = repository(tmp_path, files)

    async def main(config: Config) -> tuple[IndexChange, Any]:
        async with repository_index(config, root) as index:
            change = await index.update()
            with index.store() as store:
                return change, (store.status(root).problems, store.definitions("Car"))

    (tmp_path / "bin").mkdir()
    bare = load_config({**config_in(tmp_path).environment, "PATH": str(tmp_path / "bin")})
    _, (problems, _) = asyncio.run(main(bare))
    if not problems:
        pytest.skip("this system has a sandbox without any program")
    assert next(iter(problems)).startswith("No sandbox works here")
    change, (problems, found) = asyncio.run(main(config_in(tmp_path)))
    assert (change.read, problems, len(found)) == (1, {}, 1)


def test_secrets_by_their_name_are_not_in_it(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.py": "x = 1\n", ".env": "KEY=1\n", "id_rsa": "-----BEGIN\n"})
    _, paths = indexed(tmp_path, root, ask("paths"))
    assert paths == ["a.py"]


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    root = repository(tmp_path)
    indexed(tmp_path, root)
    (file,) = (tmp_path / "home/code-index").glob("*.sqlite")
    file.write_bytes(b"no database at all" * 100)
    for each in file.parent.glob("*-*"):
        each.unlink()
    change, found = indexed(tmp_path, root, ask("definitions", "Car"))
    assert change.read == 3
    assert len(found) == 1


def test_an_index_that_is_damaged_inside_says_so_once_and_is_made_again(tmp_path: Path) -> None:
    root = repository(tmp_path)
    damaged = [lambda _: _damage(tmp_path), ask("definitions", "Car")]
    first, second, found = indexed(tmp_path, root, *damaged)
    assert (first.read, second.read, len(found)) == (3, 3, 1)
    _damage(tmp_path)
    with pytest.raises(IndexDamaged, match="mainspring index"):
        find_in_index(config_in(tmp_path), root, "Car")
    with pytest.raises(UsageError, match="has no index yet"):
        index_status(config_in(tmp_path), root)


def test_a_session_with_a_damaged_index_begins_and_has_it_made_again(tmp_path: Path) -> None:
    root = repository(tmp_path)
    indexed(tmp_path, root)
    _damage(tmp_path)
    assert prompt_map(config_in(tmp_path), root, least_files=0) == ""
    indexed(tmp_path, root)

    async def main() -> list[Any]:
        own = SessionIndex(root, config_in(tmp_path))
        try:
            assert await own.definitions("Car")
            _damage(tmp_path, but=("files",))
            return await own.definitions("Car")
        finally:
            await own.close()

    assert [each.path for each in asyncio.run(main())] == ["shop/model.py"]


def _damage(folder: Path, but: tuple[str, ...] = ()) -> None:
    """Writes rubbish over the first page of each table but these."""
    (file,) = (folder / "home/code-index").glob("*.sqlite")
    db = apsw.Connection(os.fspath(file))
    db.pragma("wal_checkpoint(truncate)")
    size = db.pragma("page_size")
    asked = "SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0"
    rows: list[Any] = db.execute(asked).fetchall()
    db.close()
    with file.open("r+b") as written:
        for name, page in rows:
            if not any(each in name for each in but):
                written.seek((page - 1) * size)
                written.write(b"\xaa" * size)


def test_names_that_are_no_text_are_told_and_cost_nobody_else_the_index(tmp_path: Path) -> None:
    root = repository(tmp_path)
    try:
        (root / os.fsdecode(b"shop/\xff.py")).write_text("x = 1\n")
    except OSError:
        pytest.skip("names of files are text here")
    first, status, found, again = indexed(
        tmp_path, root, ask("status", root), ask("definitions", "Car"), lambda _: None
    )
    assert (first.read, len(found), again.read, again.removed) == (3, 1, 0, 0)
    assert status.problems == {"its name is not UTF-8": 1}
    assert find_in_index(config_in(tmp_path), root, os.fsdecode(b"\xff")).symbols == []
    assert uses_of(config_in(tmp_path), root, os.fsdecode(b"\xff")) == []


def test_two_at_once_do_not_both_update(tmp_path: Path) -> None:
    root = repository(tmp_path)

    async def main() -> None:
        config = config_in(tmp_path)
        async with repository_index(config, root) as one, repository_index(config, root) as other:
            busy: list[bool] = []

            async def second() -> None:
                busy.append((await other.update()).is_busy)

            def progress(_done: int, _all: int) -> None:
                tasks.append(asyncio.get_running_loop().create_task(second()))

            tasks: list[asyncio.Task[None]] = []
            assert not (await one.update(progress)).is_busy
            await asyncio.gather(*tasks)
            assert len(busy) == 1

    asyncio.run(main())


def test_documents_notebooks_and_pages_are_searched(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    notebook = '{"cells": [{"cell_type": "code", "source": "walrus = 1", "outputs": []}]}'
    root = repository(
        tmp_path,
        {
            "notes.md": "# Plan\nmany words\n## Budget\nthe giraffe costs\n",
            "page.html": "<html><body><h1>Zoo</h1><p>an ocelot</p></body></html>",
            "data.csv": "name,age\nlemur,3\n",
            "n.ipynb": notebook,
        },
    )
    document = docx.Document()
    document.add_paragraph("A quokka in a letter.")
    document.save(str(root / "letter.docx"))
    words = ("giraffe", "ocelot", "lemur", "walrus", "quokka")
    _, *found = indexed(tmp_path, root, *(ask("search", word) for word in words))
    assert [each[0].path for each in found] == ["notes.md", "page.html", "data.csv", "n.ipynb", "letter.docx"]
    assert found[0][0].title == "Budget"
    assert found[0][0].line == 3
