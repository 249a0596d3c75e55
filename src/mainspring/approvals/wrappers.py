"""Programs that run another program: what they would run, as far as it is written down.

`look_through` takes one simple command and gives the commands and scripts inside it. Options of a wrapper are
known by name; one that is not known here could swallow a word, so it makes the command opaque rather than
misread. Pure, and knows no parser.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence

import msgspec


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

    `opaque` says what is known only when it runs; `unreadable`, what is written in a way not known here.
    """

    commands: tuple[tuple[Argv, Assignments], ...] = ()
    scripts: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    keeps_outer: bool = False


class _Options(msgspec.Struct, frozen=True):
    """How a wrapper reads its command line: `flags` stand alone, `valued` take a value, then positionals."""

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
    "busybox": _Options(),
    "caffeinate": _Options("d i m s u", "t w"),
    "chroot": _Options("skip-chdir", "userspec groups", positionals=1),
    "chrt": _Options("b f i o r a v", "T P D", positionals=1),
    "command": _Options("p"),
    "coproc": _Options(assigns=True),
    "dbus-run-session": _Options("", "config-file dbus-daemon"),
    "doas": _Options("n s L", "u C a"),
    "env": _Options("i ignore-environment 0 null v debug -", "u unset C chdir", assigns=True),
    "exec": _Options("c l", "a"),
    "fakeroot": _Options("u", "l s i b"),
    "flock": _Options(
        "e x s n u o F v exclusive nonblock shared no-fork verbose", "w E timeout", positionals=1
    ),
    "ionice": _Options("t", "c n class classdata"),
    "linux32": _Options("R"),
    "linux64": _Options("R"),
    "ltrace": _Options("f c S C", "e o s p n"),
    "nice": _Options("", "n adjustment"),
    "noglob": _Options(),
    "nohup": _Options(),
    "npx": _Options("y yes no no-install q quiet", "p package"),
    "pipenv run": _Options(),
    "pipx run": _Options("", "spec python"),
    "pkexec": _Options("disable-internal-agent keep-cwd", "user"),
    "pnpm exec": _Options("r"),
    "poetry run": _Options("q v vv n"),
    "prlimit": _Options(),
    "setarch": _Options("R", positionals=1),
    "setsid": _Options("c f w ctty fork wait"),
    "stdbuf": _Options("", "i o e input output error"),
    "strace": _Options("f ff c t tt T y v q r i", "e o s p E u"),
    "sudo": _Options(
        "A b E e H K k l n P S s i V v preserve-env login shell stdin non-interactive set-home",
        "u g h p C T r t U D R user group host prompt chdir chroot",
        assigns=True,
    ),
    "systemd-run": _Options("user scope t P wait collect q pty pipe quiet", "u p unit property uid gid"),
    "taskset": _Options("c a", positionals=1),
    "time": _Options("p v a portability verbose append", "f o format output", assigns=True),
    "timeout": _Options("foreground preserve-status v verbose f p", "k s kill-after signal", positionals=1),
    "toybox": _Options(),
    "torsocks": _Options(),
    "unbuffer": _Options("p"),
    "unshare": _Options("i m n p u U C T f r c map-root-user fork user mount net pid"),
    "uv run": _Options(
        "q v isolated frozen locked no-sync no-project active quiet verbose offline",
        "with python p project directory extra group env-file package with-requirements",
    ),
    "uvx": _Options("q v isolated offline", "with from python p"),
    "xvfb-run": _Options("a auto-servernum", "n s server-args server-num"),
}
_XARGS = _Options(
    "0 null r no-run-if-empty t verbose p interactive x exit o open-tty",
    "n max-args P max-procs L max-lines d delimiter a arg-file E s max-chars I replace",
)
_WATCH = _Options(
    "b beep c color d differences e errexit g chgexit p precise t no-title x exec w no-wrap", "n interval q"
)
_PARALLEL = _Options(
    "0 null k keep-order v verbose eta bar r progress X m u dry-run", "j jobs n N a I d C S timeout"
)
_UNKNOWN_REST = Word("…", is_static=False)


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
    return Inner()


def _prefix(name: str, options: _Options, argv: Argv) -> Inner:
    rest, _, problem = _after_options(argv[1:], options)
    if problem:
        return Inner(unreadable=(f"{name}: {problem}",), keeps_outer=True)
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


def _env(argv: Argv) -> Inner:
    for at, word in enumerate(argv[1:], start=1):
        glued = re.match(r"(-\w*S|--split-string=?)(.*)", word.text, re.DOTALL)
        if glued:
            first = (Word(glued[2], is_static=word.is_static),) if glued[2] else ()
            return _joined(first + argv[at + 1 :], "what env splits is known only when it runs")
        if not word.text.startswith("-"):
            break
    return _prefix("env", _PREFIXES["env"], argv)


def _xargs(argv: Argv) -> Inner:
    rest, values, problem = _after_options(argv[1:], _XARGS)
    if problem:
        return Inner(unreadable=(f"xargs: {problem}",), keeps_outer=True)
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


def _watch(argv: Argv) -> Inner:
    rest, values, problem = _after_options(argv[1:], _WATCH)
    if problem:
        return Inner(unreadable=(f"watch: {problem}",), keeps_outer=True)
    if "x" in values or "exec" in values:
        return Inner(commands=((rest, ()),)) if rest else Inner()
    return _joined(rest, "what watch runs is known only when it runs")


def _parallel(argv: Argv) -> Inner:
    rest, _, problem = _after_options(argv[1:], _PARALLEL)
    if problem:
        return Inner(unreadable=(f"parallel: {problem}",), keeps_outer=True)
    stop = next((at for at, word in enumerate(rest) if word.text.startswith(":::")), len(rest))
    if not rest[:stop]:
        return Inner(opaque=("parallel runs its input as commands",), keeps_outer=True)
    script = _joined(rest[:stop], "what parallel runs is known only when it runs")
    return msgspec.structs.replace(
        script, scripts=tuple(re.sub(r"\{\S*?\}", '"$item"', text) + ' "$item"' for text in script.scripts)
    )


def _dash_c(argv: Argv) -> Inner:
    """`su -c TEXT`, `script -c TEXT`, `flock FILE -c TEXT`."""
    name = argv[0].program
    for at, word in enumerate(argv[1:], start=1):
        if word.text in ("-c", "--command"):
            return msgspec.structs.replace(
                _joined(argv[at + 1 : at + 2], f"what {name} runs is known only when it runs"),
                keeps_outer=True,
            )
        if re.match(r"-\w*c|--command=", word.text):
            return Inner(unreadable=(f"{name}: {word.text!r} cannot be read",), keeps_outer=True)
    if name == "flock":
        return _prefix(name, _PREFIXES["flock"], argv)
    return Inner(keeps_outer=True)


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
    "env": _env,
    "eval": _eval,
    "find": _find,
    "flock": _dash_c,
    "git": _git,
    "parallel": _parallel,
    "runuser": _dash_c,
    "script": _dash_c,
    "su": _dash_c,
    "trap": _trap,
    "watch": _watch,
    "xargs": _xargs,
}
