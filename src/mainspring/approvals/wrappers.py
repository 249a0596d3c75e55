"""Programs that run another program: what they would run, as far as it is written down.

`look_through` takes one simple command and gives the commands and scripts inside it. A wrapper is looked
through only with options that are known to be harmless. With any other, and for wrappers that are not known
so well, all in its words that could be a command is a guess: it can forbid the call, and never allows it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec

from mainspring.patterns import lazy_pattern


class Word(msgspec.Struct, frozen=True):
    """An argument. `is_static`: its text is its value. `is_glob`: it may become several file names."""

    text: str
    is_static: bool = True
    is_glob: bool = False

    @property
    def is_plain(self) -> bool:
        return self.is_static and not self.is_glob

    @property
    def program(self) -> str:
        return posixpath.basename(self.text) if self.is_plain else ""


Argv = tuple[Word, ...]
Assignments = tuple[tuple[str, Word], ...]


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    """What a command runs: argument lists and texts of shell.

    `guesses` and `guessed_scripts` may be what it runs, when it is a wrapper that `is_unknown`. `opaque` says
    what is known only when it runs; `unreadable`, what is written in a way not known here.
    """

    commands: tuple[tuple[Argv, Assignments], ...] = ()
    scripts: tuple[str, ...] = ()
    guesses: tuple[Argv, ...] = ()
    guessed_scripts: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    keeps_outer: bool = False
    is_unknown: bool = False


class _Options(msgspec.Struct, frozen=True):
    """The harmless options of a wrapper: `flags` stand alone, `valued` take a value, then positionals."""

    flags: str = ""
    valued: str = ""
    positionals: int = 0
    assigns: bool = False

    def is_flag(self, name: str) -> bool:
        return name in self.flags.split()

    def is_valued(self, name: str) -> bool:
        return name in self.valued.split()


SHELLS = frozenset({"bash", "sh", "dash", "ash", "ksh", "mksh", "rbash"})
OTHER_SHELLS = frozenset({"zsh", "fish", "csh", "tcsh", "nu", "pwsh", "xonsh", "elvish"})

_PREFIXES: dict[str, _Options] = {
    "builtin": _Options(),
    "command": _Options("p"),
    "env": _Options("i ignore-environment v debug -", "u unset", assigns=True),
    "exec": _Options(),
    "ionice": _Options("t ignore", "c n class classdata"),
    "nice": _Options("", "n adjustment"),
    "nohup": _Options(),
    "pipenv run": _Options(),
    "poetry run": _Options("q v n"),
    "setsid": _Options("c f w ctty fork wait"),
    "stdbuf": _Options("", "i o e input output error"),
    "sudo": _Options("n E H non-interactive", "u g user group", assigns=True),
    "time": _Options("p v portability verbose", assigns=True),
    "timeout": _Options("foreground preserve-status v verbose f p", "k s kill-after signal", positionals=1),
    "uv run": _Options("q v quiet verbose frozen locked no-sync offline"),
}
_OTHER_WRAPPERS = lazy_pattern(
    r"""(?x) (?:aa-exec | bwrap | busybox | caffeinate | capsh | catchsegv | cgexec | chpst | chroot | chronic
    | chrt | coproc | daemonize | dbus-run-session | doas | dumb-init | eatmydata | entr | fakeroot | faketime
    | firejail | flock | gosu | hyperfine | ifne | linux32 | linux64 | ltrace | newgrp | noglob | nsenter
    | numactl | npx | parallel | perf | pipx | pkexec | pnpx | proot | prlimit | proxychains4? | rlwrap | rr
    | run-parts | runuser | screen | script | setarch | setpriv | sg | softlimit | start-stop-daemon | strace
    | su | systemd-run | taskset | tini | tmux | torsocks | toybox | tsocks | unbuffer | unshare | uvx
    | valgrind | watch | xvfb-run)(?:\ .*)?
    | (?:npm|pnpm|yarn|bun)\ (?:exec|x|dlx)
    | (?:uv|poetry|pipenv|pdm|hatch|rye|conda|mamba|pixi|direnv|bundle|mise|asdf)\ (?:run|exec|tool|shell)"""
)
_XARGS = _Options(
    "0 null r no-run-if-empty t verbose p interactive x exit",
    "n max-args P max-procs L max-lines d delimiter E s max-chars I replace",
)
_UNKNOWN_REST = Word("…", is_static=False)
_MAX_GUESSES = 60


def look_through(argv: Argv, *, stdin: Word | None = None) -> Inner:
    """What this command would run in its place; nothing when it runs itself."""
    if not argv:
        return Inner()
    name = argv[0].program
    if name in SHELLS:
        return _shell(argv, stdin)
    if name in OTHER_SHELLS:
        return Inner(unreadable=(f"what {name} does is not readable here",), keeps_outer=True)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(argv)
    second = f"{name} {argv[1].text}" if len(argv) > 1 and argv[1].is_plain else ""
    if second in _PREFIXES:
        return _prefix(second, _PREFIXES[second], argv[1:])
    if name in _PREFIXES:
        return _prefix(name, _PREFIXES[name], argv)
    if _OTHER_WRAPPERS.fullmatch(second or name):
        return _guessed(argv)
    return Inner()


def _guessed(argv: Argv, *unreadable: str) -> Inner:
    """All that the words of a wrapper could run: any word may be the program, any text a script."""
    words = argv[1 : _MAX_GUESSES + 1]
    first = next((word for word in words if not word.text.startswith("-")), None)
    glued = [re.sub(r"^(?:--?[\w-]+=|-\w|\|)", "", word.text) for word in words if word.is_static]
    is_dynamic = first is not None and not first.is_plain
    is_long = len(argv) > len(words) + 1
    return Inner(
        guesses=tuple(argv[at:] for at in range(1, len(words) + 1)),
        guessed_scripts=tuple(text for text in glued if re.search(r"\S\s+\S", text)),
        opaque=(f"what {argv[0].program} runs is known only when it runs",) if is_dynamic else (),
        unreadable=(*unreadable, *(["it has more words than are looked at"] if is_long else [])),
        keeps_outer=True,
        is_unknown=True,
    )


def _prefix(name: str, options: _Options, argv: Argv) -> Inner:
    rest, _, problem = _after_options(argv[1:], options)
    if problem:
        return _guessed(argv, *([f"{name}: {problem}"] if "could be" in problem else []))
    rest = rest[options.positionals :]
    assignments: list[tuple[str, Word]] = []
    while options.assigns and rest and re.match(r"[A-Za-z_]\w*=", rest[0].text):
        key, value = rest[0].text.split("=", 1)
        assignments.append((key, Word(value, is_static=rest[0].is_static)))
        rest = rest[1:]
    return Inner(commands=((rest, tuple(assignments)),)) if rest else Inner()


def _after_options(words: Argv, options: _Options) -> tuple[Argv, dict[str, Word], str]:
    """The words behind the options, the options' values, and why the options cannot be read."""
    values: dict[str, Word] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if not word.is_plain and not word.text.startswith(("/", "./")):
            return (), values, f"{word.text!r} could be an option"
        if not word.text.startswith("-") or word.text == "-":
            break
        at += 1
        if word.text == "--":
            break
        name, value = _split_option(word.text, options)
        if name is None:
            return (), values, f"the option {word.text!r} is not known"
        if options.is_valued(name) and value is None:
            if at >= len(words):
                return (), values, f"the option {word.text!r} lacks its value"
            values[name] = words[at]
            at += 1
        else:
            values[name] = Word(value or "")
    return words[at:], values, ""


def _split_option(text: str, options: _Options) -> tuple[str | None, str | None]:
    """The name of an option and the value glued to it; no name when it is not known."""
    if text.startswith("--"):
        name, equals, value = text[2:].partition("=")
        known = options.is_flag(name) or options.is_valued(name)
        return (name if known and len(name) > 1 else None), (value if equals else None)
    if options.is_flag(text[1:]) or (text[1:].isdigit() and options.is_valued("n")):
        return text[1:], ""
    for position, letter in enumerate(text[1:], start=1):
        if options.is_valued(letter):
            return letter, text[position + 1 :] or None
        if not options.is_flag(letter):
            return None, None
    return text[1], ""


def _shell(argv: Argv, stdin: Word | None) -> Inner:
    """`sh -c TEXT`, or a shell that reads its commands from a heredoc; a script file is left as it is."""
    name = argv[0].program
    wants_text, at = False, 1
    while at < len(argv) and argv[at].is_plain and re.match(r"[-+]\S", argv[at].text):
        flag = argv[at].text
        at += 1
        if flag == "--":
            break
        if flag.startswith("--"):
            at += flag in ("--rcfile", "--init-file")
            continue
        wants_text = wants_text or (flag.startswith("-") and "c" in flag)
        at += ("o" in flag) + ("O" in flag)
    rest = argv[at:]
    if rest and not rest[0].is_plain:
        return Inner(opaque=(f"what {name} runs is known only when it runs",), keeps_outer=True)
    if wants_text:
        return Inner(scripts=(rest[0].text,)) if rest else Inner()
    if stdin is not None and (not rest or rest[0].text in ("-", "/dev/stdin") or "s" in argv[at - 1].text):
        if stdin.is_static:
            return Inner(scripts=(stdin.text,), keeps_outer=True)
        return Inner(opaque=(f"what {name} reads is known only when it runs",), keeps_outer=True)
    return Inner()


def _joined(words: Sequence[Word], why: str) -> Inner:
    if not words:
        return Inner()
    if any(not word.is_static for word in words):
        return Inner(opaque=(why,), keeps_outer=True)
    return Inner(scripts=(" ".join(word.text for word in words),))


def _eval(argv: Argv) -> Inner:
    words = argv[2:] if len(argv) > 1 and argv[1].text == "--" else argv[1:]
    return _joined(words, "what eval runs is known only when it runs")


def _trap(argv: Argv) -> Inner:
    words = argv[2:] if len(argv) > 1 and argv[1].text == "--" else argv[1:]
    if len(words) < 2 or words[0].text in ("-", "") or words[0].text.startswith("-"):
        return Inner()
    return _joined(words[:1], "what trap runs is known only when it runs")


def _command(argv: Argv) -> Inner:
    is_query = len(argv) > 1 and argv[1].is_plain and re.fullmatch(r"-p?[vV]+", argv[1].text)
    return Inner() if is_query else _prefix("command", _PREFIXES["command"], argv)


def _xargs(argv: Argv) -> Inner:
    rest, values, problem = _after_options(argv[1:], _XARGS)
    if problem:
        return _guessed(argv, f"xargs: {problem}")
    if not rest:
        return Inner()
    replaced = values.get("I") or values.get("replace")
    mark = replaced.text if replaced is not None else ""
    if mark:
        return Inner(commands=((_with_mark(rest, mark), ()),))
    return Inner(commands=(((*rest, _UNKNOWN_REST), ()),))


def _with_mark(words: Argv, mark: str) -> Argv:
    return tuple(Word(word.text, is_static=False) if mark in word.text else word for word in words)


def _find(argv: Argv) -> Inner:
    """Each `-exec … ;` of find, with `{}` unknown."""
    commands: list[tuple[Argv, Assignments]] = []
    at = 1
    while at < len(argv):
        at += 1
        if argv[at - 1].text not in ("-exec", "-execdir", "-ok", "-okdir"):
            continue
        end = next((i for i in range(at, len(argv)) if argv[i].text == ";"), None)
        plus = next(
            (i for i in range(at, len(argv)) if argv[i].text == "+" and argv[i - 1].text == "{}"), None
        )
        stops = [stop for stop in (end, plus) if stop is not None]
        stop = min(stops, default=len(argv))
        if argv[at:stop]:
            commands.append((_with_mark(argv[at:stop], "{}"), ()))
        at = stop
    return Inner(commands=tuple(commands), keeps_outer=True)


def _git(argv: Argv) -> Inner:
    """`git -C there -c a=b push` runs `git push`."""
    valued = (
        "-c",
        "-C",
        "--git-dir",
        "--work-tree",
        "--namespace",
        "--exec-path",
        "--config-env",
        "--attr-source",
    )
    at = 1
    while at < len(argv) and argv[at].text.startswith("-"):
        at += 2 if argv[at].text in valued else 1
    return Inner(commands=(((argv[0], *argv[at:]), ()),)) if 1 < at < len(argv) else Inner()


_SPECIAL: dict[str, Callable[[Argv], Inner]] = {
    "command": _command,
    "eval": _eval,
    "find": _find,
    "git": _git,
    "trap": _trap,
    "xargs": _xargs,
}
