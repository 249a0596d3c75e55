"""Options by which an ordinary program runs another one or writes a file: one table.

A rule or grant for `tar` does not mean `tar --to-command=…`: such an option is asked about unless it was
accepted by name. Long options count when they are shortened, letters when they stand in a cluster. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from mainspring.approvals.wrappers import Argv, Word

RUNS, WRITES, CODE, NAMED = "runs-program", "writes-file", "inline-code", "runs-named"


class _Kind(msgspec.Struct, frozen=True):
    """Some programs that share a danger: in these `options`, or in a word that fits the pattern `words`."""

    programs: str
    danger: str
    options: str = ""
    words: str = ""


_TABLE = (
    _Kind("tar bsdtar", RUNS, "--to-command --checkpoint-action --use-compress-program --rsh-command"
          " --rmt-command --info-script --new-volume-script -I -F"),
    _Kind("split", RUNS, "--filter"),
    _Kind("sort", RUNS, "--compress-program"),
    _Kind("sort shuf tree iconv yq", WRITES, "-o --output"),
    _Kind("less more most zless", RUNS, "-k --lesskey-file --lesskey-src --lesskey-content", r"\+"),
    _Kind("less zless", WRITES, "-o -O --log-file --LOG-FILE"),
    _Kind("man", RUNS, "-P --pager -H --html -C --config-file -X", r"\+"),
    _Kind("bat batcat ag", RUNS, "--pager"),
    _Kind("rg", RUNS, "--pre --hostname-bin"),
    _Kind("fd fdfind", RUNS, "-x -X --exec --exec-batch"),
    _Kind("find", WRITES, "-fprint -fprint0 -fprintf -fls"),
    _Kind("zip", RUNS, "-TT --unzip-command"),
    _Kind("zip", RUNS, words=r"-\w*T\w*T"),
    _Kind("rsync", RUNS, "-e -M --rsh --rsync-path --remote-option --daemon"),
    _Kind("ssh scp sftp", RUNS, "-o -F -I -S -D", r".*(?:ProxyCommand|LocalCommand|KnownHostsCommand)"),
    _Kind("ssh", WRITES, "-E"),
    _Kind("make gmake", RUNS, "-f --file --makefile -E --eval -I --include-dir",
          r"(?:SHELL|\.SHELLFLAGS|MAKEFLAGS|MAKEFILES)\s*[:+?!]*=|[\w.]+[:+?!]*=.*[^\w.:,+-]"),
    _Kind("ninja samu", RUNS, "-f"),
    _Kind("cmake", RUNS, "-P -E"),
    _Kind("go", RUNS, "-toolexec -exec -vettool -overlay -modfile", r"(?:generate|tool|-w)$"),
    _Kind("cargo", RUNS, "--config -Z", r"\+"),
    _Kind("npm pnpm yarn npx", RUNS, "--script-shell --node-options --userconfig --globalconfig --prefix"
          " --shell --pnpmfile --global-pnpmfile --use-yarnrc"),
    _Kind("npm pnpm yarn", RUNS, "-c --call", r"(?:c|config|set|explore|init|innit|create|edit)$"),
    _Kind("socat", RUNS, words=r"(?i)(?:exec|system|shell):"),
    _Kind("gcc g++ cc c++ clang clang++", RUNS, "-wrapper -fplugin -specs --specs -B -fuse-ld -load"),
    _Kind("pylint", RUNS, "--init-hook --load-plugins --rcfile"),
    _Kind("hg", RUNS, "--config", r"(?:bisect|extdiff)$"),
    _Kind("svn", RUNS, "--diff-cmd --diff3-cmd --editor-cmd --config-option --config-dir"),
    _Kind("gradle gradlew", RUNS, "-I --init-script"),
    _Kind("apt apt-get", RUNS, "-o -c --option --config-file"),
    _Kind("curl", WRITES, "-o -O -J -K -D -c --output --remote-name --remote-name-all --config --dump-header"
          " --cookie-jar --libcurl --trace --trace-ascii --etag-save --stderr --hsts --alt-svc"),
    _Kind("wget", RUNS, "-e --execute --use-askpass --config"),
    _Kind("tcpdump", RUNS, "-z"),
    _Kind("tcpdump", WRITES, "-w"),
    _Kind("openssl", RUNS, "-engine -provider -provider-path"),
    _Kind("openssl", WRITES, "-out"),
    _Kind("node", CODE, "-r --require --import --loader --experimental-loader"),
    _Kind("enable", RUNS, "-f"),
    _Kind("sqlite3", RUNS, "-cmd -init",
          r"(?is)(?:.*\n)?\s*\.[a-z]|.*(?:load_extension|writefile|edit)\s*\("),
    _Kind("psql", RUNS, "-f -o -L --file --output --log-file", r"(?is).*(?:\\[!a-z]|\bprogram\b)"),
    _Kind("mysql mariadb", RUNS, "--pager --tee --init-command",
          r"(?is).*(?:\\[!a-z]|\bsystem\b|\boutfile\b)"),
    _Kind("awk gawk mawk nawk", RUNS, "-f -l -i -E --file --load --include --exec"),
    _Kind("awk gawk mawk nawk", WRITES, "-o -p -d --pretty-print --profile --dump-variables"),
    _Kind("awk gawk mawk nawk", CODE,
          words=r"(?s).*(?:\b(?:system|getline)\b|\bprintf?\b.*[>|]|@)"),
    _Kind("sed", RUNS, "-f --file"),
    _Kind("sed perl yq", WRITES, "-i --in-place --inplace"),
    _Kind("ex vi vim view vimdiff nvim emacs gdb expect", CODE, words=r"[-+]"),
    _Kind("docker podman", "privilege", "--privileged --pid -v --volume --mount"),
    _Kind("docker podman nerdctl kubectl oc lxc incus flatpak", NAMED, words=r"(?:exec|run|debug)$"),
    _Kind("ip", NAMED, words=r"e(?:x(?:ec?)?)?$"),
    _Kind("adb machinectl vagrant", NAMED, words=r"(?:shell|ssh)$"),
    _Kind("python pypy", NAMED, "-m"),
    _Kind("ssh", NAMED),
    _Kind("printf", "environment", "-v"),
    _Kind("kill", "machine", words=r"(?:-1|1)$"),
    _Kind("mainspring", "schedule", words=r"(?:schedule|fire|daemon|--background)$"),
    _Kind("let declare typeset printf test [ read mapfile readarray", CODE, words=r"(?s).*(?:\$\(|`)"),
)  # fmt: skip

_BY_PROGRAM: dict[str, list[_Kind]] = {}
for _kind in _TABLE:
    for _program in _kind.programs.split():
        _BY_PROGRAM.setdefault(_program, []).append(_kind)


def dangers_of_options(name: str, argv: Argv) -> Iterator[str]:
    """The dangers in the words of a command of this program."""
    kinds = _BY_PROGRAM.get(name, ())
    words = argv[1:]
    for kind in kinds:
        if any(_is_meant(kind, word.text) for word in words):
            yield kind.danger
    if kinds and any(_could_be_option(word) for word in words):
        yield "unknown-words"
    if name in ("tar", "bsdtar") and words and re.match(r"\w*[IF]", words[0].text):
        yield RUNS  # its oldest way to give options has no dash
    if name == "ssh" and _has_remote_command(words):
        yield NAMED
    if name == "sed" and not all(map(_is_harmless_sed, _sed_scripts(words))):
        yield CODE


def plain_name(program: str) -> str:
    """The name of a program without the version that Python's have."""
    return re.sub(r"(?<=[a-z])[\d.]+$", "", program) if re.match(r"python|pypy", program) else program


def named_by(words: tuple[str, ...]) -> tuple[str, ...]:
    """The danger that a rule takes on because its own words say so, as `python3 -m pytest` does."""
    argv = tuple(map(Word, words))
    return (NAMED,) if argv and NAMED in dangers_of_options(plain_name(words[0]), argv) else ()


def options_of(name: str) -> dict[str, str]:
    """The options of a program that run programs or write files, by danger; for people."""
    found: dict[str, str] = {}
    for kind in _BY_PROGRAM.get(plain_name(name), ()):
        if kind.danger in (RUNS, WRITES, CODE, NAMED):
            found[kind.danger] = f"{found.get(kind.danger, '')} {kind.options}".strip()
    return found


def _is_meant(kind: _Kind, text: str) -> bool:
    if kind.words and re.match(kind.words, text):
        return True
    name = text.split("=", 1)[0]
    for option in kind.options.split():
        if option.startswith("--"):
            if len(name) > 2 and option.startswith(name):
                return True
        elif len(option) > 2:
            if name in (option, f"-{option}"):
                return True
        elif re.match(rf"-[A-Za-z0-9]*{option[1]}", text):
            return True
    return False


def _has_remote_command(words: Argv) -> bool:
    """Whether ssh is told more than a host."""
    at = 0
    while at < len(words) and words[at].text.startswith("-"):
        at += 2 if re.fullmatch(r"-[46AaCfGgKkMNnqsTtVvXxYy]*[BbcDEeFIiJLlmOopQRSWw]", words[at].text) else 1
    return at + 1 < len(words)


def _could_be_option(word: Word) -> bool:
    """Whether a word that is not known yet, or stands for names of files, could become an option."""
    return not word.is_plain and not re.match(r"[\w./~]", word.text)


_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/I?)"
_SED_COMMAND = re.compile(
    rf"[\s;]*(?:{_ADDRESS}(?:\s*,\s*(?:[+~]?\d+|{_ADDRESS}))?)?\s*!?\s*"
    r"(?:[pdDnNgGhHxPlz=]|[qQ]\d*|[aic][^\n]*|[{}]"
    r"|s([^\w\s\\])(?:(?!\1)[^\\\n]|\\.)*\1(?:(?!\1)[^\\\n]|\\.)*\1[gpiIM\d]*"
    r"|y([^\w\s\\])(?:(?!\2)[^\\\n]|\\.)*\2(?:(?!\2)[^\\\n]|\\.)*\2)[ \t]*(?=[;\n}]|\Z|(?<=\{))"
)


def _is_harmless_sed(script: Word) -> bool:
    """Whether a script of sed only prints, deletes and replaces lines."""
    text, at = script.text, 0
    while at < len(text) and text[at:].strip(" \t\n;"):
        found = _SED_COMMAND.match(text, at)
        if found is None or found.end() == at:
            return False
        at = found.end()
    return script.is_static


def _sed_scripts(words: Argv) -> list[Word]:
    scripts: list[Word] = []
    files: list[Word] = []
    is_next = False
    for word in words:
        glued = re.match(r"--?e(?:xpression)?=(.*)|-[nErsuz]*e(.+)", word.text, re.DOTALL)
        if is_next:
            scripts.append(word)
        elif glued:
            scripts.append(Word(glued[1] or glued[2] or "", is_static=word.is_static))
        elif not word.text.startswith("-"):
            files.append(word)
        is_next = not is_next and bool(re.fullmatch(r"-[nErsuz]*e|--e\w*", word.text))
    return scripts or files[:1]
