"""The table of attacks and faults that every rung must hold, or list as a gap in its report.

An attack is a bash script in the workspace. It prints ESCAPED when it got what it wanted; the secrets it
may find contain LEAKED. After it, the ground outside the workspace and every protected path must be as
before. An attack `in_home` works in a home folder with our settings and data in it. Variables: OUT (a
folder outside), SECRETS (a home), VICTIM (a process of ours), TCP, UDP, ABSTRACT and SOCKET (where we
listen).
"""

from __future__ import annotations

import msgspec

from mainspring.sandbox import ProcessLimits

MIB = 1024 * 1024


class Attack(msgspec.Struct, frozen=True, kw_only=True):
    """`gap` names the guarantee that must be listed as missing where the attack succeeds.

    `stopped` and `exit_codes` are what the result must say, where it matters.
    """

    name: str
    script: str
    gap: str = ""
    timeout_s: float = 30.0
    limits: ProcessLimits = ProcessLimits()
    stopped: str = ""
    exit_codes: tuple[int, ...] = ()
    in_home: bool = False


def _attack(name: str, script: str, gap: str = "") -> Attack:
    return Attack(name=name, script=script, gap=gap or name)


def _in_home(name: str, script: str) -> Attack:
    return Attack(name=f"home-{name}", script=script, gap=f"home-{name}", in_home=True)


def _python(code: str) -> str:
    return f"python3 - <<'CODE'\n{code}\nCODE"


def _syscall(number: str, *arguments: str) -> str:
    call = ", ".join((number, *arguments))
    return _python(
        "import ctypes, os, platform\n"
        "x = platform.machine() == 'x86_64'\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"if libc.syscall({call}) >= 0: print('ESCAPED')"
    )


def _connect(family: str, kind: str, address: str, says: str = "ESCAPED") -> str:
    return _python(
        "import os, socket\n"
        f"s = socket.socket(socket.{family}, socket.{kind}); s.settimeout(2)\n"
        f"s.connect({address}); s.send(b'hello'); print('{says}')"
    )


# By its name alone: the whole path of a socket may be too long for the kernel.
_IN_FOLDER = "[os.chdir(os.path.dirname(os.environ['SOCKET'])), 'socket'][1]"

WRITES = [
    _attack("write-outside", "echo x > $OUT/new && echo ESCAPED"),
    _attack("overwrite-outside", "echo x > $OUT/file && echo ESCAPED"),
    _attack("append-to-shell-rc", "echo x >> $SECRETS/.bashrc && echo ESCAPED"),
    _attack("write-etc", ": >> /etc/hostname && echo ESCAPED"),
    _attack("write-usr-bin", ": >> /usr/lib/os-release && echo ESCAPED"),
    _attack("write-by-symlink", "ln -s $OUT/file l; echo x > l && echo ESCAPED"),
    _attack("write-by-folder-symlink", "ln -s $OUT d; echo x > d/new && echo ESCAPED"),
    _attack("write-by-dots", "echo x > ../outside/new && echo ESCAPED"),
    _attack("write-by-proc-cwd", "echo x > /proc/self/cwd/../outside/new && echo ESCAPED"),
    _attack("write-by-proc-root", "echo x > /proc/self/root/$OUT/new && echo ESCAPED"),
    _attack("write-by-init-root", "echo x > /proc/1/root/$OUT/new && echo ESCAPED"),
    _attack("hardlink-outside", "ln $OUT/file h && echo x > h && echo ESCAPED"),
    _attack("hardlink-secret", "ln $SECRETS/.ssh/id h && cat h"),
    _attack("move-outside-in", "mv $OUT/file here && echo ESCAPED"),
    _attack("move-inside-out", "echo x > f; mv f $OUT/new && echo ESCAPED"),
    _attack("delete-outside", "rm $OUT/file && echo ESCAPED"),
    _attack("truncate-outside", "truncate -s 0 $OUT/file && echo ESCAPED"),
    _attack("change-modes-outside", "chmod 777 $OUT/file && echo ESCAPED"),
    _attack("rename-workspace", "cd ..; mv work other && echo ESCAPED"),
    _attack(
        "exchange-race",
        _python(
            "import os, threading\n"
            "os.mkdir('a'); out = os.environ['OUT']\n"
            "def swap():\n"
            "    for _ in range(300):\n"
            "        os.rename('a', 'b'); os.symlink(out, 'a'); os.unlink('a'); os.rename('b', 'a')\n"
            "t = threading.Thread(target=swap); t.start()\n"
            "while t.is_alive():\n"
            "    try: open('a/new', 'w').close()\n"
            "    except OSError: pass\n"
            "print('ESCAPED' if os.path.exists(out + '/new') else 'held')"
        ),
    ),
    _attack("make-setuid", "cp /bin/true s; chmod u+s s; [ -u s ] && echo ESCAPED"),
    _attack("make-setgid", "cp /bin/true s; chmod g+s s; [ -g s ] && echo ESCAPED"),
    _attack("make-device", "mknod d b 254 0 && echo ESCAPED; mknod c c 1 1 && echo ESCAPED"),
]

KERNEL = [
    _attack("remount-root", "mount -o remount,rw / && echo ESCAPED"),
    _attack("mount-tmpfs", "mkdir m; mount -t tmpfs none m && echo ESCAPED"),
    _attack("bind-mount", "mount --bind $OUT . && echo ESCAPED"),
    _attack("unmount-mask", "umount /etc/shadow && cat /etc/shadow && echo ESCAPED"),
    _attack("unmount-hooks", "umount .git/hooks && echo ESCAPED"),
    _attack("new-user-namespace", "unshare -Ur true && echo ESCAPED"),
    _attack("new-user-namespace-and-mount", "unshare -Urm mount -t tmpfs none /mnt && echo ESCAPED"),
    _attack("nested-bubblewrap", "bwrap --ro-bind / / true && echo ESCAPED"),
    _attack("chroot", "chroot / true && echo ESCAPED"),
    _attack("enter-namespaces", "nsenter -t 1 -m true && echo ESCAPED"),
    _attack("become-root", _python("import os\nos.setuid(0)\nprint('ESCAPED' if os.geteuid() else 'held')")),
    _attack("gain-capabilities", "grep -q 'CapEff:.*[1-9a-f]' /proc/self/status && echo ESCAPED"),
    _attack("io-uring", _syscall("425", "8", "ctypes.create_string_buffer(200)")),
    _attack("keyring", _syscall("250 if x else 219", "0", "-3", "0")),
    _attack("bpf", _syscall("321 if x else 280", "0", "ctypes.create_string_buffer(200)", "128")),
    _attack(
        "perf-events",
        _syscall(
            "298 if x else 241",
            "ctypes.create_string_buffer(b'\\1\\0\\0\\0\\200' + bytes(123), 128)",
            "0",
            "-1",
            "-1",
            "0",
        ),
    ),
    _attack("userfaultfd", _syscall("323 if x else 282", "1")),
    _attack("open-by-handle", _syscall("304 if x else 265", "-100", "ctypes.create_string_buffer(200)", "0")),
    _attack("new-mount-api", _syscall("430", "b'tmpfs'", "0")),
    _attack("write-sysctl", ": >> /proc/sys/kernel/core_pattern && echo ESCAPED"),
    _attack("write-sysfs", ": >> /sys/kernel/profiling && echo ESCAPED"),
    _attack("sysrq", ": >> /proc/sysrq-trigger && echo ESCAPED"),
    _attack(
        "write-cgroup",
        "find /sys/fs/cgroup -name cgroup.procs -writable 2>/dev/null | while read f; do"
        " echo $$ > $f && echo ESCAPED; break; done",
    ),
    _attack(
        "read-disk",
        "for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c1 $d | grep -q . && echo ESCAPED; done",
    ),
    _attack("read-kernel-log", "head -c1 /dev/kmsg && echo ESCAPED"),
    _attack("read-memory", "head -c1 /dev/mem && echo ESCAPED"),
    _attack(
        "type-into-terminal",
        _python(
            "import fcntl, os, pty, termios\n"
            "m, s = pty.openpty()\n"
            "fcntl.ioctl(s, termios.TIOCSTI, b'x'); print('ESCAPED')"
        ),
    ),
]

SECRETS = [
    _attack("read-shadow", "cut -d: -f2 /etc/shadow && echo ESCAPED"),
    _attack("read-env-above", "cat ../.env ../.env.local"),
    _attack("read-key-in-workspace", "cat deep/id_ed25519", "read-env-file"),
    _attack("read-private-key", "cat deep/server.pem", "read-env-file"),
    _attack("move-private-key", "mv deep/server.pem k; cat k; mv deep d; cat d/server.pem", "read-env-file"),
    _attack("read-secrets-file", "cat secrets.toml deep/secrets.yaml", "read-env-file"),
    _attack("read-ssh-key", "cat $SECRETS/.ssh/id"),
    _attack("read-cloud-keys", "cat $SECRETS/.aws/credentials"),
    _attack("read-netrc", "cat $SECRETS/.netrc"),
    _attack("read-gh-token", "cat $SECRETS/.config/gh/hosts.yml"),
    _attack("read-browser-profile", "cat $SECRETS/.mozilla/firefox/logins.json"),
    _attack("read-keyring", "cat $SECRETS/.local/share/keyrings/login.keyring"),
    _attack("read-secret-by-symlink", "ln -s $SECRETS/.ssh/id l; cat l"),
    _attack("read-secret-by-proc", "cat /proc/1/root$SECRETS/.ssh/id /proc/self/root$SECRETS/.ssh/id"),
    _attack("read-secret-by-copy", "cp -r $SECRETS copy; cat copy/.ssh/id copy/.netrc"),
    _attack("chmod-mask", "chmod 777 $SECRETS/.ssh; cat $SECRETS/.ssh/id", "change-modes-outside"),
    _attack("read-env-file", "cat .env"),
    _attack("read-nested-env-file", "cat deep/.env.local", "read-env-file"),
    _attack("environment-leak", "env"),
    _attack("environment-of-others", "cat /proc/*/environ | tr '\\0' '\\n'"),
    _attack("environment-of-victim", "cat /proc/$VICTIM/environ | tr '\\0' '\\n'"),
    _attack(
        "descriptors-of-others", "for f in /proc/$VICTIM/fd/*; do cat $f <&- && echo ESCAPED; break; done"
    ),
    _attack("inherited-descriptors", "[ $(ls /proc/self/fd | wc -l) -gt 4 ] && echo ESCAPED"),
    _attack("preloaded-code", '[ -z "$LD_PRELOAD$BASH_ENV$PYTHONSTARTUP" ] || echo ESCAPED'),
]

NETWORK = [
    _attack("tcp-out", _connect("AF_INET", "SOCK_STREAM", "('127.0.0.1', int(os.environ['TCP']))")),
    _attack(
        "udp-out", _connect("AF_INET", "SOCK_DGRAM", "('127.0.0.1', int(os.environ['UDP']))", says="sent")
    ),
    _attack("tcp-to-the-world", _connect("AF_INET", "SOCK_STREAM", "('192.0.2.1', 80)")),
    _attack("ipv6-to-the-world", _connect("AF_INET6", "SOCK_STREAM", "('2001:db8::1', 80)")),
    _attack(
        "resolve-names", _python("import socket\nsocket.getaddrinfo('example.com', 80); print('ESCAPED')")
    ),
    _attack("dns-by-hand", _connect("AF_INET", "SOCK_DGRAM", "('192.0.2.53', 53)")),
    _attack("abstract-socket", _connect("AF_UNIX", "SOCK_STREAM", "'\\0' + os.environ['ABSTRACT']")),
    _attack("reach-unix-socket-outside", _connect("AF_UNIX", "SOCK_STREAM", _IN_FOLDER)),
    _attack("vsock", _python("import socket\nsocket.socket(40, socket.SOCK_STREAM); print('ESCAPED')")),
    _attack(
        "raw-packets",
        _python("import socket\nsocket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('ESCAPED')"),
    ),
    _attack(
        "raw-ip",
        _python("import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print('ESCAPED')"),
    ),
    _attack("change-interfaces", "ip link add dummy0 type dummy && echo ESCAPED"),
]

PROCESSES = [
    _attack("see-other-processes", "[ -d /proc/$VICTIM ] && echo ESCAPED"),
    _attack("signal-outside", "kill -9 $VICTIM && echo ESCAPED"),
    _attack("stop-outside", "kill -STOP $VICTIM && echo ESCAPED", "signal-outside"),
    _attack("trace-outside", _syscall("101 if x else 117", "16", "int(os.environ['VICTIM'])", "0", "0")),
    _attack("read-foreign-memory", "head -c1 /proc/$VICTIM/mem && echo ESCAPED"),
    _attack("renice-outside", "renice -n 5 -p $VICTIM && echo ESCAPED"),
    _attack("limit-outside", "prlimit --pid $VICTIM --nofile=3:3 && echo ESCAPED"),
    _attack(
        "private-tmp", "touch /tmp/mainspring-probe; ls -a /tmp | grep -q '^\\.X11\\|systemd' && echo ESCAPED"
    ),
    _attack(
        "shared-memory",
        _python(
            "import ctypes\nlibc = ctypes.CDLL(None)\n"
            "print('ESCAPED' if libc.shmget(0x6d61696e, 4096, 0) >= 0 else 'held')"
        ),
    ),
]

PROTECTED = [
    _attack("write-hook", "echo LEAKED > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit"),
    _attack("change-hook", "echo LEAKED >> .git/hooks/post-checkout"),
    _attack("replace-hooks-folder", "rm -rf .git/hooks; mkdir .git/hooks; echo LEAKED > .git/hooks/pre-push"),
    _attack("git-config", "git config core.fsmonitor LEAKED"),
    _attack("git-config-by-hand", "printf '[core]\\nfsmonitor = LEAKED\\n' >> .git/config"),
    _attack("replace-repository", "mv .git g; cp -r g .git; echo LEAKED > .git/hooks/pre-commit"),
    _attack("nested-hook", "echo LEAKED > nested/.git/hooks/pre-commit"),
    _attack(
        "replace-nested-repository",
        "mv nested n2; cp -r n2 nested; echo LEAKED > nested/.git/hooks/pre-commit",
    ),
    _attack("new-repository-hook", "git init -q new; echo LEAKED > new/.git/hooks/pre-commit"),
    _attack("new-repository-config", "git init -q new; git -C new config core.sshCommand LEAKED"),
    _attack("new-repository-filter", "git init -q new; git -C new config filter.x.clean LEAKED"),
    _attack("new-repository-include", "git init -q new; git -C new config include.path ../LEAKED"),
    _attack("new-bare-repository", "git init -q --bare b; git -C b config core.pager LEAKED"),
    _attack(
        "missing-hooks-folder",
        "mkdir -p bare-bones/.git/hooks; echo LEAKED > bare-bones/.git/hooks/pre-commit",
    ),
    _attack("submodule-hook", "echo LEAKED > .git/modules/sub/hooks/pre-commit"),
    _attack("submodule-config", "printf '[core]\\npager = LEAKED\\n' >> .git/modules/sub/config"),
    _attack("detour-by-commondir", "mkdir evil; echo ../evil-LEAKED > .git/commondir"),
    _attack(
        "detour-by-gitdir",
        "rm -f linked/.git; mkdir -p e/hooks; echo LEAKED > e/hooks/pre-commit;"
        " cp .git/HEAD e; mkdir e/objects e/refs; echo 'gitdir: ../e' > linked/.git",
    ),
    _attack("hooks-path", "echo LEAKED > githooks/pre-commit"),
    _attack("editor-task", "echo LEAKED > .vscode/tasks.json"),
    _attack("new-editor-settings", "mkdir .idea; echo LEAKED > .idea/workspace.xml"),
    _attack("new-envrc", "echo LEAKED > .envrc"),
    _attack("new-mcp-servers", "echo LEAKED > .mcp.json"),
    _attack(
        "new-agent-settings",
        "mkdir .claude .codex; echo LEAKED > .claude/settings.json; echo LEAKED > .codex/x",
    ),
    _attack("deep-editor-settings", "mkdir -p a/b/.vscode; echo LEAKED > a/b/.vscode/tasks.json"),
    _attack("replace-editor-link", "rm .zed; mkdir .zed; echo LEAKED > .zed/tasks.json"),
    _attack(
        "reuse-file-number",
        "rm .npmrc; echo LEAKED > .envrc; rm -r .husky; mkdir .idea; echo LEAKED > .idea/x",
    ),
    _attack(
        "worktree-config", "git config a.b c; printf '[core]\\npager = LEAKED\\n' > .git/config.worktree"
    ),
    _attack("change-large-hook", "echo LEAKED >> githooks/large; touch -d 2001-01-01 githooks/large"),
    _attack("change-moved-hooks", "mv nested n2; echo LEAKED > n2/.git/hooks/pre-commit"),
    _attack("own-data", "mkdir -p .mainspring; echo LEAKED > .mainspring/approvals.toml"),
]

_RULES = ".config/mainspring/approvals.toml"
_DATA = ".local/share/mainspring"

HOME = [
    _in_home("grants-itself", f"echo x >> {_RULES} && echo ESCAPED"),
    _in_home("replaces-rules", f"rm -f {_RULES}; echo x > {_RULES} && echo ESCAPED"),
    _in_home("new-settings", "echo x > .config/mainspring/config.toml && echo ESCAPED"),
    _in_home(
        "moves-settings", f"mv .config c; mkdir -p .config/mainspring; echo x > {_RULES} && echo ESCAPED"
    ),
    _in_home("copies-settings", "cp -r .config c; mv .config d; mv c .config && echo ESCAPED"),
    _in_home("moves-data", f"mv .local l; mkdir -p {_DATA}; echo x > {_DATA}/grants.json && echo ESCAPED"),
    _in_home("deletes-data", f"rm -rf {_DATA}; test -e {_DATA} || echo ESCAPED"),
    _in_home("reads-rules", f"cat {_RULES}"),
    _in_home("reads-journal", f"cat {_DATA}/sessions/s/journal.sqlite"),
    _in_home("reads-list-of-sessions", f"cat {_DATA}/index.sqlite"),
    _in_home("reads-memory", f"cat {_DATA}/memory/project.md"),
    _in_home("reads-by-copy", "cp -r . /tmp/copy; grep -r LEAKED /tmp/copy | head -c 100"),
    _in_home("reads-key", "cat .ssh/id; ln .ssh/id k; cat k; cp -r .ssh s; cat s/id"),
    _in_home("authorizes-key", "echo x >> .ssh/authorized_keys && echo ESCAPED"),
    _in_home("shell-start", "echo x >> .bashrc && echo ESCAPED"),
    _in_home("replaces-shell-start", "mv .bashrc b; echo x > .bashrc; echo x > n; mv n .bashrc; rm -f n b"),
    _in_home("links-shell-start", "ln .bashrc h && echo x >> h && echo ESCAPED"),
    _in_home("new-shell-start", "echo x > .bash_profile; echo x > .zshenv; echo x > .profile"),
    _in_home("linked-shell-start", "echo x >> .zshrc; echo x >> dotfiles/zshrc; rm .zshrc; echo x > .zshrc"),
    _in_home("autostart", "mkdir -p .config/autostart; echo x > .config/autostart/x.desktop"),
    _in_home("user-unit", "mkdir -p .config/systemd/user; echo x > .config/systemd/user/x.service"),
    _in_home("shell-settings", "mkdir -p .config/fish; echo x > .config/fish/config.fish"),
]

FAULTS = [
    Attack(
        name="session-leader",
        script="setsid sleep 300 & sleep 300",
        timeout_s=0.5,
        stopped="timed out after 0.5 s",
    ),
    Attack(
        name="daemon",
        script="(setsid sleep 300 >/dev/null 2>&1 &) ; sleep 300",
        timeout_s=0.5,
        stopped="timed out",
    ),
    Attack(
        name="deaf",
        script="trap '' TERM INT HUP; while :; do sleep 1; done",
        timeout_s=0.5,
        stopped="timed out",
    ),
    Attack(name="stopped", script="kill -STOP $$", timeout_s=0.5, stopped="timed out"),
    Attack(
        name="fork-bomb-is-limited",
        gap="fork-bomb-is-limited",
        script="b() { b | b & }; b; sleep 300",
        timeout_s=3,
        limits=ProcessLimits(processes=100),
        stopped="timed out",
    ),
    Attack(
        name="memory-bomb",
        script=_python("x = bytearray(600 * 1024 * 1024); print('ESCAPED')"),
        limits=ProcessLimits(memory_bytes=200 * MIB),
    ),
    Attack(
        name="memory-of-tree",
        gap="memory-of-tree",
        script="for i in 1 2 3 4 5 6; do python3 -c 'x = bytearray(90 << 20); import time; time.sleep(1); "
        "print(1)' & done; [ $(wait; jobs -p | wc -l) = 6 ] ; wait",
        limits=ProcessLimits(memory_bytes=250 * MIB),
    ),
    Attack(
        name="output-bomb",
        script="yes",
        limits=ProcessLimits(output_bytes=32 * MIB),
        stopped="output limit of 32 MiB",
    ),
    Attack(
        name="error-bomb",
        script="yes >&2",
        limits=ProcessLimits(output_bytes=32 * MIB),
        stopped="output limit of 32 MiB",
    ),
    Attack(
        name="cpu-bomb",
        script="while :; do :; done",
        limits=ProcessLimits(cpu_s=1),
        stopped="CPU limit of 1 s",
    ),
    Attack(
        name="cpu-bomb-of-many",
        script="for i in 1 2 3 4; do (while :; do :; done) & done; wait",
        limits=ProcessLimits(cpu_s=1),
        stopped="CPU limit of 1 s",
    ),
    Attack(
        name="huge-file",
        script="exec head -c 100M /dev/zero > big",
        limits=ProcessLimits(file_bytes=MIB),
        stopped="file size limit of 1 MiB",
    ),
    Attack(
        name="many-files",
        script='exec 10<. ; for i in $(seq 11 99); do eval "exec $i<." || exit 7; done',
        limits=ProcessLimits(open_files=64),
        exit_codes=(1, 7),
    ),
    Attack(name="closed-output", script="exec >&- 2>&- ; exit 5", exit_codes=(5,)),
    Attack(name="killed-by-signal", script="kill -SEGV $$", exit_codes=(139,)),
    Attack(name="wants-a-terminal", script="read x < /dev/tty && echo ESCAPED"),
    Attack(name="wants-input", script="read x && echo ESCAPED"),
    Attack(
        name="odd-names",
        script="touch -- '-rf' $'a\\nb' $'\\e[31m' \"$(printf 'x%.0s' $(seq 255))\"; ls | wc -l",
    ),
    Attack(name="deep-folders", script="for i in $(seq 200); do mkdir d$i && cd d$i || exit 3; done"),
    Attack(name="binary-output", script="head -c 100000 /dev/urandom", exit_codes=(0,)),
]

PLANTED = [
    _attack("change-included-config", "printf '[core]\\npager = LEAKED\\n' >> .gitconfig-team"),
    _attack("make-included-config", "printf '[core]\\npager = LEAKED\\n' > .gitconfig-missing"),
    _attack("change-filter-script", "echo LEAKED >> scripts/clean.sh"),
    _attack("replace-filter-script", "rm -f scripts/clean.sh; echo LEAKED > scripts/clean.sh"),
    _attack("git-attributes", "mkdir -p .git/info; echo '* filter=LEAKED' > .git/info/attributes"),
    _attack("new-repository-attributes", "git init -q new; echo '* diff=LEAKED' > new/.git/info/attributes"),
    _attack("change-husky-hook", "echo LEAKED >> .husky/pre-commit"),
    _attack("new-husky-hook", "mkdir -p nested/.husky; echo LEAKED > nested/.husky/pre-commit"),
    _attack("change-hgrc", "echo LEAKED >> .hg/hgrc"),
    _attack("new-hgrc", "mkdir -p other/.hg; printf '[hooks]\\nupdate = LEAKED\\n' > other/.hg/hgrc"),
    _attack("new-jj-config", "mkdir -p .jj/repo; echo LEAKED > .jj/repo/config.toml"),
    _attack("change-npmrc", "echo script-shell=LEAKED >> .npmrc"),
    _attack("new-yarnrc", "echo yarnPath: LEAKED > .yarnrc.yml; echo yarn-path LEAKED > .yarnrc"),
    _attack("new-pnpmfile", "echo LEAKED > .pnpmfile.cjs"),
    _attack("new-pre-commit-config", "echo LEAKED > .pre-commit-config.yaml"),
    _attack("change-instructions", "echo LEAKED >> AGENTS.md"),
    _attack("replace-instructions", "echo LEAKED > x; mv x AGENTS.md"),
    _attack("other-instructions", "mkdir -p .github; echo LEAKED > .github/copilot-instructions.md"),
    _attack("new-instructions", "echo LEAKED > CLAUDE.md; mkdir -p sub; echo LEAKED > sub/AGENTS.md"),
]

ATTACKS = (*WRITES, *KERNEL, *SECRETS, *NETWORK, *PROCESSES, *PROTECTED, *HOME, *FAULTS, *PLANTED)

BY_SUBJECT = {
    "writes outside the workspace": WRITES,
    "the kernel": KERNEL,
    "hidden files and variables": SECRETS,
    "the network": NETWORK,
    "other processes": PROCESSES,
    "files that other programs run": PROTECTED,
    "what is planted for the next program": PLANTED,
    "the home folder as workspace": HOME,
}
"""What is tried by `doctor --security`, a few of each."""
