"""A server in a process of its own, which is killed at random points; a client that notes what was acknowledged."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.server.serving import Client, triple

QUERY = "SELECT ?a ?b FROM STREAM <http://ex/s> [RANGE 1h] WHERE { ?a <http://ex/p> ?b }"


class Process:
    """`thalweg serve` on a data folder."""

    def __init__(self, data: Path, *more: str) -> None:
        command = [sys.executable, "-m", "thalweg.cli", "serve", "--data", str(data), "--port", "0", *more]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.said = ""
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"serving http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError(f"the server did not start: {self.said}")
        threading.Thread(target=self._drain, daemon=True).start()
        self.token = (data / "token").read_text().split()[1]

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def client(self) -> Client:
        return Client(self.port, self.token)

    def end(self, how: signal.Signals) -> int:
        os.kill(self.process.pid, how)
        return self.process.wait(60)


class Load:
    """Threads that send events until the server is gone; `sent` and `acknowledged` have their numbers."""

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.acknowledged: set[int] = set()
        self.next = 0
        self._lock = threading.Lock()

    def run(self, server: Process, count: int) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._send, args=(server,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, server: Process) -> None:
        client = server.client()
        try:
            while True:
                with self._lock:
                    number, self.next = self.next, self.next + 1
                    self.sent.add(number)
                if client.post(triple(number, "o"), at=1).status == 200:
                    with self._lock:
                        self.acknowledged.add(number)
        except (OSError, http.client.HTTPException):
            return


def follow(server: Process, id: str, rows: list[tuple[int, str]]) -> None:
    """A subscriber: goes on after the last row that it has, until the server is gone."""
    try:
        for event in server.client().events(id, after=rows[-1][0] if rows else None):
            if event.get("event") == "end":
                return
            assert event.get("event") is None, event
            rows.append((int(event["id"]), json.loads(event["data"])["bindings"]["a"]))
    except (OSError, http.client.HTTPException, ValueError):
        return


def run(
    data: Path, kills: int, seed: int, *more: str, at_end: Callable[[Client], None] | None = None
) -> tuple[Load, list[tuple[int, str]]]:
    """Kills a server some times under load, and gives what was sent and what a subscriber has got in the end."""
    chance = random.Random(seed)
    options = ("--snapshot-bytes", "20000", "--buffer", "1000000", "--no-log-requests", *more)
    load, rows, id = Load(), list[tuple[int, str]](), ""
    for _ in range(kills):
        server = Process(data, *options)
        if not id:
            id = server.client().register(QUERY, lease="2h").json["id"]
        follower = threading.Thread(target=follow, args=(server, id, rows))
        follower.start()
        threads = load.run(server, 4)
        before, began = len(load.acknowledged), time.monotonic()
        while len(load.acknowledged) == before and time.monotonic() < began + 60:
            time.sleep(0.02)  # the first event loads the kernels
        time.sleep(chance.random())
        server.end(signal.SIGKILL)
        for thread in (*threads, follower):
            thread.join(30)
    server = Process(data, *options)
    page = server.client()("GET", f"/queries/{id}").json
    assert page["lease"] == "7200000ms"
    last = page["last"]
    follower = threading.Thread(target=follow, args=(server, id, rows))
    follower.start()
    began = time.monotonic()
    while len(rows) < last and time.monotonic() < began + 60:
        time.sleep(0.05)
    if at_end is not None:
        at_end(server.client())
    assert server.end(signal.SIGTERM) == 0
    follower.join(30)
    return load, rows
