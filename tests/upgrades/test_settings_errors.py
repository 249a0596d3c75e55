"""What is wrong in a settings file is named by file and key: an unknown key with the nearest one that is known, a
wrong value with what is expected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mainspring.approvals.rules import load
from mainspring.errors import ConfigError
from mainspring.settings import load_config
from tests.upgrades.installation import Installation

WRONG = [
    ("modell = 'x'", "`modell` is not a setting; did you mean `model`?"),
    ("modle = 'x'", "`modle` is not a setting; did you mean `model`?"),
    ("[retry]\nmax_request = 3", "`retry.max_request` is not a setting; did you mean `retry.max_requests`?"),
    ("[caps.turn]\nstep = 3", "`caps.turn.step` is not a setting; did you mean `caps.turn.steps`?"),
    (
        '[prices."a/b"]\ninputs = 1.0',
        '`prices."a/b".inputs` is not a setting; did you mean `prices."a/b".input`?',
    ),
    ("max_running = 3", "`max_running` is not a setting; did you mean `daemon.max_running`?"),
    ("timeout-s = 3", "`timeout-s` is not a setting; did you mean `steps.NAME.timeout_s`?"),
    ("[daemon]\nxyz = 1", "`daemon.xyz` is not a setting. [daemon] may set: max_running, "),
    ("xyz = 1", "`xyz` is not a setting. It may set: model, "),
    ("idle_steps = -1", "`idle_steps` must be a whole number at least 0, not -1."),
    ("compact_at = 2", "`compact_at` must be a number more than 0 and at most 1, not 2."),
    ("model = 5", "`model` must be a text in quotes, not 5."),
    ("models = 'x'", '`models` must be a list, of which each is a text in quotes or a table, not "x".'),
    ("fallback = [1]", "`fallback` must be a text in quotes, not 1."),
    ("router = 'yes'", '`router` must be true or false, not "yes".'),
    ("effort = 'huge'", '`effort` must be one of "high", "low", "max", "medium", not "huge".'),
    ("tiers = 3", "`tiers` must be a table, not 3."),
    ("[tiers]\nfast = 3", "`tiers.fast` must be a text in quotes or a table, not 3."),
    ("[caps.day]\nusd = '5'", '`caps.day.usd` must be a number, not "5".'),
    ("[daemon]\nmax_running = true", "`daemon.max_running` must be a whole number at least 1, not true."),
    ('[[prices."a/b".long]]\nprice = {}', '`prices."a/b".long.above_tokens` is missing.'),
    (
        "[prices.m]\ninput = -1.0",
        "`prices.m.input` must be a number at least 0 and at most 1,000,000, not -1.0.",
    ),
    (
        "[prices.m]\noutput = inf",
        "`prices.m.output` must be a number at least 0 and at most 1,000,000, not inf.",
    ),
    (
        "[prices.m]\ncached = nan",
        "`prices.m.cached` must be a number at least 0 and at most 1,000,000, not nan.",
    ),
    (
        '[models."a/b".price]\ninput = -1.0',
        '`models."a/b".price.input` must be a number at least 0 and at most 1,000,000, not -1.0.',
    ),
    (
        '[models."a/b"]\nwindw = 1',
        '`models."a/b".windw` is not a setting; did you mean `models."a/b".window`?',
    ),
    (
        "[prices.m]\n[[prices.m.long]]\nabove_tokens = -5\nprice = {}",
        "`prices.m.long.above_tokens` must be a whole number at least 0, not -5. It stands in line 3.",
    ),
    ('[gateway]\nurl = "gateway.local"', "`gateway.url` must begin with https:// or http://."),
    (
        '[gateway]\nurl = "http://a\\u001b[2J"',
        "`gateway.url` holds a space or a character that cannot be seen.",
    ),
    ('[gateway]\nurl = "http://a:99999/v1"', "`gateway.url` has a host or a port that cannot be."),
    ('[gateway]\nurl = "http://[::1/v1"', "`gateway.url` has a host or a port that cannot be."),
    ('[gateway]\nurl = "http:///v1"', "`gateway.url` names no host."),
    ('[gateway]\nurl = "http://a/{prov}/v1"', "`gateway.url` may not hold braces but for {provider}, "),
    ('[gateway]\nkey_variable = "sk-1"', "`gateway.key_variable` must be the name of a variable, such as "),
    ('model = "a"\nmode = "auto"\nmodel = "b"', "`model` is set in line 1 and again (at line 3)."),
    ("[caps.turn]\nusd = 1\n\n[caps.turn]", "`caps.turn` is set in line 1 and again (at line 4)."),
    ("caps.turn.usd = 1\n[caps.turn]", "`caps.turn` is set in line 1 and again (at line 2)."),
    ('[prices."a.b"]\ninput = 1\ninput = 2', '`prices."a.b".input` is set in line 2 and again (at line 3).'),
    ("[[a.b]]\nc = 1\n[[a.b]]\nc = 1\nc = 2", "`a.b.c` is set in line 4 and again (at line 5)."),
    ("fallback = [\n1,\n]\n[a]\n[a.b]\n[a]", "`a` is set in line 4 and again (at line 6)."),
    ("[retry]\nwaits_s = [1.0, -2.0]", "`retry.waits_s` must be a number at least 0 and at most "),
    ("[retry]\ntotal_s = -1.0", "`retry.total_s` must be a number at least 0 and at most "),
    ("approval_timeout_s = inf", "`approval_timeout_s` must be a number more than 0 and at most "),
    ("[caps.day]\nusd = -1.0", "`caps.day.usd` must be a number at least 0, not -1.0."),
    ("[caps.session]\nusd = inf", "`caps.session.usd` must be a number at least 0, not inf."),
    ('[gateway]\nurl = "http://key@"', "`gateway.url` names no host. It stands in line 2."),
    ('[gateway]\nproviders = ["opnai"]', "`gateway.providers` must be of openai, anthropic, "),
    ("[[caps", "Expected "),
    ("a = " + "[" * 5000, "it is nested too deeply."),
    (
        "[retention]\nsessions_days = inf",
        "`retention.sessions_days` must be a number more than 0 and at most ",
    ),
    ("[audit]\nkeep_days = 1e300", "`audit.keep_days` must be a number more than 0 and at most 36,500, "),
    ("[daemon]\nresume_within_days = inf", "`daemon.resume_within_days` must be a number more than 0 "),
    ("model = ", "Invalid value (at "),
    ("format_version = 'x'", "format_version must be a whole number."),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_wrong_settings_are_told_with_what_was_meant(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_config({"MAINSPRING_HOME": str(tmp_path)})
    assert raised.value.message.startswith(f"{tmp_path / 'config.toml'} is not valid: {said}")


def test_settings_that_are_no_utf_8_are_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"model = 'caf\xe9'")
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read: it is not UTF-8 text") as raised:
        load_config({"MAINSPRING_HOME": str(tmp_path)})
    assert raised.value.remedy == "Save it as UTF-8."


def test_settings_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_bytes(b"\xef\xbb\xbfmodel = 'openai/x'")
    assert load_config({"MAINSPRING_HOME": str(tmp_path)}).model == "openai/x"


def test_settings_of_the_first_version_may_say_so(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("format_version = 1\nmodel = 'openai/x'")
    assert load_config({"MAINSPRING_HOME": str(tmp_path)}).model == "openai/x"


def test_a_wrong_key_of_a_rule_is_told_with_what_was_meant(tmp_path: Path) -> None:
    path = tmp_path / "approvals.toml"
    path.write_text('[[rule]]\nanswer = "deny"\n\n[[rule]]\nanswer = "deny"\ncomand = "git push"\n')
    with pytest.raises(ConfigError) as raised:
        load(path, source="user", home="/home/user")
    said = "`rule.comand` is not a setting; did you mean `rule.command`? It stands in line 6."
    assert raised.value.message.endswith(said)


def test_the_command_line_says_it_and_runs_nothing(old: Installation) -> None:
    path = old.settings / "config.toml"
    path.write_text(path.read_text().replace("max_running", "max_runing"))
    told = old.run("resume", code=2).stderr
    assert "did you mean `daemon.max_running`?" in told


def test_commands_that_only_look_go_on_with_the_defaults(old: Installation) -> None:
    healthy = old.run("sessions")
    path = old.settings / "config.toml"
    path.write_text("modle = 'x'\n")
    looked = old.run("sessions")
    assert looked.stdout == healthy.stdout != ""
    assert "did you mean `model`?" in looked.stderr
    session = looked.stdout.split()[0]
    assert old.run("show", session).stdout
    old.run("show", "--help")
    checks = json.loads(old.run("doctor", "--json", code=1).stdout)["checks"]
    assert [checks[0]["name"], checks[0]["is_ok"]] == ["settings", False]
    assert str(path) in checks[0]["found"]
    assert len(checks) > 1
