"""A double of a hub of hosted jobs on loopback: the addresses and bodies of Hugging Face Jobs, and jobs that really
run, as processes of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hf_test"


class HostedJob:
    def __init__(self, number: int, spec: dict[str, Any]) -> None:
        self.id, self.spec = f"job{number}", spec
        self.created = datetime.now(UTC)
        self.is_cancelled = self.is_late = False
        self.log = b""
        self._process = subprocess.Popen(
            spec["command"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._timer = threading.Timer(spec["timeoutSeconds"], self._end_late)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        self._timer.cancel()
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def shown(self) -> dict[str, Any]:
        stage, message = "RUNNING", None
        if self.is_cancelled:
            stage = "CANCELED"
        elif not self.is_running:
            self._reader.join()
            failed = self._process.returncode != 0
            stage = "ERROR" if failed else "COMPLETED"
            why = "Job timeout" if self.is_late else f"Job failed with exit code: {self._process.returncode}"
            message = why if failed else None
        return {
            "id": self.id,
            "createdAt": self.created.isoformat().replace("+00:00", "Z"),
            "dockerImage": self.spec["dockerImage"],
            "command": self.spec["command"],
            "flavor": self.spec["flavor"],
            "labels": self.spec.get("labels"),
            "status": {"stage": stage, "message": message},
            "owner": {"id": "1", "name": "me", "type": "user"},
        }

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.log += line

    def _end_late(self) -> None:
        self.is_late = self.is_running
        self.end()


class HubDouble:
    def __init__(self) -> None:
        self.jobs: dict[str, HostedJob] = {}
        self.fails_after_taking = 0
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that it has there
                pass

            def do_GET(self) -> None:
                hub.answer(self, b"")

            def do_POST(self) -> None:
                hub.answer(self, self.rfile.read(int(self.headers.get("content-length", 0))))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        for job in self.jobs.values():
            job.end()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, asked: BaseHTTPRequestHandler, body: bytes) -> None:
        words = asked.path.strip("/").split("/")[3:]
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            return _send(asked, 401, {"error": "Invalid credentials"})
        if not asked.path.startswith("/api/jobs/me"):
            return _send(asked, 404, {"error": "not found"})
        if asked.command == "POST" and not words:
            job = HostedJob(len(self.jobs) + 1, json.loads(body))
            self.jobs[job.id] = job
            if self.fails_after_taking:
                self.fails_after_taking -= 1
                return _send(asked, 502, {"error": "bad gateway"})
            return _send(asked, 200, job.shown())
        if not words:
            return _send(asked, 200, [job.shown() for job in self.jobs.values()])
        job = self.jobs.get(words[0])
        if job is None:
            return _send(asked, 404, {"error": "no such job"})
        if words[1:] == ["cancel"]:
            job.is_cancelled = job.is_cancelled or job.is_running
            job.end()
        if words[1:] == ["logs"]:
            return self._stream(asked, job)
        return _send(asked, 200, job.shown())

    def _stream(self, asked: BaseHTTPRequestHandler, job: HostedJob) -> None:
        """Stays open while the job runs, as the real one does."""
        asked.send_response(200)
        asked.send_header("content-type", "text/event-stream")
        asked.end_headers()
        sent = 0
        while True:
            is_last = not job.is_running
            job.shown()
            lines = job.log.decode().splitlines()
            for line in lines[sent:]:
                event = {"data": line, "timestamp": "2026-01-01T00:00:00Z"}
                asked.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
            sent = len(lines)
            if is_last:
                return
            time.sleep(0.05)


def _send(asked: BaseHTTPRequestHandler, status: int, value: Any) -> None:
    body = json.dumps(value).encode()
    asked.send_response(status)
    asked.send_header("content-type", "application/json")
    asked.send_header("content-length", str(len(body)))
    asked.end_headers()
    asked.wfile.write(body)
