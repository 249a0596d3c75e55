"""What a small model nearly wrote is tried where the tests fail, over real HTTP, with real tests in the sandbox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import Popen
from typing import Any, TypeVar

import pytest

import mainspring
from mainspring.catalog.sqlite import SqliteSessions
from mainspring.events import (
    AlternativeTried,
    AttemptEnded,
    CallEnded,
    ChangesChecked,
    FilesChanged,
    NoteAdded,
    SpendReserved,
    SpendSettled,
    SuiteEnded,
    TurnEnded,
)
from mainspring.settings import Config, load_config

E = TypeVar("E")
FAULTY = "def last(items, count):\n    return items[count:]\n"
MENDED = FAULTY.replace("items[count:]", "items[-count:]")
TEST = "from calc import last\n\nassert last([1, 2, 3], 2) == [2, 3]\nassert last([1], 1) == [1]\n"
TASK = "`last` in calc.py is wrong: `python3 test_calc.py` fails."
TOKENS = (
    "### calc.py\n```python\n",
    "def last(items, count):\n",
    "    return",
    " items",
    "[",
    "count",
    ":]\n",
    "```",
)
"""A model that copies the fault, and says at `[` and before it what else it thought of."""
NEARLY = {3: {" list": 0.2, " ": 0.4, " items": 0.3}, 4: {"[-": 0.1, "[:": 0.15}}
ENDINGS = {"return list": "(items)[count:]", "items[:": "count]", "items[-": "count:]"}
"""How it goes on from the end of a beginning."""


class TwoMinded:
    """A server of a model that copies, and goes on from a beginning; `asked` are the requests. `answer` may
    take the place of what it says to one that has a beginning."""

    def __init__(self, nearly: dict[int, dict[str, float]] | None = None) -> None:
        self.nearly = NEARLY if nearly is None else nearly
        self.asked: list[dict[str, Any]] = []
        self.answer: Callable[[str], str] = self.ended
        self.refused = self.refusal = ""
        self.tokens: tuple[str, ...] = TOKENS
        self.url = ""

    @property
    def name(self) -> str:
        return f"openai-compatible@{self.url}#coder-1.5b"

    @property
    def begun(self) -> list[str]:
        """The beginnings that were asked for."""
        return [each["messages"][-1]["content"] for each in self.asked if is_begun(each)]

    def reply(self, request: dict[str, Any]) -> dict[str, Any]:
        last = request["messages"][-1]["content"]
        if is_begun(request):
            return said(self.answer(last))
        if "Say in one short sentence" in last:
            return said("I changed the slice.")
        text = "".join(self.tokens)
        told = [self.told(index, token) for index, token in enumerate(self.tokens)]
        return said(text) | ({"logprobs": {"content": told}} if "logprobs" in request else {})

    def told(self, index: int, token: str) -> dict[str, Any]:
        others = self.nearly.get(index, {})
        shares = [{"token": each, "logprob": log(share)} for each, share in others.items()]
        return {"token": token, "logprob": -0.1, "top_logprobs": [{"token": token, "logprob": -0.1}, *shares]}

    def ended(self, beginning: str) -> str:
        """The whole text, as llama.cpp says it, up to where the request wants it to stop."""
        return beginning + next(rest for end, rest in ENDINGS.items() if beginning.endswith(end))


def log(share: float) -> float:
    return {0.1: -2.3026, 0.15: -1.8971, 0.2: -1.6094, 0.3: -1.204, 0.4: -0.9163}[share]


def is_begun(request: dict[str, Any]) -> bool:
    return request["messages"][-1]["role"] == "assistant"


def said(text: str) -> dict[str, Any]:
    return {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}


@contextmanager
def served(model: TwoMinded) -> Iterator[TwoMinded]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if model.refused and model.refused in request:
                message = f"Unsupported parameter: '{model.refused}' is not supported with this model."
                self.answer(400, {"error": {"message": model.refusal or message}})
                return
            model.asked.append(request)
            usage = {"prompt_tokens": 50, "completion_tokens": 5, "total_tokens": 55}
            self.answer(200, {"choices": [model.reply(request)], "usage": usage})

        def do_GET(self) -> None:
            self.answer(404, {"error": {"message": "There is nothing here."}})

        def answer(self, status: int, payload: dict[str, Any]) -> None:
            body = json.dumps(payload).encode()
            with suppress(BrokenPipeError, ConnectionResetError):  # who asked may have been killed
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class World:
    """A project with one fault and a test of it, and a small model."""

    def __init__(self, folder: Path, test: str = TEST) -> None:
        self.work, self.home = folder / "work", folder / "home"
        self.work.mkdir()
        self.home.mkdir()
        (self.work / "calc.py").write_text(FAULTY)
        if test:
            (self.work / "test_calc.py").write_text(test)

    @property
    def config(self) -> Config:
        return load_config(self.environment)

    def options(self, model: TwoMinded) -> dict[str, Any]:
        return {"model": model.name, "mode": "auto", "config": self.config}

    def run(self, model: TwoMinded, **options: Any) -> mainspring.Reply:
        return mainspring.run(TASK, self.work, **(self.options(model) | options))

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "MAINSPRING_HOME": str(self.home / "settings"),
            "PATH": os.environ["PATH"],
        }

    def command(self, name: str, *words: str) -> list[str]:
        where = ["-C", str(self.work)] if name == "run" else []
        return [sys.executable, "-m", "mainspring", name, *where, *words]

    @property
    def sessions(self) -> SqliteSessions:
        return SqliteSessions(self.home / "settings")

    @property
    def session(self) -> str:
        (session,) = [each.name for each in self.sessions.shelf.folder.iterdir() if each.is_dir()]
        return session

    def events(self, kind: type[E]) -> list[E]:
        file = self.sessions.shelf.file(self.session)
        try:
            return [item.event for item in file.read(limit=10_000) if isinstance(item.event, kind)]
        finally:
            file.close()

    @property
    def calc(self) -> str:
        return (self.work / "calc.py").read_text()


def test_the_first_line_with_which_the_tests_pass_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        reply = world.run(model)
    assert world.calc == MENDED
    assert (reply.ending, reply.text) == ("done", "I changed the slice.")
    # The likeliest first; blanks alone change nothing.
    tried = world.events(AlternativeTried)
    assert [each.new.strip() for each in tried] == [
        "return list(items)[count:]",
        "return items[:count]",
        "return items[-count:]",
    ]
    assert [(each.path, each.line, each.old.strip()) for each in tried] == [
        ("calc.py", 2, "return items[count:]")
    ] * 3
    assert [each.ending for each in world.events(TurnEnded)] == ["done"]
    assert [each.failed for each in world.events(AttemptEnded)] == [()]
    outcomes = [each.outcome for each in world.events(SuiteEnded)]
    assert outcomes[-3:] == ["failed", "failed", "passed"]
    told = world.events(NoteAdded)[-1].text
    assert told.startswith("Line 2 of calc.py is now `return items[-count:]`. All tests pass.")
    assert all(each.calls for each in world.events(FilesChanged))


def test_the_model_is_asked_no_more_than_how_a_line_goes_on_and_that_is_paid_for(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        world.run(model)
    first, *asked = [each for each in model.asked if "Say in one" not in each["messages"][-1]["content"]]
    assert (first["logprobs"], first["top_logprobs"]) == (True, 5)
    assert len(asked) == 3
    for each in asked:
        assert each["messages"][:-1] == first["messages"]  # so that a server has all of it but the end
        assert (each["stop"], each["temperature"]) == (["\n"], 0.0)
        assert not {"tools", "logprobs", "response_format", "seed"} & each.keys()
    assert model.begun[0] == "### calc.py\n```python\ndef last(items, count):\n    return list"
    spends = [each.spend for each in world.events(SpendReserved) if each.source == "alternative"]
    assert len(spends) == 3
    assert set(spends) <= {each.spend for each in world.events(SpendSettled)}


def test_where_none_passes_the_files_are_as_the_model_wrote_them_and_the_task_is_tried_again(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, TEST + "assert False\n")
    with served(TwoMinded()) as model:
        reply = world.run(model)
    assert world.calc == FAULTY
    assert reply.ending == "failed"
    assert len(world.events(AttemptEnded)) == 3
    assert [each.number for each in world.events(AlternativeTried)] == [1, 2, 3] * 3


@pytest.mark.parametrize("fresh", ["### calc.py\n```python\n" + MENDED, "```python\n" + MENDED])
def test_a_server_that_begins_anew_is_asked_once_an_attempt(tmp_path: Path, fresh: str) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        model.answer = lambda _: fresh
        world.run(model)
    assert len(model.begun) == len(world.events(AttemptEnded)) == 3
    assert world.events(AlternativeTried) == []


def test_a_server_that_says_only_what_is_new_is_understood(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        model.answer = lambda beginning: model.ended(beginning).removeprefix(beginning)
        assert world.run(model).ending == "done"
    assert world.calc == MENDED


def test_a_server_that_refuses_to_tell_is_asked_without(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        model.refused = "logprobs"
        assert world.run(model).ending == "failed"
    assert len(world.events(AttemptEnded)) == 3
    assert model.begun == []
    assert not any("logprobs" in each for each in model.asked)


def test_nothing_is_asked_where_no_test_can_decide(tmp_path: Path) -> None:
    world = World(tmp_path, test="")
    with served(TwoMinded()) as model:
        mainspring.run("`last` in calc.py is wrong.", world.work, **world.options(model))
    assert not any("logprobs" in each for each in model.asked)
    assert model.begun == []


def test_a_copy_is_no_work_also_where_nobody_can_say_which_lines_tests_reach(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.work / "Makefile").write_text("test:\n\tpython3 test_calc.py\n")
    with served(TwoMinded()) as model:
        reply = mainspring.run("`last` in calc.py is wrong.", world.work, **world.options(model))
    assert any(checked.not_checked for checked in world.events(ChangesChecked))
    assert (world.calc, reply.ending) == (MENDED, "done")
    assert sum(not is_begun(each) for each in model.asked) == 2  # the copy, and what was changed


def test_a_comment_behind_a_line_is_no_beginning_anew_and_nothing_to_test(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded({5: {"count:]": 0.4}, 4: {"[-": 0.1}})) as model:
        model.answer = lambda begun: "  # mended" if begun.endswith("count:]") else model.ended(begun)
        assert world.run(model).ending == "done"
    assert [each.number for each in world.events(AlternativeTried)] == [2]
    assert world.calc == MENDED


def test_what_could_not_be_written_is_not_written_either(tmp_path: Path) -> None:
    world = World(tmp_path)
    whole = FAULTY + "\n\ndef first(items):\n    return items[0]\n"
    (world.work / "calc.py").write_text(whole)
    with served(TwoMinded()) as model:
        model.tokens = (*TOKENS[:-1], "    # ... rest of the code remains unchanged\n", "```")
        assert world.run(model).ending == "failed"
    assert "nothing was written" in world.events(CallEnded)[0].output
    assert world.calc == whole
    assert model.begun == []


def test_what_somebody_saves_meanwhile_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:

        def saved(begun: str) -> str:
            if begun.endswith("[:"):
                (world.work / "calc.py").write_text("# mine\n")
            return model.ended(begun)

        model.answer = saved
        world.run(model)
        assert len(model.begun) == 2
    assert world.calc == "# mine\n"


def test_the_other_files_of_a_reply_are_as_they_were_while_a_line_is_tried(tmp_path: Path) -> None:
    world = World(
        tmp_path, "from calc import last\nfrom util import K\n\nassert last([1, 2], K) == [2] and K == 1\n"
    )
    (world.work / "calc.py").write_text(MENDED)
    (world.work / "util.py").write_text("K = 2\n")
    with served(TwoMinded({4: {"[:": 0.4}, 9: {" 1": 0.1}})) as model:
        mended = (*TOKENS[:4], "[", "-count", ":]\n", "```\n")
        model.tokens = (*mended, "### util.py\n```python\nK =", " 2", "\n", "```")
        model.answer = lambda begun: "count]" if begun.endswith("[:") else ""
        assert world.run(model).ending == "done"
    assert [(each.path, each.new.strip()) for each in world.events(AlternativeTried)] == [
        ("calc.py", "return items[:count]"),
        ("util.py", "K = 1"),
    ]
    assert world.calc == MENDED
    assert (world.work / "util.py").read_text() == "K = 1\n"


def test_a_line_with_which_tests_cannot_begin_has_failed_them(tmp_path: Path) -> None:
    world = World(
        tmp_path, "import sys\nfrom calc import last\n\nsys.exit(0 if last([1, 2, 3], 2) == [2, 3] else 1)\n"
    )
    with served(TwoMinded({3: {" exit": 0.2}, 4: {"[-": 0.1}})) as model:
        model.answer = lambda begun: "(127)" if begun.endswith(" exit") else model.ended(begun)
        assert world.run(model).ending == "done"
    assert [each.outcome for each in world.events(SuiteEnded)][-2:] == ["failed", "passed"]


def test_a_server_that_tells_of_fewer_tokens_is_asked_without(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded()) as model:
        model.refused, model.refusal = (
            "top_logprobs",
            "Requested sample logprobs of 5, which is greater than max allowed: 1",
        )
        assert world.run(model).ending == "failed"
    assert len(world.events(AttemptEnded)) == 3
    assert not any("logprobs" in each for each in model.asked)


def test_a_test_is_not_bent_until_it_passes(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded({1: {" 3": 0.1}})) as model:
        model.tokens = (
            "### test_calc.py\n```python\nfrom calc import last\n\nassert last([1, 2], 1) ==",
            " [2]",
            "\n",
            "```",
        )
        mainspring.run("Mend test_calc.py.", world.work, **world.options(model))
    assert model.begun == []


def test_a_stopped_search_leaves_what_the_model_wrote(tmp_path: Path) -> None:
    world, second, may_end = World(tmp_path), threading.Event(), threading.Event()
    with served(TwoMinded()) as model:

        def slow(begun: str) -> str:
            if begun.endswith("[:"):
                second.set()
                may_end.wait()
            return model.ended(begun)

        model.answer = slow
        running = Popen(
            world.command("run", "--mode", "auto", "--model", model.name, TASK), env=world.environment
        )
        second.wait()
        running.send_signal(signal.SIGTERM)
        running.wait()
        may_end.set()
    assert [each.number for each in world.events(AlternativeTried)] == [1]
    assert world.calc == FAULTY


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.home / "settings").mkdir(mode=0o700)
    (world.home / "settings" / "config.toml").write_text('work.alternatives = "off"\n')
    with served(TwoMinded()) as model:
        assert world.run(model).ending == "failed"
    assert not any("logprobs" in each for each in model.asked)
    assert model.begun == []


def test_a_line_that_does_not_end_is_not_tried(tmp_path: Path) -> None:
    world = World(tmp_path)
    with served(TwoMinded({4: {"[:": 0.15, "[-": 0.1}})) as model:
        whole = model.reply
        model.reply = lambda request: (
            whole(request)
            | (
                {"finish_reason": "length"}
                if is_begun(request) and request["messages"][-1]["content"].endswith("[:")
                else {}
            )
        )
        world.run(model)
    assert [each.number for each in world.events(AlternativeTried)] == [2]


def test_whoever_resumes_goes_on_with_the_next_one(tmp_path: Path) -> None:
    world, second = World(tmp_path), threading.Event()
    may_go_on = threading.Event()
    with served(TwoMinded()) as model:
        ended = model.ended

        def slow(beginning: str) -> str:
            if beginning.endswith("[:") and not may_go_on.is_set():
                second.set()
                may_go_on.wait()
            return ended(beginning)

        model.answer = slow

        running = Popen(
            world.command("run", "--mode", "auto", "--model", model.name, TASK), env=world.environment
        )
        second.wait()
        running.kill()
        running.wait()
        may_go_on.set()
        done = subprocess.run(world.command("resume", world.session), env=world.environment, check=False)
    assert done.returncode == 0
    assert [each.number for each in world.events(AlternativeTried)] == [1, 2, 3]
    assert len(world.events(AttemptEnded)) == 1
    assert world.calc == MENDED
