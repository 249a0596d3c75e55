"""How the options of a goal are written down in a schedule: as words that `goal start` takes, so that a
person can read and correct the file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.app.goals import DEFAULT_PROFILE, GoalOptions
from mainspring.errors import ConfigError, UsageError
from mainspring.events import Evaluation, GoalChecks, GoalRules, Target

# Flags of limits, by the name of the rule; those of the pace are written last.
_LIMITS = {
    "max_cost_usd": "--max-cost-usd",
    "max_tokens": "--max-tokens",
    "max_time_s": "--max-time",
    "max_idle_iterations": "--max-idle",
    "max_failures": "--max-failures",
    "max_refusals": "--max-refusals",
    "stall_s": "--stall",
    "iteration_steps": "--iteration-steps",
    "attempts": "--attempts",
    "iteration_cost_usd": "--iteration-cost-usd",
    "iteration_time_s": "--iteration-time",
}
_PACE = {
    "max_iterations": "--max-iterations",
    "wait_s": "--wait-seconds",
    "max_wait_s": "--max-wait-seconds",
}
_RULES = {**_LIMITS, **_PACE}
_UNPRICED = "--allow-unpriced"
_HOME = "--allow-home"
_OTHERS = (
    "--profile --engine --model --effort --mode --sandbox --on --check --file --target --evaluate --repeats"
    " --frozen --results --minimize --maximize --memory --notify"
)
FLAGS = frozenset((*_RULES.values(), *_OTHERS.split(), _UNPRICED, _HOME))
_TARGET = re.compile(r"\s*([\w.:/%-]+)\s*(<=|>=|==|<|>)\s*(-?[\d.]+(?:[eE][+-]?\d+)?)\s*")


def arguments_of(options: GoalOptions) -> tuple[str, ...]:
    """The options as words; those that a schedule keeps apart (folder, mode, by) are left out."""
    return tuple(word for words in _words(options) for word in words)


def options_of(arguments: Sequence[str]) -> GoalOptions:
    """The options that such words ask for."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    rest = iter(arguments)
    for word in rest:
        value = "" if word in (_UNPRICED, _HOME) else next(rest, None)
        if word not in FLAGS or value is None:
            raise ConfigError(f"A schedule has the unknown option {word!r}.")
        found[word].append(value)
    return GoalOptions(
        profile=_last(found["--profile"]) or DEFAULT_PROFILE,
        engine=_last(found["--engine"]),
        checks=GoalChecks(
            commands=tuple(found["--check"]),
            files=tuple(found["--file"]),
            targets=tuple(map(parse_target, found["--target"])),
        ),
        rules=_rules(found),
        evaluation=Evaluation(
            command=_last(found["--evaluate"]),
            repeats=int(_last(found["--repeats"]) or 0),
            frozen=tuple(found["--frozen"]),
            results=tuple(found["--results"]),
            better="lower" if found["--minimize"] else "higher" if found["--maximize"] else "",
            metric=_last(found["--minimize"]) or _last(found["--maximize"]),
        ),
        memory=_last(found["--memory"]),
        model=next(iter(found["--model"]), ""),
        fallback=tuple(found["--model"][1:]),
        effort=_last(found["--effort"]) or None,  # pyright: ignore[reportArgumentType]
        mode=_last(found["--mode"]),
        sandbox=_last(found["--sandbox"]),
        machine=_last(found["--on"]),
        allow_unpriced=_UNPRICED in found,
        allow_home=_HOME in found,
        notify=tuple(found["--notify"]),
    )


def parse_target(text: str) -> Target:
    """A metric to reach, as `time<=1.5`."""
    found = _TARGET.fullmatch(text)
    if found is None:
        raise UsageError(f"The target {text!r} cannot be read.", remedy='Write it as "time<=1.5".')
    return Target(metric=found[1], relation=found[2], value=float(found[3]))  # pyright: ignore[reportArgumentType]


def _words(options: GoalOptions) -> Iterator[tuple[str, ...]]:
    evaluation, checks = options.evaluation, options.checks
    profile = "" if options.profile == DEFAULT_PROFILE else options.profile
    yield from _flag("--profile", profile)
    yield from _flag("--engine", options.engine)
    yield from _flag("--model", options.model, *options.fallback)
    yield from _flag("--effort", options.effort or "")
    yield from _flag("--sandbox", options.sandbox)
    yield from _flag("--on", options.machine)
    yield from _flag("--check", *checks.commands)
    yield from _flag("--file", *checks.files)
    yield from _flag("--target", *(f"{each.metric}{each.relation}{each.value!r}" for each in checks.targets))
    yield from ((flag, str(options.rules[name])) for name, flag in _LIMITS.items() if name in options.rules)
    yield from _flag("--evaluate", evaluation.command)
    yield from _flag("--repeats", str(evaluation.repeats or ""))
    yield from _flag("--frozen", *evaluation.frozen)
    yield from _flag("--results", *evaluation.results)
    yield from _flag("--minimize" if evaluation.better == "lower" else "--maximize", evaluation.metric)
    yield from _flag("--memory", options.memory)
    yield from _flag("--notify", *options.notify)
    if options.allow_unpriced:
        yield (_UNPRICED,)
    if options.allow_home is True:
        yield (_HOME,)
    yield from ((flag, str(options.rules[name])) for name, flag in _PACE.items() if name in options.rules)


def _flag(flag: str, *values: str) -> Iterator[tuple[str, str]]:
    return ((flag, value) for value in values if value)


def _rules(found: dict[str, list[str]]) -> dict[str, float]:
    given = {name: found[flag][-1] for name, flag in _RULES.items() if flag in found}
    try:
        read = msgspec.convert(given, GoalRules, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"A schedule has an invalid limit: {error}.") from error
    return {name: getattr(read, name) for name in given}


def _last(values: list[str]) -> str:
    return values[-1] if values else ""
