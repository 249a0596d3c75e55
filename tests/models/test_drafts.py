"""Files that a model wrote as fenced blocks."""

import asyncio
from collections.abc import AsyncGenerator

import msgspec
import pytest

from mainspring.events import Alternative, CallDelta, TextDelta, Usage
from mainspring.models import ReplyFinished, StreamItem
from mainspring.models.drafts import (
    alone,
    asked,
    block,
    blocks,
    drafted,
    example_of,
    is_asked,
    is_program_asked,
    page,
    paths_in,
    program_asked,
    ran_program,
    said_otherwise,
    start_of,
)


def files_in(reply: str, example: str = "") -> list[tuple[str, str]]:
    return [(each.path, each.content) for each in drafted(reply, example)]


@pytest.mark.parametrize(
    "reply",
    [
        "### a/b.py\n```python\nx = 1\n```",
        "Sure!\n\n**a/b.py**:\n\n```python\nx = 1\n```\nThat is all.",
        "`a/b.py`\n~~~\nx = 1\n~~~",
        "```python a/b.py\nx = 1\n```",
        "```python\n### a/b.py\nx = 1\n```",
        "```python\n# File: a/b.py\nx = 1\n```",
        "1. `a/b.py`:\n   ```python\n   x = 1\n   ```\n2. Run it.",
        "### a/b.py\n```python\nx = 1\n```\r\nDone.",
        "### a/b.py\n```python\nx = 1\n```\nRun `python a/b.py`:\n```bash\npython a/b.py\n```",
        "### ./a/b.py\n```python\nx = 1\n",
        "### a/b.py\n```python\nx = 0\n```\nBetter:\n### a/b.py\n```python\nx = 1\n```",
    ],
)
def test_a_file_is_found_in_the_forms_that_models_use(reply: str) -> None:
    assert files_in(reply) == [("a/b.py", "x = 1\n")]


@pytest.mark.parametrize(
    "reply",
    ["x = 1", "```python\nx = 1\n```", "### a.py\n```python\n```", "See a.py.", f"So:\n{asked('a.py')}"],
)
def test_what_has_no_name_or_no_content_is_no_file(reply: str) -> None:
    assert drafted(reply) == []


def test_fences_in_a_file_stay_in_it_when_its_own_is_longer() -> None:
    assert files_in("### a.md\n````\n```\nx\n```\n````") == [("a.md", "```\nx\n```\n")]


def test_only_the_last_message_asks() -> None:
    message = b'{"role":"user","content":"' + asked("a.py").replace("\n", "\\n").encode() + b'"}'
    assert is_asked([b"{}", message])
    assert not is_asked([message, b"{}"])
    assert not is_asked([])


def test_dates_versions_and_modules_are_no_paths() -> None:
    text = "`31.12.2025` `datetime.date` `1.2.3` `a.b.c()` `/etc/x.txt` `../x.py` `src/a.py` `./b.json` `Makefile` `c.sh FILE`"
    assert paths_in(text) == ["src/a.py", "b.json", "Makefile", "c.sh"]
    assert drafted("31.12.2025\n```\nx\n```") == []


@pytest.mark.parametrize(
    ("task", "paths"),
    [
        ("Create hello.py. When run it prints hello.", ["hello.py"]),
        ("Создай в каталоге src файл utils.py с функцией slug(text).", ["utils.py"]),
        ("请把结果写入文件sum.txt。", ["sum.txt"]),
        ("Write 'a/out.csv' from \"in.csv\", then `b.json`.", ["b.json", "a/out.csv", "in.csv"]),
        ("Rename old.py: it is (see ./new.py), not lib.python.", ["old.py", "new.py"]),
        ("Node.js 20, at 1.2.3 on 31.12.2025: call json.load(x) or console.log(x), e.g. here.", []),
        ("See https://example.org/a.txt, me@host.rs, /etc/app.conf, ../up.py and ~/x.sh.", []),
        ("It was x.py.bak, and os.env(1).", []),
    ],
)
def test_names_of_files_need_no_code_quotes(task: str, paths: list[str]) -> None:
    assert paths_in(task) == paths


def test_a_file_with_fences_is_shown_in_a_longer_one_and_read_back() -> None:
    text = "# Use\n```\nx\n```"
    assert files_in(block("a.md", text)) == [("a.md", f"{text}\n")]


def said(role: str, content: str) -> bytes:
    return msgspec.json.encode({"role": role, "content": content})


def test_a_page_is_sent_without_what_it_says_again() -> None:
    task = "Repariere `a.py`.\n"
    text = page([block("a.py", "x = 1")], ["data.bin"], task, "it was 2", asked("a.py"))
    failed = said("user", "[note from mainspring:attempts] Another attempt failed:\n\nit was 2")
    other = said("user", "Always write tests.")
    sent = alone([other, failed, said("user", task), said("user", f"[note from mainspring:files] {text}")])
    assert sent == [other, said("user", text)]
    parts = ["### a.py", "data.bin", "Repariere", "it was 2", asked("a.py")]
    assert sorted(parts, key=text.index) == parts


def test_files_that_are_kept_are_no_calls() -> None:
    reply = "### a.py\n```\nx\n```\n### test_a.py\n```\nassert True\n```"

    async def stream() -> AsyncGenerator[StreamItem]:
        yield TextDelta(text=reply)
        yield ReplyFinished(stop="end", usage=Usage())

    async def calls() -> list[str]:
        return [
            item.arguments async for item in blocks(stream(), ["test_a.py"]) if isinstance(item, CallDelta)
        ]

    (call,) = asyncio.run(calls())
    assert msgspec.json.decode(call)["path"] == "a.py"


def test_results_of_several_calls_stand_in_one_message_before_a_page() -> None:
    results = b'{"content":"a","role":"tool"},{"content":"b","role":"tool"}'
    asked_for = said("user", asked("a.py"))
    assert alone([results, asked_for])[0] == results
    assert alone([asked_for, results])[1] == results


def test_a_program_is_a_call_of_the_shell_when_one_was_asked_for() -> None:
    message = said(
        "user", page([block("a.csv", "n\n1")], [], "Add up `a.csv`.", "", program_asked("sum.txt"))
    )
    assert is_asked([message])
    assert is_program_asked([message])
    assert not is_program_asked([said("user", asked("a.py"))])
    assert b"`sum.txt`" in message

    async def read(reply: str) -> list[StreamItem]:
        async def stream() -> AsyncGenerator[StreamItem]:
            yield TextDelta(text=reply)
            yield ReplyFinished(stop="end", usage=Usage())

        return [item async for item in blocks(stream(), is_program=True)]

    (call, finished) = asyncio.run(read("So:\n```python\nprint('$HOME')\n```\nRun it."))
    assert isinstance(call, CallDelta)
    arguments = msgspec.json.decode(call.arguments)
    assert call.name == "shell"
    assert arguments["command"].splitlines()[1:-1] == ["print('$HOME')"]
    assert ran_program(call.arguments)
    assert isinstance(finished, ReplyFinished)
    assert finished.stop == "calls"
    assert isinstance(asyncio.run(read("The sum is 1."))[0], TextDelta)


def test_of_several_names_before_a_block_the_one_counts_that_its_language_suits() -> None:
    reply = "Here is `people.json`, made of `people.csv`:\n```json\n[]\n```"
    assert files_in(reply) == [("people.json", "[]\n")]


@pytest.mark.parametrize(
    ("reply", "files"),
    [
        ("```json\n[]\n```", [("a.json", "[]\n")]),
        ("Here it is:\n\n```\n[]\n```\nThat is all.", [("a.json", "[]\n")]),
        ("```js\n// src/b.js\n1;\n```", [("src/b.js", "1;\n")]),
        ("```bash\npython3 make.py\n```", []),
        ("```json\n[]\n```\nor\n```json\n{}\n```", []),
        ("### b.json\n```json\n{}\n```\n```json\n[]\n```", [("b.json", "{}\n")]),
    ],
)
def test_the_only_block_without_a_name_is_the_file_that_was_asked_for(
    reply: str, files: list[tuple[str, str]]
) -> None:
    message = said("user", page([block("a.csv", "n")], [], "Write `a.json`.", "", asked("a.json")))
    assert files_in(reply, example_of([message])) == files
    assert example_of([said("user", "Write it.")]) == ""


def otherwise(reply: str, instead: str, text: str, probability: float = 0.1) -> Alternative:
    return Alternative(at=reply.index(instead), text=text, instead=instead, probability=probability)


def test_what_a_model_nearly_wrote_is_placed_in_the_file_that_it_changes() -> None:
    reply = "Here:\n### a.py\n```python\nx = 1\n```\n\n### b.py\n```python\ny = 2  # two\n```"
    found = said_otherwise(reply, drafted(reply), [otherwise(reply, "2", "3"), otherwise(reply, "1", "0")])
    assert [(each.call, each.at, each.text) for each in found] == [(1, 4, "3"), (0, 4, "0")]


def test_a_line_that_ends_sooner_or_later_is_an_alternative() -> None:
    reply = "### a.py\n```python\nx = f()\ny = 1\n```"
    later, sooner = otherwise(reply, "()\n", "()"), otherwise(reply, "f", "f\n")
    assert len(said_otherwise(reply, drafted(reply), [later, sooner])) == 2


@pytest.mark.parametrize(
    ("instead", "text"),
    [
        (" 1", " 1 "),
        ("1", "  \n"),
        ("x", "# x"),
        ("x", "//"),
        ("1", "```"),
        ("Here", "There"),
        ("python", "py"),
    ],
)
def test_blanks_comments_fences_and_what_is_in_no_file_are_no_alternatives(instead: str, text: str) -> None:
    reply = "Here:\n### a.py\n```python\nx = 1\n```"
    assert said_otherwise(reply, drafted(reply), [otherwise(reply, instead, text)]) == ()


def test_an_alternative_to_something_else_than_what_was_said_there_is_none() -> None:
    reply = "### a.py\n```python\nx = 1\n```"
    elsewhere = Alternative(at=reply.index("1"), text="2", instead="3", probability=0.5)
    assert said_otherwise(reply, drafted(reply), [elsewhere]) == ()
    indented = "- `a.py`\n  ```python\n  x = 1\n  ```"
    assert said_otherwise(indented, drafted(indented), [otherwise(indented, "1", "2")]) == ()


def test_a_beginning_has_the_form_that_was_asked_for() -> None:
    begun = start_of([("a.py", "x = 1\n"), ("b.js", "y(2);\n")], 1, 2)
    assert begun == "### a.py\n```python\nx = 1\n```\n\n### b.js\n```javascript\ny("
