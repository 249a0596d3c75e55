"""What `[review]` in `config.toml` says about reviews, and about asking a person because of risk."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainspring.events import Severity

SENSITIVE: dict[str, tuple[str, ...]] = {
    "CI configuration": (
        ".github/workflows/**",
        ".github/actions/**",
        ".gitlab-ci.yml",
        ".circleci/**",
        ".ci/**",
        ".buildkite/**",
        "Jenkinsfile",
        "azure-pipelines*.yml",
    ),
    "authentication": (
        "**/auth/**",
        "**/auth.*",
        "**/*_auth.*",
        "**/auth_*",
        "**/oauth*",
        "**/login*",
        "**/permissions.*",
    ),
    "migrations": ("**/migrations/**", "**/alembic/versions/**", "**/db/migrate/**"),
    "lock files": (
        "**/*.lock",
        "**/package-lock.json",
        "**/npm-shrinkwrap.json",
        "**/pnpm-lock.yaml",
        "**/go.sum",
    ),
}
"""What counts as sensitive, unless the settings say otherwise."""


class ReviewSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether work is reviewed before it counts as done, and when a person is asked about a change."""

    before_done: bool | Literal["sensitive"] = False
    """Have an agent with a fresh context review what a turn (or a goal) changed before it is done: `true`, or
    `"sensitive"` for changes of sensitive paths only. What it finds must be put right first."""
    refuse_at: Severity = "medium"
    """The least severity of a verified finding that keeps work from being done: high, medium or low."""
    rounds: Annotated[int, msgspec.Meta(ge=1, le=10)] = 2
    """How often the work is sent back; then the turn fails with what is left."""
    model: str = ""
    """The model that reviews before work is done; by default that of the session."""
    max_cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """What one such review may cost, in US dollars; it also counts against the caps of the session."""
    ask: Literal["off", "land", "write"] = "land"
    """When a person is asked because of risk: before a session's branch lands, or also before a file at a
    sensitive path is written, in every mode."""
    risk_limit: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    """The score from which a person is asked before a branch lands; 0: by the session's mode (ask 80, edits
    60, auto 40, yolo never)."""
    sensitive: dict[str, tuple[str, ...]] = {}
    """Paths about which a person is asked in any case, by what they are: `auth = ["src/auth/**"]`. They take
    the place of the built-in ones: CI configuration, authentication, migrations and lock files."""

    @property
    def sensitive_paths(self) -> dict[str, tuple[str, ...]]:
        return self.sensitive or SENSITIVE
