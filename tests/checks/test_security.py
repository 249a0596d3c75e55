"""Code that may let others in is told where a change brings it, and only there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from mainspring.checks import ChangedFile, new_findings
from mainspring.checks.grammars import matches
from mainspring.checks.security_rules import MESSAGES, rules_for
from mainspring.checks.syntax import Security, Syntax
from mainspring.events import ChangesChecked
from mainspring.sandbox import Sandbox
from mainspring.sandbox.ladder import choose
from mainspring.sandbox.policy import policy
from tests.checks.test_after_change import configured, notes, write
from tests.stage import staged

TOLD = [
    (".py", "subprocess.run(f'ls {x}', shell=True)", "shell-injection"),
    (".py", "Popen(command, stdout=PIPE, shell=True)", "shell-injection"),
    (".py", "os.system('rm ' + path)", "shell-injection"),
    (".py", "cur.execute(f\"SELECT * FROM t WHERE id = '{x}'\")", "sql-injection"),
    (".py", "q = 'DELETE FROM t WHERE n = %s' % name", "sql-injection"),
    (".py", "q = '''\n  select a\n  from t where n = {}'''.format(name)", "sql-injection"),
    (".py", "q = 'INSERT INTO t VALUES (' + a + ')' + b", "sql-injection"),
    (".py", "eval(input())", "eval"),
    (".py", "yaml.load(text)", "unsafe-load"),
    (".py", "pickle.loads(request.body)", "unsafe-pickle"),
    (".py", "requests.get(url, verify=False)", "tls-unchecked"),
    (".py", "context.verify_mode = ssl.CERT_NONE", "tls-unchecked"),
    (".py", "mark_safe('<b>' + name + '</b>')", "markup-injection"),
    (".js", "exec(`ls ${dir}`)", "shell-injection"),
    (".js", "child_process.execSync('ls ' + dir)", "shell-injection"),
    (".ts", "spawn(command, { shell: true })", "shell-injection"),
    (".ts", "db.query(`SELECT * FROM t WHERE id = ${id}`)", "sql-injection"),
    (".js", "const q = 'UPDATE t SET a = ' + a", "sql-injection"),
    (".ts", "eval(code)", "eval"),
    (".js", "new Function('a', body)", "eval"),
    (".tsx", "element.innerHTML = text", "markup-injection"),
    (".js", "element.innerHTML += `<b>${text}</b>`", "markup-injection"),
    (".ts", "element.innerHTML = texts.map(bold).join('')", "markup-injection"),
    (".tsx", "const a = <p dangerouslySetInnerHTML={{ __html: text }} />", "markup-injection"),
    (".ts", "const o = { rejectUnauthorized: false }", "tls-unchecked"),
    (".js", "process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'", "tls-unchecked"),
    (".sh", 'eval "$1"', "eval"),
    (".sh", 'bash -c "ls $dir"', "shell-injection"),
    (".sh", "curl -sSL https://x.test/i.sh | sh", "unchecked-download"),
    (".sh", "curl -sk https://x.test", "tls-unchecked"),
    (".c", "void f(char *a) { char b[8]; gets(b); }", "unbounded-write"),
    (".cpp", "void f(char *a) { char b[8]; strcpy(b, a); }", "unbounded-write"),
    (".cc", 'static void f(char *a) { char b[8]; sprintf(b, "<%s>", a); }', "unbounded-write"),
    (".c", 'void f() { char b[8]; scanf("%s", b); }', "unbounded-write"),
    (".c", "void f(char *a) { system(a); }", "shell-injection"),
    (".c", "void f(char *a) { printf(a); }", "format-string"),
    (".go", 'package a\nfunc f() { exec.Command("sh", "-c", "ls "+dir) }', "shell-injection"),
    (
        ".go",
        'package a\nfunc f() { db.Query(fmt.Sprintf("SELECT a FROM t WHERE b = %s", b)) }',
        "sql-injection",
    ),
    (".go", 'package a\nvar q = "DELETE FROM t WHERE a = " + a', "sql-injection"),
    (".go", "package a\nvar c = tls.Config{InsecureSkipVerify: true}", "tls-unchecked"),
    (".go", "package a\nvar h = template.HTML(text)", "markup-injection"),
]
SILENT = [
    (".c", 'void f(char *a) { char b[8]; strcpy(b, "a"); system("ls"); printf("%s", a); scanf("%7s", b); }'),
    (
        ".py",
        "subprocess.run('ls -l', shell=True)\nsubprocess.run(['ls', x])\nsubprocess.run(COMMAND, shell=True)",
    ),
    (".py", "os.system('ls ' + shlex.quote(x))\nsubprocess.run(f'ls {shlex.quote(x)}', shell=True)"),
    (".py", "cur.execute('SELECT a FROM t WHERE b = ?', (b,))\ncur.execute(f'SELECT a FROM {TABLE}')"),
    (".py", "log(f'select {x} if you want')\nq = 'delete ' + name\n'%s' % x"),
    (".py", "yaml.safe_load(x)\nyaml.load(x, Loader=yaml.SafeLoader)\nast.literal_eval(x)\nmodel.eval()"),
    (".py", "requests.get(url, verify=path)\npickle.dumps(x)\njson.loads(x)\neval('1 + 1')"),
    (".js", "pattern.exec('a' + b)\nexec('ls')\nspawn('ls', [dir])\nelement.textContent = text"),
    (".ts", "sql`SELECT * FROM t WHERE id = ${id}`\ndb.query('SELECT a FROM t WHERE b = ?', [b])"),
    (".js", "element.innerHTML = ['a', 'b'].join('')"),
    (".js", "element.innerHTML = ''\nelement.innerHTML = DOMPurify.sanitize(text)\nconst s = `select ${a}`"),
    (".sh", "eval 'echo a'\nbash -c 'ls'\ncurl -sSL https://x.test -o f\nbash \"$script\""),
    (".go", 'package a\nfunc f() { exec.Command("ls", dir); db.Query("SELECT a FROM t WHERE b = ?", b) }'),
]


def found(suffix: str, text: str) -> list[str]:
    return [name for _, name in matches(f"a{suffix}", text.encode(), rules_for(suffix))]


@pytest.mark.parametrize(("suffix", "text", "rule"), TOLD)
def test_what_may_let_others_in_is_found(suffix: str, text: str, rule: str) -> None:
    assert found(suffix, text) == [rule]


@pytest.mark.parametrize(("suffix", "text"), SILENT)
def test_what_is_harmless_is_not(suffix: str, text: str) -> None:
    assert found(suffix, text) == []


def test_every_rule_says_something_and_has_a_case() -> None:
    named = {name for suffix in (".py", ".tsx", ".ts", ".sh", ".go", ".c") for name, _ in rules_for(suffix)}
    assert named == MESSAGES.keys() == {rule for _, _, rule in TOLD}


def test_a_change_is_told_what_it_brings_and_not_what_stood_there(tmp_path: Path) -> None:
    old = "import os\n\n\ndef f(x):\n    os.system('a' + x)\n"

    async def main() -> Sequence[tuple[int, str, str]]:
        confined = policy(tmp_path, home=tmp_path)
        sandbox = await choose(confined, {"PATH": "/usr/bin:/bin"})

        async def given() -> Sandbox:
            return sandbox

        syntax = Syntax(confined, given)
        try:
            changed = ChangedFile("a.py", old.encode(), f"{old}    eval(x)\n".encode())
            new = await new_findings(Security(syntax), changed)
            return [(each.line, each.rule, each.severity) for each in new]
        finally:
            await syntax.close()
            await sandbox.close()

    assert asyncio.run(main()) == [(6, "eval", "warning")]


def test_a_session_is_told_unless_it_is_off(tmp_path: Path) -> None:
    risky = write("a.ts", "export const f = (x: string) => eval(x);\n")
    stage = staged(tmp_path, {}, risky, "Done.")
    stage.run("Go", config=configured(tmp_path), mode="auto")
    (note,) = notes(stage)
    assert "a.ts:1: warning: text that is not constant is run as code [security eval]" in note
    quiet = staged(tmp_path / "off", {}, risky, "Done.")
    quiet.run("Go", config=configured(tmp_path / "off", security="off"), mode="auto")
    assert not notes(quiet)
    assert all("security" not in file.by for event in quiet.events(ChangesChecked) for file in event.files)
