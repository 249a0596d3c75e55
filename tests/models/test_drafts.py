"""Files that a model wrote as fenced blocks."""

import pytest

from mainspring.models.drafts import asked, drafted, is_asked, paths_in


@pytest.mark.parametrize(
    "reply",
    [
        "### a/b.py\n```python\nx = 1\n```",
        "Sure!\n\n**a/b.py**:\n\n```python\nx = 1\n```\nThat is all.",
        "`a/b.py`\n~~~\nx = 1\n~~~",
        "```python a/b.py\nx = 1\n```",
        "```python\n### a/b.py\nx = 1\n```",
        "### ./a/b.py\n```python\nx = 1\n",
        "### a/b.py\n```python\nx = 0\n```\nBetter:\n### a/b.py\n```python\nx = 1\n```",
    ],
)
def test_a_file_is_found_in_the_forms_that_models_use(reply: str) -> None:
    assert drafted(reply) == [("a/b.py", "x = 1\n")]


@pytest.mark.parametrize(
    "reply",
    ["x = 1", "```python\nx = 1\n```", "### a.py\n```python\n```", "See a.py.", f"So:\n{asked('a.py')}"],
)
def test_what_has_no_name_or_no_content_is_no_file(reply: str) -> None:
    assert drafted(reply) == []


def test_fences_in_a_file_stay_in_it_when_its_own_is_longer() -> None:
    assert drafted("### a.md\n````\n```\nx\n```\n````") == [("a.md", "```\nx\n```\n")]


def test_only_the_last_message_asks() -> None:
    message = b'{"role":"user","content":"' + asked("a.py").replace("\n", "\\n").encode() + b'"}'
    assert is_asked([b"{}", message])
    assert not is_asked([message, b"{}"])
    assert not is_asked([])


def test_dates_versions_and_modules_are_no_paths() -> None:
    text = "`31.12.2025` `datetime.date` `1.2.3` `a.b.c()` `/etc/x.txt` `../x.py` `src/a.py` `./b.json` `Makefile`"
    assert paths_in(text) == ["src/a.py", "b.json", "Makefile"]
    assert drafted("31.12.2025\n```\nx\n```") == []
