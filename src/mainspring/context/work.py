"""What helps a model before and after its own steps, as the settings say it (`[work]` in `config.toml`)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from mainspring.events import Profile


class WorkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a model is helped with its work (`[work]` in `config.toml`)."""

    profile: Profile | None = None
    """`small` or `standard`, whatever is known of the model; unset: by what is known of it."""
    priming: Literal["on", "off"] = "on"
    """Show the model what its task names before its first step: files by path, module, symbol or stack trace,
    the list of files of a small project, and the result of the tests that the task names."""
    priming_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Maximum tokens that are shown so, estimated; unset: 1500, or 1000 for small models."""
    after_change: Literal["affected", "off"] | None = None
    """Run the tests that changed files may affect after each step that changed any, and tell the model when
    their result is another one. Only what may run without asking is run; a run that takes too long is the
    last one of its session. Unset: `affected` for small models, else `off`."""
    alternatives: Literal["on", "off"] = "on"
    """Where tests still fail after a small model wrote whole files, try the lines that it nearly wrote, as
    its server tells them (`logprobs`), one after the other, and keep the first with which they pass."""
    delegate: Literal["on", "off", "tasks"] = "on"
    """Offer the model the tool `delegate`, which gives work to agents with a context of their own; with
    `tasks` also the tool `tasks`, which has a graph of tasks done by them (about 200 tokens more). Small
    models never have it."""
    documents: Literal["auto", "on", "off"] = "auto"
    """Offer the model the tool `document`, which makes and changes DOCX, XLSX and PDF files, by `find_tools`.
    `auto`: where the extra `documents` is installed and the workspace has such files."""
    kind_skills: bool = True
    """List mainspring's own short skills for the kind of project (Python, TypeScript, front end, API,
    database, testing, security), told by its files; small models are not shown them."""
    commit_messages: Literal["drafted", "said"] = "drafted"
    """Who writes the subjects of commits on a session's branch: the model of the tier `fast`, from the change
    and in the project's style, where one is set and is where the session's model is (or turns are routed);
    else, and with `said`, it is the first line of what you said."""
    index: Literal["auto", "on", "off"] = "auto"
    """Use the index of the repository (`mainspring index`; the daemon keeps those of recent sessions, and a
    session begun at a terminal makes that of its git repository of more than 40 files in the background): the
    tool `symbols`, for files that no language server knows, by `find_tools`, and the map. `auto`: where there
    is an index; `on`: also before there is one, which the first call then makes; `off`: not made either."""
    map_tokens: Annotated[int, msgspec.Meta(ge=0)] = 600
    """Maximum tokens, estimated, of a map of the repository in the first message of a session: what most of
    it uses. Only where there is an index of more than 40 files; small models are not shown it. 0: none."""
    test_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 10.0
    """Seconds that such a run may take; the tests that a task names get twice as long."""

    def tokens_to_prime(self, profile: Profile) -> int:
        return self.priming_tokens or (1000 if profile == "small" else 1500)

    def is_testing_changes(self, profile: Profile) -> bool:
        return (self.after_change or ("affected" if profile == "small" else "off")) == "affected"


UNASSISTED = WorkSettings(
    priming="off", after_change="off", delegate="off", kind_skills=False, index="off", commit_messages="said"
)
