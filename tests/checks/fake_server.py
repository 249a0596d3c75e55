"""A language server that finds one error in each line that holds "bad", and misbehaves as its arguments say."""

import json
import os
import socket
import sys
import time

HOW = set(sys.argv[1:])
PULL = {"diagnosticProvider": {"interFileDependencies": False, "workspaceDiagnostics": False}}
documents: dict[str, tuple[int, str]] = {}


def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Type: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    sys.stdout.buffer.flush()


def read():
    size = 0
    while line := sys.stdin.buffer.readline().strip():
        if line.lower().startswith(b"content-length:"):
            size = int(line.split(b":")[1])
    return json.loads(sys.stdin.buffer.read(size)) if size else sys.exit()


def items(text):
    words = [("bad", line) for line in text.split("\n")] if "bad" in text else []
    return [
        {"range": {"start": {"line": number}}, "message": word, "severity": 1, "code": 7}
        for number, (word, line) in enumerate(words)
        if word in line
    ]


def misbehave():
    if "crash" in HOW:
        sys.exit("it broke")
    if "noise" in HOW:
        os.write(1, b"hello\n" * 100)
    if "huge" in HOW:
        os.write(1, b"Content-Length: 999999999999\r\n\r\n")
    if "broken" in HOW:
        os.write(1, b"Content-Length: 3\r\n\r\n{{{")
    while "flood" in HOW:
        send(method="window/logMessage", params={"message": "x" * 100_000})
    while "silent" in HOW:
        time.sleep(60)


def reached(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def confinement(port):
    try:
        with open("stolen", "w") as file:
            file.write("x")
        written = True
    except OSError:
        written = False
    return f"written={written} reached={reached(port)}"


def on_text(uri, version, text):
    documents[uri] = (version, text)
    misbehave()
    if "push" in HOW:
        old = [{"range": {"start": {"line": 0}}, "message": "of an older version"}]
        for other in (version - 1, version + 1, None):
            params = {"uri": uri, "diagnostics": old}
            send(method="textDocument/publishDiagnostics", params={**params, "version": other})
        send(
            method="textDocument/publishDiagnostics",
            params={"uri": uri, "version": version, "diagnostics": items(text)},
        )
    if "register" in HOW:
        registration = {"id": "1", "method": "textDocument/diagnostic"}
        send(id=1, method="client/registerCapability", params={"registrations": [registration]})


def diagnostics(uri):
    if "odd" in HOW:
        return {"items": [{"message": 5}]}
    if "confined" in HOW:
        text = confinement(int(next(word for word in HOW if word.isdigit())))
        return {"items": [{"range": {"start": {"line": 0}}, "message": text}]}
    return {"kind": "full", "items": items(documents[uri][1])}


modified = 2
while True:
    message = read()
    method, params = message.get("method"), message.get("params")
    if method == "initialize":
        if "asks" in HOW:
            send(id="a", method="workspace/configuration", params={"items": [{}, {}]})
            assert read()["result"] == [None, None]
            send(id="b", method="what/ever")
            assert read()["error"]["code"] == -32601
            send(id="c", method="workspace/applyEdit", params={"edit": {}})
            assert read()["result"] == {"applied": False}
        send(id=message["id"], result={"capabilities": {} if HOW & {"push", "register"} else PULL})
    elif method == "textDocument/didOpen":
        shown = params["textDocument"]
        on_text(shown["uri"], shown["version"], shown["text"])
    elif method == "textDocument/didChange":
        shown = params["textDocument"]
        on_text(shown["uri"], shown["version"], params["contentChanges"][0]["text"])
    elif method == "textDocument/diagnostic" and "late" in HOW:
        while not os.path.exists("go"):
            time.sleep(0.02)
        send(id=message["id"], result=diagnostics(params["textDocument"]["uri"]))
    elif method == "textDocument/diagnostic" and "refuses" in HOW:
        send(id=message["id"], error={"code": -32603, "message": "no such thing"})
    elif method == "textDocument/diagnostic" and "modified" in HOW and modified:
        modified -= 1
        send(id=message["id"], error={"code": -32801, "message": "content modified"})
    elif method == "textDocument/diagnostic":
        send(id=message["id"], result=diagnostics(params["textDocument"]["uri"]))
