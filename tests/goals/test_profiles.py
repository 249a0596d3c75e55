"""Kinds of loops are data; a user's file stands beside ours."""

import pytest

from mainspring.errors import ConfigError, UsageError
from mainspring.goals.profiles import load_profile, profile_names


def test_the_classic_loops_have_their_defaults(tmp_path):
    exploop, drvloop = load_profile("exploop", tmp_path), load_profile("drvloop", tmp_path)
    assert (exploop.rules.max_iterations, exploop.rules.wait_s, exploop.rules.max_wait_s) == (10, 1.0, 6000.0)
    assert (drvloop.rules.max_iterations, drvloop.waits) == (30, "time")
    assert {loop.exit_code("iterations") for loop in (exploop, drvloop)} == {1}
    assert {loop.exit_code("stopped") for loop in (exploop, drvloop)} == {130}


def test_a_users_profile_is_found_by_name_and_by_path_and_replaces_ours(tmp_path):
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "mine.toml").write_text('prompt = "Do it."\n[rules]\nmax_iterations = 3\n')
    (folder / "exploop.toml").write_text('prompt = "Another."\n')
    assert load_profile("mine", tmp_path).rules.max_iterations == 3
    assert load_profile(str(folder / "mine.toml"), tmp_path / "nowhere").name == "mine"
    assert load_profile("exploop", tmp_path).prompt == "Another."
    assert profile_names(tmp_path) == ["drvloop", "exploop", "fix", "goal", "mine"]


def test_an_unknown_profile_names_those_that_there_are(tmp_path):
    with pytest.raises(UsageError) as caught:
        load_profile("nope", tmp_path)
    assert "drvloop, exploop, fix, goal" in caught.value.remedy


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prompt = ", "Invalid value"),
        ("", "`prompt` is missing."),
        ('prompt = "x"\ncolour = 1', "`colour` is not a setting. It may set: name, "),
        ('prompt = "x"\n[rules]\nmax_iteration = 1', "did you mean `rules.max_iterations`?"),
        ('prompt = "x"\n[rules]\nmax_iterations = "many"', "`rules.max_iterations` must be a whole number"),
        ('prompt = "x"\nname = "../up"', "`name` must be a text in quotes that matches"),
    ],
)
def test_a_wrong_profile_says_what_is_wrong(tmp_path, text, complaint):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_profile(str(tmp_path / "p.toml"), tmp_path)
    assert complaint in caught.value.message
