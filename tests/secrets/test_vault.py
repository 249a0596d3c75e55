"""Secrets never get out, and files come back as they were."""

from __future__ import annotations

import base64
import html
import json
import re
import stat
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.disk.shared_files import LocalFiles
from mainspring.secrets.screen import plain
from mainspring.secrets.vault import PLACEHOLDER, Vault, is_secret_name, open_vault, secret_variables

KEY = "sk-proj-" + "a1B2" * 8
TOKEN = "gh" + "p_" + "Ab1" * 12
PEM = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIabc+/\n" * 20 + "-----END RSA PRIVATE KEY-----"
KNOWN = {
    "DB_PASSWORD": "correct horse battery",
    "SHORT": "abc",
    "API_TOKEN": "xyzzy-plugh-42",
    "SAME": "secret",
}

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *KNOWN.values(),
                KEY,
                TOKEN,
                PEM,
                "correct horse",
                "xyzzy-",
                " ",
                "\n",
                "__secret_",
                "__",
                "Bearer ",
                "https://me:hunter22@host/x",
                "MY_PASSWORD=hunter2hunter2",
                "hunter2hunter2",
                "-----BEGIN ",
            ]
        ),
        st.text(max_size=12),
    ),
    max_size=12,
)


def secrets_of(text: str) -> list[str]:
    return [value for value in (*KNOWN.values(), KEY, TOKEN, PEM) if len(value) >= 6 and value in text]


@settings(max_examples=300, deadline=None)
@given(PIECES)
def test_a_redacted_text_expands_to_exactly_what_it_was(pieces: list[str]) -> None:
    vault, text = Vault(KNOWN), "".join(pieces)
    hidden = vault.redact(text)
    assert vault.expand(hidden) == text
    assert vault.redact(hidden) == hidden
    assert not secrets_of(PLACEHOLDER.sub("", hidden))


@settings(max_examples=300, deadline=None)
@given(PIECES, st.lists(st.integers(1, 40), min_size=1, max_size=30))
def test_a_secret_split_across_pieces_is_hidden_all_the_same(pieces: list[str], sizes: list[int]) -> None:
    vault, text = Vault(KNOWN), "".join(pieces)
    stream, shown, at = vault.stream(), "", 0
    while at < len(text):
        size = sizes[at % len(sizes)]
        shown += stream.feed(text[at : at + size])
        at += size
    shown += stream.end()
    assert vault.expand(shown) == text
    assert not secrets_of(PLACEHOLDER.sub("", shown))


def test_a_stream_lets_ordinary_text_through_as_it_comes() -> None:
    stream = Vault(KNOWN).stream()
    assert stream.feed("one two three four ") == "one two "
    assert stream.end() == "three four "


def test_a_script_without_spaces_is_shown_as_it_comes_and_hides_its_secrets() -> None:
    vault = Vault({"A": "密码是一二三四"})
    stream = vault.stream()
    assert stream.feed("今天天气很好") == "今天天气很好"
    assert stream.feed("密码是") + stream.feed("我的") == "密码是我的"
    shown = "".join(map(stream.feed, "。密码是一二三四。PASSWORD=密密密密密密密 ok 好好")) + stream.end()
    assert PLACEHOLDER.sub("#", shown) == "。#。PASSWORD=# ok 好好"


def test_a_line_that_is_over_is_not_held_back() -> None:
    stream = Vault(KNOWN).stream()
    assert stream.feed("12 of 40 tests\n") == "12 of 40 tests\n"
    assert stream.feed("13 of 40") == "13 "


def test_a_stream_without_any_space_is_not_held_for_ever() -> None:
    stream = Vault(KNOWN).stream()
    shown = "".join(stream.feed("x" * 10_000) for _ in range(20))
    assert 100_000 < len(shown) < 200_000
    assert shown + stream.end() == "x" * 200_000


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        TOKEN,
        PEM,
        "AKIA" + "ABCDEFGH12345678",
        "Authorization: Bearer abcdefghijklmnopqrstuvwxyz",
        "postgres://me:pa55word@db/x",
        "STRIPE=sk_live_" + "a" * 24,
        "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abcdefghijkl",
        "AWS_SECRET=abcdefghijklmnop",
    ],
)
def test_strings_that_look_like_keys_are_hidden(text: str) -> None:
    hidden = Vault().redact(text)
    assert PLACEHOLDER.search(hidden)
    assert len(PLACEHOLDER.sub("", hidden)) < len(text)


@pytest.mark.parametrize(
    "text", ["token = get_token()", "sk-learn", "password: str", "https://host:80/x", "a" * 64]
)
def test_ordinary_code_is_left_alone(text: str) -> None:
    assert Vault(KNOWN).redact(text) == text


def test_a_learned_secret_is_hidden_wherever_it_comes_again() -> None:
    vault = Vault()
    vault.redact("MY_PASSWORD=hunter2hunter2")
    assert "hunter2" not in vault.redact("login with hunter2hunter2 please")


def test_encoded_forms_of_a_known_value_are_hidden() -> None:
    value = 'p"a s/s\n1234'
    vault = Vault({"X": value})
    for form in (json.dumps({"x": value}), base64.b64encode(value.encode()).decode(), "p%22a%20s%2Fs%0A1234"):
        assert PLACEHOLDER.search(vault.redact(form))
        assert vault.expand(vault.redact(form)) == form


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=7), st.binary(max_size=7), st.sampled_from(["xyzzy-plugh-42", "p?~>x~~?é?\xff~1"]))
def test_base64_and_hexadecimal_digits_are_hidden_wherever_the_value_begins(
    before: bytes, after: bytes, value: str
) -> None:
    vault, whole = Vault({"X": value}), before + value.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode, bytes.hex, lambda data: data.hex().upper()):
        encoded = encode(whole)
        text = encoded if isinstance(encoded, str) else encoded.decode()
        hidden = vault.redact(f"x = {text};")
        assert vault.expand(hidden) == f"x = {text};"
        left = PLACEHOLDER.sub("", hidden.removeprefix("x = "))
        assert len(left) <= 2 * len(before + after) + 8, hidden


FORMS = [
    form
    for value in ("xyzzy-plugh-42", "correct horse battery", 'p"a s/sé\n1234', "sk-proj-" + "a1B2" * 8)
    for form in (
        value,
        json.dumps(value)[1:-1],
        quote(value, safe=""),
        quote_plus(value).lower() if value.isascii() else quote(value),
        base64.b64encode(b"ab" + value.encode()).decode(),
        base64.urlsafe_b64encode(b"a" + value.encode()).decode(),
        value.encode().hex(),
        value.encode().hex().upper(),
    )
]


@pytest.mark.parametrize("form", sorted(set(FORMS)))
def test_a_secret_is_hidden_at_whatever_place_a_stream_is_cut(form: str) -> None:
    known = {"A": "xyzzy-plugh-42", "B": "correct horse battery", "C": 'p"a s/sé\n1234'}
    text = f"the key is {form} and more words"
    whole = Vault(known | {"D": "sk-proj-" + "a1B2" * 8}).redact(text)
    assert PLACEHOLDER.search(whole), whole
    for cut in range(len(text) + 1):
        vault = Vault(known | {"D": "sk-proj-" + "a1B2" * 8})
        stream = vault.stream()
        shown = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.end()
        assert vault.expand(shown) == text
        assert PLACEHOLDER.sub("#", shown) == PLACEHOLDER.sub("#", whole)
    stream = Vault(known | {"D": "sk-proj-" + "a1B2" * 8}).stream()
    shown = "".join(map(stream.feed, text)) + stream.end()
    assert PLACEHOLDER.sub("#", shown) == PLACEHOLDER.sub("#", whole)


LED = ("Bearer abcDEF123456abcDEF123456zz", "X_TOKEN=abcdef123456", f"AccountKey={'aB3d' * 12}==")


@pytest.mark.parametrize("text", [f"it is {each}\n\nand more" for each in LED])
@pytest.mark.parametrize("size", [1, 3, 7, 20, 34])
def test_what_is_known_by_what_stands_before_it_is_hidden_in_a_stream(text: str, size: int) -> None:
    vault = Vault({"MY_KEY": "s3cr3t-Value-123456789"})
    stream = vault.stream()
    shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.end()
    assert shown == vault.redact(text) != text


def test_what_is_known_by_what_stands_behind_it_is_not_parted_from_that() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----"
    stream = Vault({}).stream()
    shown = stream.feed(f"https://u:passw0rd@h/xxxxxxxxword {key}") + stream.end()
    assert "passw0rd" not in shown


LONG = "sk-proj-" + "a1B2c3D4" * 24


@pytest.mark.parametrize("columns", [4, 20, 60, 64, 76])
@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\n    ", "\\n"])
@pytest.mark.parametrize("encode", [base64.b64encode, lambda data: data.hex().encode()])
def test_digits_broken_into_lines_are_hidden_and_come_back(
    columns: int, line_break: str, encode: Callable[[bytes], bytes]
) -> None:
    for before in (b"", b'{"user": "me", "key": "', b"x" * 50):
        digits = encode(before + LONG.encode() + b'"}').decode()
        lines = [digits[at : at + columns] for at in range(0, len(digits), columns)]
        text = f"data: {line_break.join(lines)}\nend of it"
        vault = Vault({"MY_KEY": LONG})
        hidden = vault.redact(text)
        assert vault.expand(hidden) == text
        assert len(PLACEHOLDER.sub("", re.sub(r"\s|\\n", "", hidden))) < 2 * len(before) + 40, hidden
        assert "MY_KEY" in hidden
        assert vault.holds_secrets(text.encode())
        for size in (1, 5, 80):
            stream = Vault({"MY_KEY": LONG}).stream()
            shown = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size))
            assert PLACEHOLDER.sub("#", shown + stream.end()) == PLACEHOLDER.sub("#", hidden)


def test_single_words_in_lines_are_shown_as_they_come() -> None:
    stream = Vault({"MY_KEY": LONG}).stream()
    assert "step-1\nstep-2\n" in stream.feed("step-1\nstep-2\nstep-3\nstep-4\n")


@pytest.mark.parametrize("is_lower", [True, False])
def test_a_value_within_a_page_or_all_in_percents_is_hidden(is_lower: bool) -> None:
    value = 'xyzzy+/<&"-42'
    percents = "".join(f"%{byte:02x}" if is_lower else f"%{byte:02X}" for byte in value.encode())
    encoded = quote(base64.b64encode(b"ab?>" + value.encode()).decode(), safe="")
    for form in (percents, html.escape(value), html.escape(value, quote=False), 'xyzzy+\\/<&\\"-42', encoded):
        assert len(PLACEHOLDER.sub("", Vault({"X": value}).redact(form))) < 14, form


@pytest.mark.parametrize("value", ["true", "admin", "1234", "password", "localhost", "100000"])
def test_common_words_are_not_hidden_though_a_variable_for_secrets_holds_them(value: str) -> None:
    text = f"{value} {value.encode().hex()} {base64.b64encode(value.encode()).decode()}"
    assert Vault(secret_variables({"MY_TOKEN": value})).redact(text) == text


def test_arguments_expand_after_decoding_and_stay_valid() -> None:
    vault = Vault({"X": 'a"b\n1234'})
    arguments = json.loads(json.dumps({"content": [vault.redact('k = a"b\n1234')], "n": 1}))
    assert vault.expand_all(arguments) == {"content": ['k = a"b\n1234'], "n": 1}


def test_a_restored_vault_understands_its_old_placeholders_and_a_new_one_says_it_does_not() -> None:
    old = Vault(KNOWN)
    hidden = old.redact(f"key {KEY}")
    assert Vault(kept=old.kept()).expand(hidden) == f"key {KEY}"
    fresh = Vault(KNOWN)
    assert fresh.expand(hidden) == hidden
    assert fresh.unresolved(hidden) == tuple(PLACEHOLDER.findall(hidden))
    assert old.unresolved(hidden) == ()


def test_names_that_hold_secrets_are_recognised() -> None:
    assert all(map(is_secret_name, ("OPENAI_API_KEY", "GH_TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY")))
    assert not any(map(is_secret_name, ("PATH", "AUTHOR", "HOME", "EDITOR", "TOKEN_FILE")))


@pytest.mark.parametrize(
    ("value", "is_hidden"),
    [
        ("hunter2!", True),
        ("CorrectHorse", True),
        ("abcdefghijklmnop", True),
        ("a1b2c3d4", True),
        ("password", False),
        ("oauth-bearer", False),
        ("100000", False),
        ("1000000000", False),
        ("true", False),
        ("/run/user/1000/agent.sock", False),
        ("https://auth.example.com/login", False),
        ("https://me:pa55word@example.com", True),
        ("", False),
    ],
)
def test_a_value_is_hidden_only_when_it_looks_like_a_secret(value: str, is_hidden: bool) -> None:
    assert bool(secret_variables({"MY_TOKEN": value})) == is_hidden
    assert not secret_variables({"EDITOR": value})


def test_a_vault_keeps_privately_what_it_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    environment = {"MY_TOKEN": "xyzzy-plugh-42", "OTHER_TOKEN": "never-seen-1234567890"}
    vault = open_vault(LocalFiles(tmp_path), environment)
    vault.save()
    assert not path.exists()
    hidden = vault.redact("it is xyzzy-plugh-42")
    assert not vault.is_saved
    vault.save()
    assert vault.is_saved
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"never-seen" not in path.read_bytes()
    assert open_vault(LocalFiles(tmp_path), {}).expand(hidden) == "it is xyzzy-plugh-42"
    assert open_vault(LocalFiles(tmp_path), environment).redact("xyzzy-plugh-42") in hidden


def test_terminal_escapes_become_visible() -> None:
    shown = plain("\x1b]0;owned\x07\x1b[2Jok\r\nnext\rover\tx\x9b1m\u202egpj\x7f\u200b")
    assert shown == "␛]0;owned␇␛[2Jok\nnext␍over\tx<U+009B>1m<U+202E>gpj␡<U+200B>"


@given(st.text())
def test_nothing_shown_can_steer_a_terminal(text: str) -> None:
    assert not any(ord(sign) < 0x20 and sign not in "\n\t" for sign in plain(text))
    assert plain(plain(text)) == plain(text)
