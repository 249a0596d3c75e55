#!/bin/sh
# Installs what pip cannot: venv support for the given Python, bubblewrap for the sandbox, faketime for clocks that
# jump in tests; and with the word `tests` also tmux (the chat), chromium (the page), zsh and fish (completion),
# clangd and clang-tidy (checks), Postgres and pgbouncer (shared stores), sshd (jobs). As root on Debian it installs them; otherwise it
# says what is missing. Only the first is required.
python=$1

debian() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    { apt-get install -y -q "$@" || { apt-get update -q && apt-get install -y -q "$@"; }; } >/dev/null 2>&1
}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "mainspring needs Python 3.11 or newer; run: make setup PYTHON=/path/to/python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null && ! debian python3-venv; then
    echo "this Python cannot create virtual environments; run: apt-get install python3-venv" >&2
    exit 1
fi
if ! command -v bwrap >/dev/null 2>&1 && ! debian bubblewrap; then
    echo "note: bubblewrap is missing and could not be installed (apt-get install bubblewrap)" >&2
fi
if ! command -v faketime >/dev/null 2>&1 && ! debian faketime; then
    echo "note: faketime is missing, so tests of the clock are skipped (apt-get install faketime)" >&2
fi
[ "${2:-}" = tests ] || exit 0
for program in tmux chromium zsh fish clangd clang-tidy; do
    if ! command -v "$program" >/dev/null 2>&1 && ! debian "$program"; then
        echo "note: $program is missing, so its tests are skipped or fail (apt-get install $program)" >&2
    fi
done
if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    # Debian's package would make and start a database of its own.
    if [ "$(id -u)" = 0 ] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
        mkdir -p /etc/postgresql-common && echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    fi
    debian postgresql || echo "note: Postgres is missing, so its tests are skipped or fail (apt-get install postgresql)" >&2
fi
if ! command -v sshd >/dev/null 2>&1 && [ ! -e /usr/sbin/sshd ]; then
    # In runlevel 1 Debian's package starts no server of its own.
    (export RUNLEVEL=1 && debian openssh-server openssh-client) ||
        echo "note: sshd is missing, so its tests are skipped or fail (apt-get install openssh-server)" >&2
fi
if ! command -v pgbouncer >/dev/null 2>&1 && [ ! -e /usr/sbin/pgbouncer ] && ! debian pgbouncer; then
    echo "note: pgbouncer is missing, so its test is skipped or fails (apt-get install pgbouncer)" >&2
fi
exit 0
