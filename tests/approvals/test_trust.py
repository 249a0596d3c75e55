"""One store for what projects bring: approved by content, asked again when it changes, revoked."""

from __future__ import annotations

import stat
from pathlib import Path

import msgspec
import pytest

from mainspring.approvals.trust import TrustFile, TrustSubject, changes
from mainspring.errors import ConfigError, FileTooNew

SUBJECT = TrustSubject(kind="mcp", path="/p/.mcp.json", name="a", text="command: x")


def test_nothing_is_approved_until_a_person_did_and_only_for_that_content(tmp_path: Path) -> None:
    file = TrustFile(tmp_path)
    assert file.state(SUBJECT) == "new"
    file.add(SUBJECT, now_us=1)
    assert TrustFile(tmp_path).state(SUBJECT) == "trusted"
    other = msgspec.structs.replace(SUBJECT, text="command: y")
    assert file.state(other) == "changed"
    assert file.state(msgspec.structs.replace(SUBJECT, kind="hook")) == "new"
    assert file.state(msgspec.structs.replace(SUBJECT, path="/q/.mcp.json")) == "new"
    assert "-command: x" in changes(SUBJECT.text, other.text)


def test_a_new_approval_ends_that_of_the_content_before(tmp_path: Path) -> None:
    file = TrustFile(tmp_path)
    file.add(SUBJECT, now_us=1)
    file.add(msgspec.structs.replace(SUBJECT, text="command: y"), now_us=2)
    assert file.state(SUBJECT) == "changed", "going back to what was approved once is asked again"


def test_an_approval_is_revoked_once(tmp_path: Path) -> None:
    file = TrustFile(tmp_path)
    kept = file.add(SUBJECT, now_us=1)
    assert file.revoke(kept.id)
    assert not file.revoke(kept.id)
    assert file.state(SUBJECT) == "new"


def test_the_file_is_private_and_a_damaged_or_newer_one_is_refused(tmp_path: Path) -> None:
    file = TrustFile(tmp_path)
    file.add(SUBJECT, now_us=1)
    path = tmp_path / "trust.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("{")
    with pytest.raises(ConfigError):
        file.state(SUBJECT)
    path.write_text('{"trusted": [], "format_version": 99}')
    with pytest.raises(FileTooNew):
        file.state(SUBJECT)
