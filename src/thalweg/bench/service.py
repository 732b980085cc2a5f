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
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thalweg.bench.report import Report
from thalweg.bench.service_clients import STREAM, lines
from thalweg.client import Remote, connect
from thalweg.errors import ThalwegError

_SEED = 3_150
"""Messages a second of query 1 in seed 003, on ten nodes."""
_SEED_THREE = 654
"""Those of query 3."""
_QUERY = f"SELECT ?a ?b FROM STREAM <{STREAM}> [RANGE 1s] WHERE {{ ?a <http://thalweg.dev/p> ?b }}"
_NONE = f"SELECT ?a ?b FROM STREAM <{STREAM}> [RANGE 1s] WHERE {{ ?a <http://thalweg.dev/rare> ?b }}"
_THREE = f"""SELECT ?a ?d FROM STREAM <{STREAM}> [RANGE 1s] WHERE {{
?a <http://thalweg.dev/p> ?b . ?b <http://thalweg.dev/p> ?c . ?c <http://thalweg.dev/p> ?d }}"""


@dataclass(frozen=True)
class Sizes:
    """Events of a batch, batches, requests of one event, messages, seconds at 1,000 events a second; many queries."""

    batch: int = 5_000
    batches: int = 60
    single: int = 1_000
    messages: int = 200_000
    seconds: float = 10.0
    queries: int = 1_000
    shapes: int = 10


QUICK = Sizes(2_000, 10, 100, 20_000, 2.0, 100)


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
        remote.declare(STREAM)
        yield remote, token
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def _client(*given: object) -> Iterator[subprocess.Popen[str]]:
    """A client in a process of its own, when it is ready."""
    command = [sys.executable, "-m", "thalweg.bench.service_clients", *map(str, given)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise ThalwegError("a client of the bench did not start")
        yield process
    finally:
        process.kill()
        process.communicate()


def _begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _result(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def _throughput(report: Report, remote: Remote, token: str, sizes: Sizes) -> None:
    remote.register(_NONE)
    remote.send(STREAM, lines(0, 10), "nt")
    bodies = [lines(k * sizes.batch, sizes.batch) for k in range(sizes.batches)]
    began = time.perf_counter()
    for body in bodies:
        remote.send(STREAM, body, "nt")
    rate = sizes.batch * sizes.batches / (time.perf_counter() - began)
    report.add("throughput", f"HTTP, {sizes.batch:,} events a body", rate, "events/s", target=100.0 * _SEED)
    began = time.perf_counter()
    for n in range(sizes.single):
        remote.send(STREAM, lines(n, 1), "nt")
    rate = sizes.single / (time.perf_counter() - began)
    report.add("throughput", "HTTP, one event a request, one connection", rate, "events/s")
    for clients in (1, 4):
        rate = _pipelined(remote.url, token, clients, sizes.messages)
        name = f"WebSocket, one event a message, {clients} {'clients' if clients > 1 else 'client'}"
        report.add("throughput", name, rate, "messages/s", target=20.0 * _SEED)
    remote.register(_THREE)
    rate = _pipelined(remote.url, token, 1, sizes.messages)
    report.add(
        "throughput", "WebSocket, a query of three patterns", rate, "messages/s", target=20.0 * _SEED_THREE
    )


def _pipelined(url: str, token: str, clients: int, messages: int) -> float:
    """Messages a second that are acknowledged, each for itself, over all clients."""
    count = messages // clients
    with ExitStack() as stack:
        running = [
            stack.enter_context(_client("pipelined", url, token, k * count, count)) for k in range(clients)
        ]
        for one in running:
            _begin(one)
        found = [_result(one) for one in running]
    if any(one["events"] != count for one in found):
        raise ThalwegError(f"of {count:,} messages, {[one['events'] for one in found]} were taken")
    return clients * count / (max(one["ended"] for one in found) - min(one["began"] for one in found))


def _latency(report: Report, remote: Remote, token: str, sizes: Sizes) -> None:
    query = remote.register(_QUERY)
    for _ in range(20):
        remote.send(STREAM, lines(10**9, 10), "nt")
    count = int(1000 * sizes.seconds)
    with (
        _client("following", remote.url, token, query.id, count) as follower,
        _client("paced", remote.url, token, count) as sender,
    ):
        _begin(sender)
        received = _result(follower)
        _begin(sender)
        sent = _result(sender)
    delays = sorted(1000 * (after - before) for before, after in zip(sent, received, strict=True))
    for name, share, target in (("p50", 0.5, 5.0), ("p99", 0.99, 20.0)):
        report.add(
            "latency",
            f"event to subscriber, 1,000 events/s, {name}",
            delays[min(len(delays) - 1, int(share * len(delays)))],
            "ms",
            target=target,
            at_most=True,
        )


def _many(report: Report, remote: Remote, sizes: Sizes) -> None:
    """What events cost with one query, and with many of few shapes, whose variables all have other names."""

    def cost() -> float:
        bodies = [lines(n, 100) for n in range(0, 10_000, 100)]
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            for body in bodies:
                remote.send(STREAM, body, "nt")
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
