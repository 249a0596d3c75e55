"""Ids of sessions: made before there is anything of that name."""

from __future__ import annotations

import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id() -> str:
    """Ten characters, none of which looks like another."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(10))
