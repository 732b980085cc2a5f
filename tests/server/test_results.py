"""Results over HTTP: Server-Sent Events, long polling and WebSockets; resumption, gaps, slow readers."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

import pytest
from websockets.sync.client import connect

from tests.server.serving import ALL, Served, serving, triple

CONSTRUCT = """CONSTRUCT { ?a <http://ex/q> ?b } FROM STREAM <http://ex/s> [RANGE 10s]
WHERE { ?a <http://ex/p> ?b }"""


def many(served: Served, first: int, count: int, at: int = 1, o: str = "o") -> None:
    text = "".join(triple(n, o) for n in range(first, first + count))
    assert served.client.post(text, at=at).status == 200


def test_events_are_resumed_without_loss_or_doubles(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    many(served, 0, 50)
    events = served.client.events(id)
    first = [next(events) for _ in range(20)]
    events.close()
    many(served, 50, 50)
    events = served.client.events(id, after=int(first[-1]["id"]))
    rest = [next(events) for _ in range(80)]
    events.close()
    assert [int(one["id"]) for one in first + rest] == list(range(1, 101))
    found = [json.loads(one["data"])["bindings"]["a"] for one in first + rest]
    assert len(set(found)) == 100


def test_a_long_poll_waits_for_the_first_row(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    assert served.client.results(id, more="&wait=10ms") == []
    timer = threading.Timer(
        0.2, lambda: many(Served(served.running, served.other(served.client.token), served.clock), 0, 3)
    )
    timer.start()
    began = time.monotonic()
    answer = served.client("GET", f"/queries/{id}/results?wait=20s")
    assert 0.1 < time.monotonic() - began < 10
    assert [row["id"] for row in answer.lines] == [1, 2, 3]
    assert answer.headers["thalweg-last"] == "3"
    assert [row["id"] for row in served.client.results(id, after=1, more="&limit=1")] == [2]
    assert served.client("GET", f"/queries/{id}/results?after=last").lines == []
    timer.join()


def test_a_socket_has_the_rows_and_the_end(served: Served) -> None:
    id = served.client.register(ALL).json["id"]
    many(served, 0, 3)
    with connect(f"ws://127.0.0.1:{served.running.port}/queries/{id}/results?after=1") as one:
        rows = [json.loads(line) for line in one.recv().splitlines()]
        assert [row["id"] for row in rows] == [2, 3]
        many(served, 3, 1)
        assert json.loads(one.recv())["id"] == 4
        served.client("DELETE", f"/queries/{id}")
        assert json.loads(one.recv()) == {"op": "end", "reason": "dropped"}


def test_rows_have_the_format_that_is_asked_for(served: Served) -> None:
    select, construct = (served.client.register(text).json["id"] for text in (ALL, CONSTRUCT))
    many(served, 0, 1)
    served.client.post("", more="&advance=1970-01-01T00:01:00Z")
    accept = {"Accept": "application/sparql-results+json"}
    row = served.client("GET", f"/queries/{select}/results", headers=accept).lines[0]
    assert row["head"] == {"vars": ["a", "b"]}
    assert row["results"]["bindings"][0]["a"] == {"type": "uri", "value": "http://ex/0"}
    assert row["op"] == "+"
    answer = served.client("GET", f"/queries/{construct}/results?format=nq&limit=1")
    assert answer.data == b"<http://ex/0> <http://ex/q> <http://ex/o> .\n"
    assert answer.headers["content-type"].startswith("application/n-quads")
    events = served.client.events(construct, more="format=nq")
    assert [next(events)["event"] for _ in range(2)] == ["+", "-"]
    assert served.client("GET", f"/queries/{select}/results?format=nq").status == 400
    assert served.client("GET", f"/queries/{select}/results?format=odd").status == 400
    assert served.client("GET", f"/queries/{select}/results?after=99").status == 400
    assert served.client("GET", "/queries/none/results").status == 404


def test_who_missed_rows_gets_a_gap(tmp_path: Path) -> None:
    with serving(tmp_path, settings={"buffer": 10}) as served:
        id = served.client.register(ALL).json["id"]
        many(served, 0, 5)
        many(served, 5, 25)
        gap, *rows = served.client.results(id, after=3)
        assert gap == {"op": "gap", "first": 4, "last": 20, "missed": 17}
        assert [row["id"] for row in rows] == list(range(21, 31))
        event = next(served.client.events(id, after=3))
        assert (event["event"], event["id"], json.loads(event["data"])) == ("gap", "20", gap)
        with connect(f"ws://127.0.0.1:{served.running.port}/queries/{id}/results?after=3") as one:
            assert json.loads(one.recv()) == gap


@pytest.mark.slow
def test_a_slow_reader_gets_a_gap_and_slows_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, settings={"buffer": 2000}) as served:
        id = served.client.register(ALL).json["id"]
        slow = socket.create_connection(("127.0.0.1", served.running.port))
        slow.sendall(
            f"GET /queries/{id}/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        quick = served.client.events(id)
        received = 0
        for k in range(15):
            many(served, 1000 * k, 1000, at=1 + k, o="o" * 1200)
            for _ in range(1000):
                event = next(quick)
                assert event.get("event") is None, event
                received += 1
        assert received == 15_000
        data = b""
        slow.settimeout(5)
        while b'"last": ' not in data or b"event: gap" not in data:
            part = slow.recv(1 << 16)
            assert part
            data += part
        assert b"event: gap" in data
        slow.close()
        many(served, 10**6, 1, at=100)
        quick.close()


def test_the_server_ends_with_a_word_to_subscribers(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        id = served.client.register(ALL).json["id"]
        many(served, 0, 1)
        events = served.client.events(id)
        next(events)
        served.running.stop()
        assert json.loads(next(events)["data"]) == {"reason": "shutdown"}
