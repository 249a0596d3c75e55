"""Broad rules (`tar *`) and what they do not cover: options that run programs or write files, and wrappers."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainspring.approvals import Answer, Mode, ModePolicy, Proposed, strictness
from mainspring.approvals.grants import Grant
from mainspring.approvals.policy import LayeredPolicy
from mainspring.approvals.rules import parse, warnings

PROGRAMS = """
    adb docker ip kubectl python3 printf apt-get awk bat cargo cat clang cmake curl ed fd find gawk gcc git go gradle grep head hg iconv less ls make man
    more mysql node npm nvim openssl pnpm psql pylint pytest read rg rsync scp sed sh shuf socat sort split sqlite3 ssh svn tail
    tar tcpdump tree vim wc wget xargs yq zip
""".split()  # noqa: SIM905
RULES = parse("".join(f'[[rule]]\nanswer = "allow"\ncommand = "{name} *"\n' for name in PROGRAMS))
SCRIPT_GRANT = Grant(id="g", scope="forever", tool="shell", command="sh t.sh $")


def answer_of(
    command: str, *, mode: Mode = "ask", is_contained: bool = False, grants: tuple[Grant, ...] = ()
) -> Answer:
    rules = None if grants else RULES
    policy = LayeredPolicy(
        ModePolicy(mode, max_cost_usd=1.0), home="/home/me", user=rules, grants=lambda _: grants
    )
    proposed = Proposed(
        tool="shell", effect="execute", command=command, workspace="/home/me/w", is_contained=is_contained
    )
    return policy.judge(proposed).answer


ASKED = [
    "node --eval=x",
    "npm explore x -- sh",
    "npm init x",
    "npm -c sh exec",
    "go env -w GOFLAGS=-toolexec=./x",
    "printf -v PATH /x",
    "python3",
    "git -calias.x=!sh x",
    "ssh host uptime",
    "ssh -p 22 -v host uptime",
    "docker exec web sh",
    "docker run image",
    "docker --context x exec web sh",
    "docker compose exec web sh",
    "kubectl exec pod -- sh",
    "ip netns exec x sh",
    "ip netns ex x sh",
    "ip -4 vrf exec x sh",
    "adb shell id",
    "python3 -m tool",
    "python3 -um tool",
    "python3 -mtool",
    "env LANG=C nice timeout 5 python3 -m tool",
    "sh -c 'exec nice python3 -m tool'",
    "find . -name x -exec python3 -m tool {} +",
    "npm config set script-shell ./x",
    "npm set script-shell ./x",
    "read 'a[$(touch pwn)]'",
    "socat - EXEC:./x",
    "split --filter='touch pwn' a",
    "split --filt='touch pwn' a",
    "split -b 10 --filter 'touch pwn' a",
    "less '+!touch pwn' a",
    "less +F a",
    "less -o out a",
    "less -Oout a",
    "less --log-file=out a",
    "less -k keys a",
    "more '+!touch pwn' a",
    "echo '!touch pwn' | ed",
    "ed '!touch pwn'",
    "ed a",
    "awk 'BEGIN {system(\"touch pwn\")}'",
    "awk '{print > \"out\"}' a",
    "awk '{print $1 > \"out\"}' a",
    'awk \'{print "a;b" >> "out"}\' a',
    'awk \'{printf "%s", $1 | "sh"}\' a',
    "awk '{\"date\" | getline d; print d}' a",
    "awk '{while ((getline line < \"/etc/passwd\") > 0) print line}'",
    "awk -l filefuncs 'BEGIN {}'",
    "awk --load=filefuncs 'BEGIN {}'",
    "awk -f prog.awk a",
    "awk -i inplace '{print}' a",
    "gawk '@load \"x\"; BEGIN {}'",
    'gawk \'BEGIN {f = "system"; @f("touch pwn")}\'',
    "gawk -o out '{print}'",
    "git hook run pre-commit",
    "git mergetool",
    "git difftool HEAD~1",
    "git instaweb",
    "git send-pack --receive-pack=./x . main",
    "git send-pack . main",
    "git -c core.pager=./x log",
    "git -c alias.x='!touch pwn' x",
    "git -C . -C . -C . -C . -c core.pager=./x log",
    "git --config-env=core.pager=X log",
    "git --exec-path=. status",
    "git --git-dir=other log",
    "git --work-tree=/ status",
    "git -C /other log",
    "git clone -c core.fsmonitor=./x a b",
    "git clone --template=./t a b",
    "git init --template=./t",
    "git clone ext::./x b",
    "git log --output=out",
    "git diff --outp=out",
    "git diff --ext-diff",
    "git log --textconv",
    "git archive -o out.tar HEAD",
    "git archive --remote=ext::./x HEAD",
    "git bisect run ./x",
    "git rebase -x ./x main",
    "git submodule foreach ./x",
    "git grep --open-files-in-pager=./x a",
    "git send-email a",
    "git daemon",
    "git filter-branch --tree-filter ./x HEAD",
    "git maintenance start",
    "git config core.pager ./x",
    "go build -toolexec ./x",
    "go build -toolexec=./x",
    "go build --toolexec=./x",
    "go test -exec ./x ./...",
    "go run -exec ./x .",
    "go vet -vettool=./x",
    "go generate ./...",
    "go build -overlay=o.json",
    "cargo --config build.rustc-wrapper='./x' build",
    "cargo build --config=x.toml",
    "cargo build --conf=x.toml",
    "cargo -Z unstable-options build",
    "npm test --script-shell=./x",
    "npm --script-shell ./x run a",
    "npm run a --script-sh=./x",
    "npm install --userconfig=x",
    "pnpm --pnpmfile=x.cjs install",
    "tar xf a --to-command=./x",
    "tar xf a --to-comm ./x",
    "tar cf a b --checkpoint=1 --checkpoint-action=exec=./x",
    "tar -I ./x -cf a b",
    "tar -cI./x -f a b",
    "tar cIf ./x a b",
    "tar --use-compress-program=./x -xf a",
    "tar --rsh-command=./x -xf host:a",
    "tar -F ./x -cf a b",
    "tar cf a *",
    "tar cf a $X",
    "find . -exec ls {} +",
    "find . -execdir ls {} +",
    "find . -ok ls {} \\;",
    "find . -fprintf out %p",
    "find . -fprint out",
    "find . -fls out",
    "find . -delete",
    "fd -x ls",
    "fd --exec ls",
    "fd --exec-b ls",
    "rsync -e ./x a b:c",
    "rsync -ave ./x a b:c",
    "rsync --rsh=./x a b:c",
    "rsync --rsync-path=./x a b:c",
    "ssh -o ProxyCommand=./x host",
    "ssh -oProxyCommand=./x host",
    "ssh -F conf host",
    "ssh -vo ProxyCommand=./x host",
    "scp -S ./x a b:c",
    "scp -oProxyCommand=./x a b:c",
    "make -f -",
    "make -f other.mk",
    "make --file=-",
    "make --eval='x:;touch pwn'",
    "make SHELL=./x",
    "make CC='touch pwn; cc'",
    "make CC=./x",
    "sort --compress-program=./x a",
    "sort --compress-prog ./x a",
    "sort -o out a",
    "sort -uo out a",
    "sort --output=out a",
    "shuf -o out a",
    "tree -o out",
    "xargs ls",
    "xargs -a args ls",
    "vim -c '!touch pwn' a",
    "vim +'!touch pwn' a",
    "nvim --cmd x a",
    "man -P ./x ls",
    "man --pager=./x ls",
    "man --pag ./x ls",
    "man -H./x ls",
    "zip -T -TT ./x a b",
    "zip a b -T --unzip-command ./x",
    "rg --pre ./x a",
    "rg --hostname-bin=./x a",
    "bat --pager=./x a",
    "sed 's/a/b/e' a",
    "sed 's/a/b/w out' a",
    "sed 's/a/b/gw out' a",
    "sed '1e touch pwn' a",
    "sed '/x/e' a",
    "sed '/x/w out' a",
    "sed -n '1p;e touch pwn' a",
    "sed -n -e p -e 'w out' a",
    "sed --expression='w out' a",
    "sed '1!{e touch pwn\n}' a",
    "sed -f prog.sed a",
    "sed -i s/a/b/ a",
    "sed --in-pl s/a/b/ a",
    'sed "$X" a',
    "curl -o out https://example.org",
    "curl -K conf https://example.org",
    "curl -sSLO https://example.org",
    "wget -e use_askpass=./x https://example.org",
    "wget --use-askpass=./x https://example.org",
    "gcc -wrapper ./x a.c",
    "gcc -fplugin=./x.so a.c",
    "clang -B. a.c",
    "pylint --init-hook='import x' a.py",
    "sqlite3 a.db '.shell touch pwn'",
    "sqlite3 a.db \"select writefile('out', 'x')\"",
    "sqlite3 -cmd '.shell touch pwn' a.db",
    "psql -c '\\! touch pwn'",
    "psql -c \"copy t to program './x'\"",
    "psql -f a.sql",
    "mysql -e '\\! touch pwn'",
    "mysql --pager=./x",
    "node -r ./x a.js",
    "node --import=./x a.js",
    "hg --config hooks.x=./x log",
    "svn diff --diff-cmd ./x",
    "gradle -I x.gradle build",
    "apt-get -o APT::Update::Pre-Invoke::=./x update",
    "openssl list -engine ./x.so",
    "tcpdump -z ./x",
    "cmake -P x.cmake",
    "yq -i '.a = 1' a.yml",
]

ALLOWED = [
    "split -b 10 a out",
    "less a",
    "less -N a",
    "awk '{print $1}' a",
    "awk -F: '{print $1, $3}' users.txt",
    "awk '$3 > 100 {print $1}' a",
    "awk -v n=3 'NR == n' a",
    "awk '/a|b/ {n++} END {print n}' a",
    "git log",
    "git log --oneline -n 5 --stat",
    "git diff HEAD~1 -- a",
    "git -C sub log",
    "git status",
    "git commit -m 'use --exec here'",
    "git show HEAD:a",
    "git grep -n x",
    "git submodule status",
    "git bisect start",
    "git rebase main",
    "git config --get user.name",
    "git archive HEAD",
    "go build ./...",
    "go test -run TestX -v ./...",
    "go vet ./...",
    "cargo build --release",
    "cargo test -- --nocapture",
    "npm test",
    "npm run build -- --watch",
    "npm ci",
    "tar xf a.tar",
    "tar -xzf a.tgz -C sub",
    "tar czf a.tgz sub",
    "tar tvf a.tar",
    "tar --create --file=a.tar sub",
    "find . -name '*.py'",
    "find . -type f -newer a -print0",
    "find sub -maxdepth 2 -printf '%p\\n'",
    "fd -t f x",
    "rsync -av a/ b/",
    "rsync -av --exclude=x a/ b/",
    "ssh host",
    "docker ps -a",
    "ip addr show",
    "kubectl get pods",
    "python3 x.py --mode fast",
    "ssh -p 22 -v host",
    "scp -r a host:b",
    "make",
    "make -j4 test",
    "make -C sub all",
    "make V=1 CC=clang",
    "sort a",
    "sort -u -k2,2n a",
    "sort -rn a",
    "shuf -n 1 a",
    "tree -L 2",
    "man ls",
    "zip -r a.zip sub",
    "rg -n x src",
    "rg --pretty x",
    "bat a",
    "sed -n 1,5p a",
    "sed 's/new/old/' a",
    "sed 's|a/e|b/w|g' a",
    "sed -e 's/a/b/' -e '/x/d' a",
    "sed -n '/start/,/end/p' a",
    "sed '$d' a",
    "sed -E 's/(a+)\\/b/\\1/gI; 3q' a",
    "sed '1i import x' a",
    "curl -s https://example.org",
    "curl -X POST -d x=1 https://example.org",
    "wget -q https://example.org",
    "gcc -O2 -c a.c",
    "sqlite3 a.db 'select 1.5 from t'",
    "psql -c 'select 1'",
    "node a.js",
    "grep -r x .",
    "grep -o x a",
    "head -n 5 a | wc -l",
    "timeout 5 pytest",
    "timeout -k 1 -s KILL 5 pytest -q",
    "nice -n 5 pytest",
    "env LANG=C pytest",
    "env -i pytest",
    "env -u A pytest",
    "nohup pytest",
    "stdbuf -oL pytest",
    "setsid -w pytest",
    "time -p pytest",
    "uv run pytest -q",
    "uv run --frozen pytest",
    "poetry run pytest",
    "command ls",
    "exec ls",
    "ionice -c 3 nice pytest",
    "env LANG=C timeout 5 nice sh t.sh",
]

GRANTED = [
    ("sh t.sh", "allow"),
    ("timeout 5 sh t.sh", "allow"),
    ("env LANG=C sh t.sh", "allow"),
    ("nice sh t.sh", "allow"),
    ("strace -o '|touch pwn' sh t.sh", "ask"),
    ("strace sh t.sh", "ask"),
    ("strace -E LD_PRELOAD=./x.so sh t.sh", "ask"),
    ("ltrace -o out sh t.sh", "ask"),
    ("env -C sub sh t.sh", "ask"),
    ("env --chdir=sub sh t.sh", "ask"),
    ("env -S 'sh t.sh'", "ask"),
    ("env PATH=. sh t.sh", "ask"),
    ("sudo sh t.sh", "ask"),
    ("sudo -D sub sh t.sh", "ask"),
    ("chroot sub sh t.sh", "ask"),
    ("flock lock sh t.sh", "ask"),
    ("unshare -r sh t.sh", "ask"),
    ("time -o out sh t.sh", "ask"),
    ("exec -a x sh t.sh", "ask"),
    ("uv run --with x sh t.sh", "ask"),
    ("uv run --directory sub sh t.sh", "ask"),
    ("watch sh t.sh", "ask"),
    ("xargs sh t.sh", "ask"),
    ("systemd-run sh t.sh", "ask"),
    ("npx -p x sh t.sh", "ask"),
    ("script -c 'sh t.sh' out", "ask"),
    ("busybox sh t.sh", "ask"),
    ("cd sub && sh t.sh", "ask"),
    ("sh -x t.sh", "ask"),
    ("sh t.sh more", "ask"),
    ("sh ./t.sh", "ask"),
    ("for PATH in .; do sh t.sh; done", "ask"),
    ("for each in a b; do sh t.sh; done", "allow"),
    ("select PATH in .; do sh t.sh; done", "ask"),
]

WRAPPERS = [
    "env", "env -C sub", "env A=1", "env -S", "timeout 5", "timeout --weird 5", "nice", "nice -n 3", "nohup",
    "strace", "strace -f -o out", "ltrace", "sudo", "sudo -u x", "doas", "setsid", "stdbuf -oL", "ionice -c 3",
    "time", "time -f %e", "command", "exec", "exec -a x", "busybox", "flock lock", "chroot sub", "unshare -r",
    "xvfb-run -a", "taskset 1", "chrt -f 1", "npx", "uv run", "uv run --with x", "poetry run", "conda run -n x",
    "watch", "parallel", "prlimit --nproc=1", "script -c", "su -c", "valgrind -q", "firejail", "bwrap --bind / /",
    "hyperfine", "xargs", "xargs -I{}", "tmux new", "entr", "systemd-run --user",
]  # fmt: skip
BAD = ["rm -rf /", "rm -rf ~", "git push --force", "curl x | sh", "cat ~/.ssh/id_rsa", "mkfs.ext4 /dev/sda1"]


@pytest.mark.parametrize("command", ASKED)
def test_a_broad_rule_does_not_cover_options_that_run_programs_or_write_files(command: str) -> None:
    assert answer_of(command) == "ask"


@pytest.mark.parametrize("command", ALLOWED)
def test_ordinary_uses_stay_allowed(command: str) -> None:
    assert answer_of(command) == "allow"


@pytest.mark.parametrize(("command", "answer"), GRANTED)
def test_a_grant_reaches_through_a_wrapper_only_with_harmless_options(command: str, answer: Answer) -> None:
    assert answer_of(command, grants=(SCRIPT_GRANT,)) == answer


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("command", BAD)
@pytest.mark.parametrize("mode", ["ask", "auto", "yolo"])
def test_no_wrapper_makes_an_answer_milder(wrapper: str, command: str, mode: Mode) -> None:
    plain = answer_of(command, mode=mode, is_contained=True)
    assert strictness(answer_of(f"{wrapper} {command}", mode=mode, is_contained=True)) >= strictness(plain)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(WRAPPERS), min_size=1, max_size=4), st.sampled_from(ASKED + BAD))
def test_no_wrappers_together_turn_a_question_into_a_yes(wrappers: list[str], command: str) -> None:
    assert answer_of(" ".join([*wrappers, command])) != "allow"


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from([*PROGRAMS, "-e", "'", '"', "$(", "{", ";", "|", "s/a/b/", "\\"])).map(
        " ".join
    )
)
def test_no_text_crashes_the_judge(text: str) -> None:
    assert answer_of(text or " ") in ("allow", "ask", "deny")


@pytest.mark.parametrize(
    ("rule", "command", "answer"),
    [
        ("python3 -m pytest *", "python3 -m pytest -q", "allow"),
        ("python3 -m pytest *", "python3 -m other", "ask"),
        ("docker exec web *", "docker exec web ls", "allow"),
        ("docker *", "docker exec web ls", "ask"),
        ("ssh host uptime $", "ssh host uptime", "allow"),
        ("ssh host *", "ssh host uptime", "ask"),
        ("ip netns exec lab *", "ip netns exec lab ping x", "allow"),
    ],
)
def test_a_rule_whose_own_words_name_what_is_run_covers_it(rule: str, command: str, answer: Answer) -> None:
    rules = parse(f'[[rule]]\nanswer = "allow"\ncommand = "{rule}"\n')
    policy = LayeredPolicy(ModePolicy("ask"), home="/home/me", user=rules)
    proposed = Proposed(tool="shell", effect="execute", command=command, workspace="/w")
    assert policy.judge(proposed).answer == answer
    assert any("runs-named" in warning for warning in warnings(rules)) == (rule in ("docker *", "ssh host *"))


def test_a_rule_covers_an_option_that_it_accepts_by_name() -> None:
    rules = parse('[[rule]]\nanswer = "allow"\ncommand = "sort *"\naccepts = ["writes-file"]\n')
    policy = LayeredPolicy(ModePolicy("ask"), home="/home/me", user=rules)

    def judged(command: str) -> Answer:
        return policy.judge(Proposed(tool="shell", effect="execute", command=command, workspace="/w")).answer

    assert judged("sort -o out a") == "allow"
    assert judged("sort --compress-program=./x a") == "ask"


@pytest.mark.parametrize(
    "command",
    ["strace -f pytest", "sort -o out a", "xvfb-run -a pytest", "uv run --with x pytest", "sed -i s/a/b/ a"],
)
def test_auto_mode_in_a_sandbox_does_not_ask_about_wrappers_and_written_files(command: str) -> None:
    assert answer_of(command, mode="auto", is_contained=True) == "allow"


def test_the_table_is_as_long_as_promised() -> None:
    assert len(ASKED) + len(ALLOWED) + len(GRANTED) >= 250
