"""The built-in dangers: what is asked although a mode or a broad rule would let it run.

A danger that `holds_inside` destroys, publishes or reveals something even in a sandbox; the others are ways
around a rule, which matter only where rules are the guard. A rule or grant lifts a danger by naming it in
`accepts`; nothing lifts a `deny`. Pure functions of words and places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import msgspec

from mainspring.approvals import Answer
from mainspring.approvals.places import PathLocation, is_device, is_root_like, is_secret, is_startup
from mainspring.approvals.program_options import dangers_of_options, plain_name
from mainspring.approvals.shell import Redirect, SimpleCommand
from mainspring.approvals.wrappers import OTHER_SHELLS, SHELLS, Argv, Word
from mainspring.secrets.vault import PLACEHOLDER


class Danger(msgspec.Struct, frozen=True):
    name: str
    reason: str
    answer: Answer = "ask"
    holds_inside: bool = True


_ALL = (
    Danger("unreadable", "it cannot be read with certainty"),
    Danger("opaque", "what it runs cannot be known beforehand"),
    Danger("rm-root", "it would delete the system or a home", "deny"),
    Danger("disk", "it would overwrite a disk", "deny"),
    Danger("mode-root", "it would change permissions of the whole system or a home", "deny"),
    Danger("rm-outside", "it deletes something that is not surely inside the workspace"),
    Danger("push-force", "it rewrites or deletes what others have on the remote"),
    Danger("git-discard", "it throws away work that git cannot bring back"),
    Danger("find-delete", "it deletes whatever it finds"),
    Danger("privilege", "it runs with the rights of another user"),
    Danger("network-code", "it runs code that comes from the network"),
    Danger("startup", "it changes a file that runs code later by itself"),
    Danger("secret-path", "it touches a place where secrets are kept"),
    Danger("secret-value", "it uses the value of a secret"),
    Danger("network-device", "it opens a network connection by redirection"),
    Danger("schedule", "it takes effect later or again"),
    Danger("machine", "it stops the machine, its services or other processes"),
    Danger("find-exec", "find runs a command on whatever it finds", holds_inside=False),
    Danger("xargs", "xargs runs a command on whatever it reads", holds_inside=False),
    Danger("git-config", "it sets git options that can run programs", holds_inside=False),
    Danger("runs-program", "one of its options runs another program", holds_inside=False),
    Danger("inline-code", "it runs code written on the command line or read from a pipe", holds_inside=False),
    Danger("runs-named", "it runs a command or module that its words name", holds_inside=False),
    Danger("writes-file", "one of its options writes a file", holds_inside=False),
    Danger("wrapper", "it runs another program in a way that is not known here", holds_inside=False),
    Danger("environment", "it sets a variable that can change what runs", holds_inside=False),
    Danger("unknown-words", "some of its words are known only when it runs", holds_inside=False),
)
DANGERS = {danger.name: danger for danger in _ALL}

_HARMLESS = re.compile(
    r"LANG|LC_\w+|TZ|CI|TERM|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|VERBOSE|DEBUG|PYTHONUNBUFFERED"
    r"|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|RUST_BACKTRACE|RUST_LOG|SOURCE_DATE_EPOCH|DEBIAN_FRONTEND"
    r"|(?!.*_proxy$)[a-z_][a-z0-9_]*"
)
_READERS = frozenset(
    {"cat", "head", "tail", "less", "more", "grep", "rg", "ls", "stat", "wc", "diff", "file", "bat"}
)
_FETCHERS = frozenset(
    {"curl", "wget", "fetch", "aria2c", "http", "https", "nc", "ncat", "netcat", "socat", "ssh", "scp"}
)
_INTERPRETERS: dict[str, str] = {
    "python": "c", "python2": "c", "python3": "c", "pypy": "c", "perl": "eE", "ruby": "e", "node": "ep",
    "deno": "", "bun": "e", "php": "rBRE", "lua": "e", "Rscript": "e", "osascript": "e", "tclsh": "",
    "guile": "c",
}  # fmt: skip


def of_command(simple: SimpleCommand, place: PathLocation) -> set[str]:
    """The names of all dangers in a command and in what it was found inside of."""
    found = {name for argv in (simple.argv, *simple.via) for name in _of_argv(argv, place)}
    if any(not _HARMLESS.fullmatch(name) for name, _ in simple.assignments):
        found.add("environment")
    if simple.argv:
        found |= set(_of_input(simple))
    if simple.is_unknown:
        found.add("wrapper")
    texts = [*simple.argv, *(value for _, value in simple.assignments), simple.stdin or Word("")]
    if any(PLACEHOLDER.search(word.text) for word in texts):
        found.add("secret-value")
    return found


def of_redirect(redirect: Redirect, place: PathLocation) -> set[str]:
    """The names of all dangers in a redirection."""
    if redirect.target.text.startswith(("/dev/tcp/", "/dev/udp/")):
        return {"network-device"}
    return {
        name for path in place.paths(redirect.target) for name in of_path(path, is_write=redirect.is_write)
    }


def of_path(path: str | None, *, is_write: bool) -> set[str]:
    """The names of all dangers in touching a path."""
    found = {"secret-path"} if is_secret(path) else set[str]()
    if is_write and is_startup(path):
        found.add("startup")
    if is_write and is_device(path):
        found.add("disk")
    return found


_LONG = """
    force force-with-lease mirror delete prune hard discard-changes recursive no-preserve-root upload-pack
    receive-pack exec ext-diff extcmd textconv open-files-in-pager template config sendmail-cmd output eval"""
_LONG_OPTIONS = tuple(_LONG.split())
"""Options that the checks below look for, of whatever program."""


def _of_argv(argv: Argv, place: PathLocation) -> Iterator[str]:
    if not argv:
        return
    name = plain_name(argv[0].program)
    check = _CHECKS.get(name)
    if check is not None:
        yield from check(tuple(_spelled_out(word) for word in argv), place)
    yield from dangers_of_options(name, argv)
    if name.startswith("mkfs"):
        yield "disk"
    yield from _of_interpreter(name, argv)
    for word in argv[1:]:
        yield from _of_word(name, word, place)


def _of_word(name: str, word: Word, place: PathLocation) -> Iterator[str]:
    # What such quotes stand for is not spelled out here; a variable before a known place does not hide it.
    if not word.is_static and re.search(r"\$'[^']*\\", word.text):
        yield "unknown-words"
    if not word.is_static and is_secret(word.text):
        yield "secret-path"
    tail = Word(re.sub(r"^(?:--?[\w-]+=|\w+=|@|-[A-Za-z](?=[/~.]))", "", word.text), is_static=word.is_static)
    for path in (*place.paths(word), *place.paths(tail)):
        for danger in of_path(path, is_write=name not in _READERS):
            if danger != "disk":
                yield danger


def _of_interpreter(name: str, argv: Argv) -> Iterator[str]:
    letters = _INTERPRETERS.get(name)
    if letters is None:
        return
    pattern = rf"-\w*[{letters}]" if letters else r"\beval$"
    if any(
        re.match(pattern, word.text) or re.match(r"(?:--(?:eval|print)(?:=|$)|eval$)", word.text)
        for word in argv[1:]
    ):
        yield "inline-code"
    if len(argv) == 1 or argv[1].text == "-":
        yield "inline-code"


def _of_input(simple: SimpleCommand) -> Iterator[str]:
    """Code that an interpreter reads from a pipe, a substitution or the network."""
    name = simple.argv[0].program
    is_interpreter = name in SHELLS | OTHER_SHELLS or name.rstrip("0123456789.") in _INTERPRETERS
    if not (is_interpreter or name in (".", "source")):
        return
    words = [word for word in simple.argv[1:] if not word.text.startswith("-")]
    reads_input = not words or words[0].text == "/dev/stdin"
    if simple.upstream and reads_input:
        yield "network-code" if _FETCHERS.intersection(simple.upstream) else "inline-code"
    if any(word.text.startswith("<(") for word in words):
        is_fetched = any(re.search(rf"\b{fetcher}\b", word.text) for word in words for fetcher in _FETCHERS)
        yield "network-code" if is_fetched else "inline-code"


def _spelled_out(word: Word) -> Word:
    """Programs take the beginning of a long option for the whole: `--har` is `--hard`."""
    found = re.match(r"--([a-z][\w-]*)", word.text)
    if not found or found[1] in _LONG_OPTIONS:
        return word
    whole = next((option for option in _LONG_OPTIONS if option.startswith(found[1])), found[1])
    return Word(f"--{whole}{word.text[found.end() :]}", is_static=word.is_static)


def _flags(argv: Argv) -> set[str]:
    """Long options without values, and the letters of short ones."""
    found: set[str] = set()
    for word in argv[1:]:
        if word.text == "--":
            break
        if word.text.startswith("--"):
            found.add(word.text[2:].split("=", 1)[0])
        elif word.text.startswith("-"):
            found |= set(word.text[1:])
    return found


def _has(argv: Argv, pattern: str) -> bool:
    return any(re.match(pattern, word.text) for word in argv[1:])


def _is_vague(argv: Argv) -> bool:
    """Whether a word that is not known yet could be an option."""
    return any(not word.is_static and not re.match(r"[\w./~]", word.text) for word in argv[1:])


def _rm(argv: Argv, place: PathLocation) -> Iterator[str]:
    flags = _flags(argv)
    is_deep = bool(flags & {"r", "R", "recursive"}) or _is_vague(argv)
    targets = [word for word in argv[1:] if not word.text.startswith("-") or not word.is_static]
    if is_deep and any(is_root_like(path, place.home) for word in targets for path in place.paths(word)):
        yield "rm-root"
    if any(not place.is_inside(word) for word in targets):
        yield "rm-outside"
    if "no-preserve-root" in flags:
        yield "rm-root"


def _chmod(argv: Argv, place: PathLocation) -> Iterator[str]:
    if _flags(argv) & {"R", "recursive"}:
        if any(is_root_like(path, place.home) for word in argv[1:] for path in place.paths(word)):
            yield "mode-root"
        elif any(
            not place.is_inside(word) for word in argv[1:] if word.text.startswith(("/", "~", "$", ".."))
        ):
            yield "rm-outside"
    if _has(argv, r"[ug+,=\w]*\+\w*s|[2467][0-7]{3}$"):
        yield "privilege"


def _dd(argv: Argv, place: PathLocation) -> Iterator[str]:
    for word in argv[1:]:
        if word.text.startswith("of="):
            yield from of_path(place.paths(Word(word.text[3:], is_static=word.is_static))[0], is_write=True)


def _disk(argv: Argv, place: PathLocation) -> Iterator[str]:
    if any(is_device(path) for word in argv[1:] for path in place.paths(word)):
        yield "disk"


def _writer(argv: Argv, place: PathLocation) -> Iterator[str]:
    """cp, mv, tee and their kind: a device as the target is a disk overwritten."""
    words = [word for word in argv[1:] if not word.text.startswith("-")]
    if words and any(is_device(path) for path in place.paths(words[-1])):
        yield "disk"
    if argv[0].program == "mv" and any(
        is_root_like(path, place.home) for word in words for path in place.paths(word)
    ):
        yield "rm-root"


def _find(argv: Argv, place: PathLocation) -> Iterator[str]:
    if _has(argv, r"-(exec|execdir|ok|okdir)$"):
        yield "find-exec"
    if _has(argv, r"-delete$"):
        yield "find-delete"
    if any(not word.is_static for word in argv[1:]):
        yield "unknown-words"
    roots = [word for word in argv[1:] if word.text.startswith(("/", "~", "$", ".."))]
    if _has(argv, r"-delete$") and any(
        is_root_like(path, place.home) for word in roots for path in place.paths(word)
    ):
        yield "rm-root"


def _git(argv: Argv, place: PathLocation) -> Iterator[str]:
    words = argv[1:]
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        option = words[at].text
        at += 1
        if option == "-C" and at < len(words):
            if words[at].text != "." and not place.is_inside(words[at]):
                yield "git-config"
            at += 1
        elif re.match(r"-c|--(?:config-env|exec-path=|git-dir|work-tree|namespace|super-prefix)", option):
            yield "git-config"
            return
    if not words or at:
        return
    if not words[0].is_static:
        yield "push-force"
        return
    yield from _git_subcommand(words[0].text, argv[1:])


def _git_subcommand(name: str, argv: Argv) -> Iterator[str]:
    flags = _flags(argv)
    is_vague = any(not word.is_static for word in argv[1:])
    if name == "push" and (
        flags & {"f", "force", "force-with-lease", "mirror", "delete", "d", "prune"}
        or _has(argv, r"[+:]")
        or is_vague
    ):
        yield "push-force"
    if name == "clean" and (flags & {"f", "force"} or is_vague) and "n" not in flags:
        yield "git-discard"
    if name in ("reset", "checkout", "switch") and (flags & {"hard", "f", "force", "discard-changes"}):
        yield "git-discard"
    if (name == "checkout" and _has(argv, r"(--|\.)$")) or (name == "restore" and "staged" not in flags):
        yield "git-discard"
    if name in ("filter-branch", "filter-repo", "gc", "reflog", "update-ref") and len(argv) > 1:
        yield "git-discard"
    if name == "branch" and ("D" in flags or (flags & {"d", "delete"} and flags & {"f", "force"})):
        yield "git-discard"
    if name == "stash" and _has(argv, r"(drop|clear)$"):
        yield "git-discard"
    yield from _git_runs(name, argv, flags)


_GIT_RUNNERS = frozenset(
    {
        "hook", "mergetool", "difftool", "instaweb", "send-pack", "receive-pack", "upload-pack", "daemon",
        "shell", "remote-ext", "remote-fd", "http-backend", "filter-branch", "imap-send", "send-email",
        "web--browse", "cvsserver", "credential", "maintenance", "fsmonitor--daemon", "sh-setup",
        "for-each-repo",
    }
)  # fmt: skip


def _git_runs(name: str, argv: Argv, flags: set[str]) -> Iterator[str]:
    if name == "config" and not flags & {"get", "list", "l", "get-all", "get-regexp"} and len(argv) > 2:
        yield "git-config"
    if (
        name in _GIT_RUNNERS
        or _has(
            argv, r"--(?:\w+-pack|exec|ext-diff|textconv|open-files-in-pager|template)|-O\w|.*(?:ext|fd)::"
        )
        or (name == "grep" and _has(argv, r"-\w*O"))
        or (name == "clone" and _has(argv, r"-\w*[uc]|--config"))
        or (name in ("bisect", "submodule") and _has(argv, r"(run|foreach)$"))
        or (name == "rebase" and flags & {"exec", "x"})
    ):
        yield "runs-program"
    if _has(argv, r"--output") or (name in ("archive", "format-patch") and _has(argv, r"-o")):
        yield "writes-file"


def _always(danger: str) -> Callable[[Argv, PathLocation], Iterator[str]]:
    def check(argv: Argv, place: PathLocation) -> Iterator[str]:
        del argv, place
        yield danger

    return check


_CHECKS: dict[str, Callable[[Argv, PathLocation], Iterator[str]]] = {
    **dict.fromkeys(("alias", "ed", "red"), _always("inline-code")),
    "find": _find,
    "git": _git,
    "dd": _dd,
    **dict.fromkeys(("xargs", "parallel"), _always("xargs")),
    **dict.fromkeys(("rm", "rmdir", "unlink", "shred", "srm", "truncate"), _rm),
    **dict.fromkeys(("chmod", "chown", "chgrp", "setfacl"), _chmod),
    **dict.fromkeys(("cp", "mv", "tee", "install", "ln"), _writer),
    **dict.fromkeys(
        ("wipefs", "fdisk", "sfdisk", "parted", "sgdisk", "blkdiscard", "mkswap", "hdparm"), _disk
    ),
    **dict.fromkeys(
        ("sudo", "su", "doas", "pkexec", "runuser", "chroot", "nsenter", "setcap"), _always("privilege")
    ),
    **dict.fromkeys(("crontab", "at", "batch", "systemd-run", "anacron"), _always("schedule")),
    **dict.fromkeys(
        ("shutdown", "reboot", "halt", "poweroff", "killall", "pkill", "systemctl"), _always("machine")
    ),
    **dict.fromkeys(
        ("insmod", "modprobe", "rmmod", "sysctl", "mount", "umount", "kexec"), _always("machine")
    ),
}
