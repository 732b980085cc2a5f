"""The service suite: events through HTTP in batches and one at a time, and the way from an event to its subscriber."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from thalweg.bench.report import Report
from thalweg.client import Remote, connect

_STREAM = "http://thalweg.dev/s"
_SEED = 3_150
"""Messages a second of query 1 in seed 003, on ten nodes."""
_QUERY = f"SELECT ?a ?b FROM STREAM <{_STREAM}> [RANGE 1s] WHERE {{ ?a <http://thalweg.dev/p> ?b }}"
_NONE = f"SELECT ?a ?b FROM STREAM <{_STREAM}> [RANGE 1s] WHERE {{ ?a <http://thalweg.dev/rare> ?b }}"


@dataclass(frozen=True)
class Sizes:
    """Events of a batch, batches, events one at a time, and seconds at 1,000 events a second; many queries."""

    batch: int = 5_000
    batches: int = 60
    single: int = 5_000
    seconds: float = 10.0
    queries: int = 1_000
    shapes: int = 10


QUICK = Sizes(2_000, 10, 500, 2.0, 100)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark, and the data are generated."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("service")
    with tempfile.TemporaryDirectory() as folder:
        with _server(Path(folder) / "a") as (remote, token):
            _throughput(report, remote, token, sizes)
        with _server(Path(folder) / "b") as (remote, token):
            _latency(report, remote, token, sizes)
        with _server(Path(folder) / "c") as (remote, _):
            _many(report, remote, sizes)
    return report


@contextmanager
def _server(folder: Path) -> Iterator[tuple[Remote, str]]:
    command = [sys.executable, "-m", "thalweg.cli", "serve", "--data", str(folder), "--port", "0"]
    process = subprocess.Popen([*command, "--no-log-requests"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        url = ""
        for line in process.stderr:
            if found := re.search(r"serving (http://\S+)", line):
                url = found[1]
                break
        threading.Thread(target=process.stderr.read, daemon=True).start()
        token = (folder / "token").read_text().split()[1]
        remote = connect(url, token)
        remote.declare(_STREAM)
        yield remote, token
    finally:
        process.terminate()
        process.wait(60)


def _lines(first: int, count: int) -> bytes:
    triple = "<http://thalweg.dev/s{0}> <http://thalweg.dev/p> <http://thalweg.dev/o> .\n"
    return "".join(triple.format(n) for n in range(first, first + count)).encode()


def _throughput(report: Report, remote: Remote, token: str, sizes: Sizes) -> None:
    from websockets.sync.client import connect as connect_socket

    remote.register(_NONE)
    remote.send(_STREAM, _lines(0, 10), "nt")
    bodies = [_lines(k * sizes.batch, sizes.batch) for k in range(sizes.batches)]
    began = time.perf_counter()
    for body in bodies:
        remote.send(_STREAM, body, "nt")
    rate = sizes.batch * sizes.batches / (time.perf_counter() - began)
    report.add("throughput", f"HTTP, {sizes.batch:,} events a body", rate, "events/s", target=100.0 * _SEED)
    bodies = [_lines(n, 1) for n in range(sizes.single)]
    began = time.perf_counter()
    for body in bodies[: sizes.single // 5]:
        remote.send(_STREAM, body, "nt")
    rate = (sizes.single // 5) / (time.perf_counter() - began)
    report.add("throughput", "HTTP, one event a request, one connection", rate, "events/s")
    address = f"{remote.url.replace('http', 'ws', 1)}/streams/{quote(_STREAM, safe='')}"
    with connect_socket(address, additional_headers={"Authorization": f"Bearer {token}"}) as socket:
        began = time.perf_counter()
        receiving = threading.Thread(target=lambda: [socket.recv() for _ in bodies])
        receiving.start()
        for body in bodies:
            socket.send(body)
        receiving.join()
        rate = len(bodies) / (time.perf_counter() - began)
    report.add("throughput", "WebSocket, one event a message", rate, "events/s", target=20.0 * _SEED)


def _latency(report: Report, remote: Remote, token: str, sizes: Sizes) -> None:
    from websockets.sync.client import connect as connect_socket

    query = remote.register(_QUERY)
    remote.send(_STREAM, _lines(10**9, 10), "nt")
    base = remote.url.replace("http", "ws", 1)
    count = int(1000 * sizes.seconds)
    sent, received = [0.0] * count, [0.0] * count
    left = threading.Semaphore(0)
    headers = {"Authorization": f"Bearer {token}"}
    results = connect_socket(f"{base}/queries/{query.id}/results?after=last", additional_headers=headers)
    events = connect_socket(f"{base}/streams/{quote(_STREAM, safe='')}", additional_headers=headers)

    def follow() -> None:
        seen = 0
        while seen < count:
            message = results.recv()
            now = time.perf_counter()
            for line in str(message).splitlines():
                row = json.loads(line)
                if row["op"] == "+":
                    number = int(row["bindings"]["a"].rpartition("/s")[2][:-1])
                    if number < count:
                        received[number] = now
                        seen += 1
        left.release()

    threading.Thread(target=follow, daemon=True).start()
    threading.Thread(target=lambda: [events.recv() for _ in range(count)], daemon=True).start()
    began = time.perf_counter()
    for number in range(count):
        due = began + number / 1000
        while (wait := due - time.perf_counter()) > 0:
            time.sleep(wait)
        sent[number] = time.perf_counter()
        events.send(_lines(number, 1))
    left.acquire(timeout=60)
    results.close()
    events.close()
    delays = sorted(1000 * (after - before) for before, after in zip(sent, received, strict=True) if after)
    for name, share, target in (("p50", 0.5, 5.0), ("p99", 0.99, 20.0)):
        delay = delays[min(len(delays) - 1, int(share * len(delays)))]
        report.add(
            "latency",
            f"event to subscriber, 1,000 events/s, {name}",
            delay,
            "ms",
            target=target,
            at_most=True,
        )


def _many(report: Report, remote: Remote, sizes: Sizes) -> None:
    """What events cost with one query, and with many of few shapes, whose variables all have other names."""

    def cost() -> float:
        bodies = [_lines(n, 100) for n in range(0, 10_000, 100)]
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            for body in bodies:
                remote.send(_STREAM, body, "nt")
            best = min(best, time.perf_counter() - began)
        return 1e6 * best / 10_000

    shapes = [_NONE.replace("rare", f"rare{k}") for k in range(sizes.shapes)]
    remote.register(shapes[0])
    one = cost()
    for query in remote.queries:
        remote.unregister(query)
    for k in range(sizes.queries):
        remote.register(shapes[k % sizes.shapes].replace("?a", f"?a{k}"))
    many = cost()
    report.add("many queries", "one query", one, "us/event")
    report.add("many queries", f"{sizes.queries:,} queries of {sizes.shapes} shapes", many, "us/event")
    report.add("many queries", "ratio", many / one, "x", target=2.0, at_most=True)
