from pathlib import Path

lines = [line.rstrip() for line in Path("server.ini").read_text().strip().splitlines()]
assert lines == [
    "# Settings of the server. Ask Kim before you change the database.",
    "[database]",
    "host = db.local",
    "port = 5432",
    "tls = off",
    "",
    "[web]",
    "host = www.local",
    "port = 8443",
    "# tls needs a certificate",
    "tls = on",
]
