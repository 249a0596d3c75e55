"""What `config.toml` may say about people: the log of commands, the team's policy, and logging in."""

from __future__ import annotations

from typing import Annotated

import msgspec

MOST_DAYS = 36_500
Days = Annotated[float, msgspec.Meta(gt=0, le=MOST_DAYS)]
"""How old something is that is dropped or no longer taken up."""


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The log of commands, which `mainspring audit` shows."""

    reads: bool = False
    """Also log commands that only look at something; refused ones are logged in any case."""
    required: bool = False
    """Refuse a command that cannot be logged, because the disk is full for instance; else it is done, and
    the problem is told."""
    keep_days: Days | None = None
    """Entries that are older are dropped once a day, as by `mainspring audit prune`; unset: none is."""


class PolicySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A team's policy in a signed file (`[policy]` in `config.toml`), besides the one of the database that
    machines share and `/etc/mainspring/policy.toml`."""

    file: str = ""
    """Where it is. Empty: there is none."""
    keys: tuple[str, ...] = ()
    """The public keys of those who may sign a policy that was not known before: ed25519:…. Empty: the first
    policy that is seen says whose it is, and later ones must be by the same."""


class LoginSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who vouches for people: an issuer of OpenID Connect (`[login]` in `config.toml`), for `mainspring
    login` and for tokens that come to `mainspring serve`."""

    issuer: str = ""
    """Its address, as it names itself: https, or http on this machine. Empty: nobody logs in."""
    client_id: str = ""
    """The client that was registered there for mainspring, with http://127.0.0.1/callback to return to."""
    client_secret_variable: str = ""
    """The variable that has the secret of that client; empty: it is a public client and has none."""
    audience: tuple[str, ...] = ()
    """Also take tokens that were made for these; those for `client_id` always count."""
    scopes: tuple[str, ...] = ("openid", "profile", "email", "offline_access")
    """What is asked for; those that the issuer says it does not know are left out."""
    name_claim: str = "email"
    """The claim that is somebody's name. `email` counts when the issuer says that it was verified; what is no
    address is `login:NAME`."""
    groups_claim: str = "groups"
    """The claim with the groups that somebody is in, for `claim:GROUP` of a policy."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0
    """The port of this machine that a browser comes back to; 0: any free one."""
