"""Ordered rules from `approvals.toml`, each with its own proof.

Within a file the first rule that fits answers, but a deny anywhere wins. A rule may carry `match` and
`not_match` examples; they are tried when the file is loaded, and a rule that does not do what its examples
say is a `ConfigError` naming file and rule. A project's file only tightens: `policy.Layered` sees to that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import msgspec

from mainspring.approvals import Answer, Effect, absolute
from mainspring.approvals.dangerous import DANGERS
from mainspring.approvals.patterns import Match, allows, host_matches, path_matches, restricts, words_of
from mainspring.approvals.program_options import named_by, options_of
from mainspring.approvals.shell import SimpleCommand, read
from mainspring.disk.formats import read_toml
from mainspring.disk.untrusted import read_untrusted_text
from mainspring.errors import ConfigError

_FORMAT = 1
_MAX_BYTES = 1 << 20


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[rule]]`. What it does not say, it does not care about.

    At most one of `command`, `path` and `host`. `accepts` names built-in dangers that an allow also covers.
    """

    answer: Answer
    """What the rule says: allow, ask or deny."""
    name: str = ""
    """A name for the rule, shown with what it decided."""
    reason: str = ""
    """Why; shown with a question and told to the model with a refusal."""
    tool: str = ""
    """The tool, by name or with `*`."""
    effect: Effect | None = None
    """The kind of effect of a call."""
    command: str = ""
    """A pattern of a command, in words: `pytest *`, `git status $`."""
    path: str = ""
    """A pattern of a path; `~` is the home folder, a relative one is in the workspace."""
    host: str = ""
    """A host, or `*.example.org`."""
    arguments: dict[str, str] = {}
    """Patterns of arguments of the call, by name: `{operation = "delete*"}`. All must fit."""
    cost_over_usd: float | None = None
    """Only what costs more than this."""
    cost_up_to_usd: float | None = None
    """Only what costs at most this."""
    accepts: tuple[str, ...] = ()
    """Built-in dangers that an allow also covers, by name."""
    match: tuple[str, ...] = ()
    """Examples that must fit; tried when the file is loaded."""
    not_match: tuple[str, ...] = ()
    """Examples that must not fit."""


class Rules(msgspec.Struct, frozen=True):
    """The rules of one file; `source` is `user`, `project` or `team`."""

    source: str = "user"
    rules: tuple[Rule, ...] = ()


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """One thing about a call that rules speak of: a simple command, a path, a host, or the call itself."""

    tool: str
    effect: Effect
    text: str
    cost_usd: float | None = 0.0
    simple: SimpleCommand | None = None
    paths: tuple[str | None, ...] = ()
    host: str = ""
    arguments: Mapping[str, Any] = {}
    is_opaque: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rule: tuple[Rule, ...] = ()


def load(path: Path, *, source: str, home: str) -> Rules:
    """The rules of a file, checked; none when there is no file."""
    try:
        root = path.parents[1] if source == "project" else None
        text = read_untrusted_text(path, max_bytes=_MAX_BYTES, root=root)
    except FileNotFoundError:
        return Rules(source)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}.", remedy="Rules must be readable UTF-8 text."
        ) from error
    return parse(text, source=source, home=home, file=str(path))


def parse(
    text: str, *, source: str = "user", home: str = "/home/user", file: str = "approvals.toml"
) -> Rules:
    """The rules of a text, checked."""
    found = read_toml(text, _File, file=Path(file), known=_FORMAT).rule
    return checked(Rules(source, found), home, file)


def checked(rules: Rules, home: str, file: str) -> Rules:
    """The rules; `ConfigError` names the one that is wrong, or does not do what its examples say."""
    for number, rule in enumerate(rules.rules, start=1):
        problem = _problem(rule, home)
        if problem:
            label = f"rule {number}" + (f" ({rule.name})" if rule.name else "")
            raise ConfigError(f"{file}, {label}: {problem}.", remedy="Correct the rule or its examples.")
    return rules


def warnings(rules: Rules) -> tuple[str, ...]:
    """What the rules of a file allow less than they seem to, a sentence each."""
    found: list[str] = []
    for number, rule in enumerate(rules.rules, start=1):
        words = words_of(rule.command)
        if rule.answer != "allow" or rules.source != "user" or not words or words[-1] == "$":
            continue
        for danger, options in options_of(words[0]).items():
            if danger not in accepted(rule):
                named = f" ({options})" if options else ""
                found.append(
                    f"Rule {rule.name or number} allows {words[0]}, but {DANGERS[danger].reason}{named}:"
                    f' that is still asked, unless the rule says accepts = ["{danger}"].'
                )
    return tuple(found)


def accepted(rule: Rule) -> tuple[str, ...]:
    """The dangers that an allow covers: those that it accepts, and what its own words say."""
    return (*rule.accepts, *named_by(words_of(rule.command)))


def fits(rule: Rule, subject: Subject, *, workspace: str, home: str) -> Match:
    """Whether a rule speaks of this subject. An allow never fits on a guess."""
    if rule.tool and not _glob(rule.tool, subject.tool):
        return "no"
    if rule.effect is not None and rule.effect != subject.effect:
        return "no"
    if not _cost_fits(rule, subject.cost_usd) or not _arguments_fit(rule, subject.arguments):
        return "no"
    match = _subject_fits(rule, subject, workspace, home)
    return "no" if match == "maybe" and rule.answer == "allow" else match


def first(rules: Rules, subject: Subject, *, workspace: str, home: str) -> tuple[Rule | None, str, Match]:
    """The rule that answers, its label, and how sure it is: a sure deny first, then the first in order."""
    hits: list[tuple[Rule, str, Match]] = [
        (rule, f"{rules.source}:{rule.name or number}", match)
        for number, rule in enumerate(rules.rules, start=1)
        if (match := fits(rule, subject, workspace=workspace, home=home)) != "no"
    ]
    denied = [hit for hit in hits if hit[0].answer == "deny"]
    sure = [hit for hit in denied if hit[2] == "yes"]
    return next(iter((*sure, *denied, *hits)), (None, "", "no"))


def _subject_fits(rule: Rule, subject: Subject, workspace: str, home: str) -> Match:
    if rule.command:
        return _command_fits(rule, subject)
    if rule.path:
        return _all_or_any(
            rule.answer,
            (path_matches(rule.path, path, workspace=workspace, home=home) for path in subject.paths),
        )
    if rule.host:
        return host_matches(rule.host, subject.host) if subject.host else "no"
    return "yes"


def _command_fits(rule: Rule, subject: Subject) -> Match:
    words = words_of(rule.command)
    if subject.simple is None:
        return "maybe" if subject.is_opaque else "no"
    if rule.answer == "allow":
        return "yes" if allows(words, subject.simple.argv) else "no"
    return _all_or_any(
        "deny", (restricts(words, argv) for argv in (subject.simple.argv, *subject.simple.via))
    )


def _all_or_any(answer: Answer, matches: Iterable[Match]) -> Match:
    found = list(matches)
    if answer == "allow":
        return "yes" if found and all(match == "yes" for match in found) else "no"
    return "yes" if "yes" in found else "maybe" if "maybe" in found else "no"


def _arguments_fit(rule: Rule, arguments: Mapping[str, Any]) -> bool:
    """A list fits an allow with all its items, and what asks or denies with any of them."""
    for name, pattern in rule.arguments.items():
        value = arguments.get(name)
        values: list[Any] = cast("list[Any]", value) if isinstance(value, list | tuple) else [value]
        fitting = [fnmatchcase(_text(each), pattern) for each in values if each is not None]
        if not (fitting and all(fitting) if rule.answer == "allow" else any(fitting)):
            return False
    return True


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _cost_fits(rule: Rule, cost_usd: float | None) -> bool:
    if rule.cost_over_usd is not None and cost_usd is not None and cost_usd <= rule.cost_over_usd:
        return False
    return rule.cost_up_to_usd is None or (cost_usd is not None and cost_usd <= rule.cost_up_to_usd)


def _glob(pattern: str, text: str) -> bool:
    return pattern == text or host_matches(pattern, text) == "yes"


def _problem(rule: Rule, home: str) -> str:
    """What is wrong with a rule, its examples included."""
    if sum(map(bool, (rule.command, rule.path, rule.host))) > 1:
        return "it may name only one of command, path and host"
    unknown = [name for name in rule.accepts if name not in DANGERS or DANGERS[name].answer == "deny"]
    if unknown:
        return f"it accepts {unknown[0]!r}, which is no danger that can be accepted"
    try:
        words_of(rule.command)
    except ValueError:
        return f"the quotes in {rule.command!r} do not close"
    try:
        return _wrong_example(rule, home)
    except msgspec.MsgspecError:
        return "an example of a rule about arguments must be a JSON object of arguments"


def _wrong_example(rule: Rule, home: str) -> str:
    for example in rule.match:
        if not _example_fits(rule, example, home):
            return f"it should match {example!r} and does not"
    for example in rule.not_match:
        if _example_fits(rule, example, home):
            return f"it should not match {example!r} and does"
    return ""


def _example_fits(rule: Rule, example: str, home: str) -> bool:
    """Whether a rule alone decides an example: an allow must cover all of it, others any part."""
    if rule.arguments and not (rule.command or rule.path or rule.host):
        return _arguments_fit(rule, msgspec.json.decode(example, type=dict[str, Any]))
    subjects = _example(rule, example, home)
    return (
        _all_or_any(rule.answer, (_subject_fits(rule, each, "/workspace", home) for each in subjects))
        == "yes"
    )


def _example(rule: Rule, example: str, home: str) -> list[Subject]:
    tool, effect = rule.tool or "tool", rule.effect or "execute"
    if rule.path:
        path = f"{home}{example[1:]}" if example.startswith("~/") else example
        return [Subject(tool=tool, effect=effect, text=example, paths=(absolute(path, cwd="/workspace"),))]
    if rule.host:
        return [Subject(tool=tool, effect=effect, text=example, host=example)]
    if not rule.command:
        return [Subject(tool=example, effect=effect, text=example)] if _glob(rule.tool, example) else []
    script = read(example)
    subjects = [Subject(tool=tool, effect=effect, text=each.text, simple=each) for each in script.commands]
    opaque = [
        Subject(tool=tool, effect=effect, text=why, is_opaque=True)
        for why in script.opaque + script.unreadable
    ]
    return subjects + opaque
