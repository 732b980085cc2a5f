"""Kept streams: every event is in the store once, whatever stops the server or the process of the store."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from websockets.sync.client import connect

from tests.server.serving import Answer, Client, S, Served, serving, triple
from thalweg.errors import UsageError
from thalweg.server.service import Service

COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
T = "http://ex/t"


def ask(client: Client, text: str, more: str = "", accept: str = "text/csv") -> Answer:
    return client("GET", f"/store/sparql?query={quote(text)}{more}", headers={"Accept": accept})


def rows(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.data
    return sorted(answer.data.decode().split("\r\n")[1:-1])


def counts(client: Client) -> tuple[int, int]:
    """Triples, and events: an event that was kept twice changes the second alone."""
    number = int(rows(ask(client, COUNT))[0])
    return number, client("GET", "/store").json["events"]


def until(condition: Callable[[], object]) -> None:
    given_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < given_up
        time.sleep(0.01)


def pid_of_keeper(served: Served) -> int:
    """The process of the store, which is a child of this one."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            if str(served.service.keeping.path).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(int(pid))
    (pid,) = found
    return pid


def settle(served: Served) -> None:
    until(lambda: served.service.keeping.settled(wait=False))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("kept") / "data") as served:
        assert served.client("GET", "/store").status == ask(served.client, "ASK {}").status == 404
        served.client.stream(keep=True)
        served.client.post(triple("a", "b"), at=1000)
        served.client.post(triple("c", "d"), at=2000)
        event = {"at": "1970-01-01T00:00:03Z", "op": "delete", "graph": triple("a", "b")}
        served.client.post(json.dumps(event), kind="application/x-ndjson")
        yield served


def test_events_are_asked_for_now_and_as_of_an_instant(kept: Served) -> None:
    text = "SELECT ?s { ?s <http://ex/p> ?o }"
    assert rows(ask(kept.client, text)) == ["http://ex/c"]
    assert rows(ask(kept.client, text, "&as-of=1970-01-01T00:00:02Z")) == ["http://ex/a", "http://ex/c"]
    window = "&as-of=1970-01-01T00:00:01Z/1970-01-01T00:00:02Z"
    assert rows(ask(kept.client, text, window)) == ["http://ex/c"]
    named = "SELECT ?g { GRAPH ?g { ?s ?p ?o } }"
    assert rows(ask(kept.client, named)) == [S]
    posted = kept.client("POST", "/store/sparql", "ASK { ?s ?p ?o }", "application/sparql-query")
    assert posted.json["boolean"] is True
    graph = ask(kept.client, "CONSTRUCT WHERE { ?s ?p ?o }", accept="text/turtle")
    assert (graph.status, b"<http://ex/c>" in graph.data) == (200, True)


def test_the_store_is_described_counted_and_measured(kept: Served) -> None:
    settle(kept)
    page = kept.client("GET", f"/streams/{quote(S, safe='')}").json
    assert (page["keep"], page["kept_events"], page["events"]) == (True, 3, 3)
    assert kept.client("GET", "/store").json["streams"] == [{"name": S, "events": 3}]
    lines = kept.client("GET", "/metrics").data.decode().splitlines()
    assert f'thalweg_kept_events_total{{stream="{S}"}} 3' in lines
    assert "thalweg_store_failing 0" in lines
    about = kept.client("GET", "/store/sparql", headers={"Accept": "text/turtle"})
    assert (about.status, S.encode() in about.data) == (200, True)


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("&as-of=yesterday", 400),
        ("&as-of=1970-01-01T00:00:02Z/1970-01-01T00:00:01Z", 400),
        ("&as-of=1970-01-01T00:00:02Z&as-of=1970-01-01T00:00:02Z", 400),
        ("&default-graph-uri=http://ex/s", 400),
    ],
)
def test_wrong_parameters_are_refused(kept: Served, more: str, status: int) -> None:
    answer = ask(kept.client, "ASK {}", more)
    assert (answer.status, "error" in answer.json) == (status, True), answer.data


def test_wrong_questions_are_refused(kept: Served) -> None:
    client = kept.client
    wrong = ask(client, "SELECT * {\n nonsense }")
    assert (wrong.status, wrong.json["line"]) == (400, 2)
    assert ask(client, "SELECT * { SERVICE <http://127.0.0.1:7/> { ?s ?p ?o } }").status == 400
    assert ask(client, "ASK {}", accept="image/png").status == 406
    assert client("POST", "/store/sparql", "ASK {}", "text/plain").status == 415
    update = client("POST", "/store/sparql", "INSERT DATA { <a:a> <a:b> 1 }", "application/sparql-update")
    assert update.status == 400
    assert client("PUT", "/store/sparql", "ASK {}", "application/sparql-query").status == 405
    assert kept.other("x" * 30)("GET", "/store").status == 401
    assert kept.other(None)("GET", "/store", headers={"Host": "evil.example"}).status == 403


def test_a_query_that_takes_too_long_ends(kept: Served) -> None:
    values = " ".join(map(str, range(60)))
    product = " ".join(f"VALUES ?v{k} {{ {values} }}" for k in range(8))
    state = kept.running.app.state
    usual, state.bounds = state.bounds, replace(state.bounds, seconds=2.0)
    answer = ask(kept.client, f"SELECT (COUNT(*) AS ?n) {{ {product} FILTER(?v0 + ?v7 != 7) }}")
    state.bounds = usual
    assert (answer.status, "longer than 2 s" in answer.json["error"]) == (503, True), answer.data
    assert ask(kept.client, "ASK {}").status == 200


def test_derived_streams_are_not_kept(kept: Served) -> None:
    text = f"""REGISTER STREAM <{T}> AS CONSTRUCT {{ ?a <http://ex/q> ?b }}
        FROM STREAM <{S}> [RANGE 10s] WHERE {{ ?a <http://ex/p> ?b }}"""
    path = f"/streams/{quote(T, safe='')}"
    kept.client("PUT", path, {"keep": True})
    refused = kept.client.register(text)
    assert (refused.status, "keep" in refused.json["error"]) == (409, True), refused.data
    kept.client("PUT", path, {"keep": False})
    assert kept.client.register(text).status == 201
    assert kept.client("PUT", path, {"keep": True}).status == 409


@contextmanager
def copied(served: Served, path: Path, store: Path | None) -> Iterator[Served]:
    """A server on the data folder as a crash leaves it, with some state of the store; None: with none."""
    folder = served.service.folder.path
    shutil.copytree(folder, path, ignore=shutil.ignore_patterns("lock", "store"))
    if store is not None:
        shutil.copytree(store, path / "store", ignore=shutil.ignore_patterns("lock"))
    with serving(path, settings={"keep": True}) as again:
        yield again


@pytest.mark.slow
def test_a_crash_neither_loses_nor_doubles_events(tmp_path: Path) -> None:
    """The store may have come as far as the log, or less far, or have kept nothing yet."""
    with serving(tmp_path / "a", settings={"keep": True}) as served:
        client = served.client
        client.stream()
        kinds = [
            (triple(1, 1) + triple(2, 2), "application/n-triples"),
            ("<http://ex/3> <http://ex/p> [ <http://ex/p> 1 ] .", "text/turtle"),
            ("INSERT DATA { <http://ex/4> <http://ex/p> 4 }", "application/sparql-update"),
        ]
        for at, (text, kind) in enumerate(kinds):
            assert client.post(text, at=1 + at, kind=kind).status == 200
        settle(served)
        middle = tmp_path / "middle"
        shutil.copytree(served.service.keeping.path, middle)
        address = f"ws://127.0.0.1:{served.running.port}/streams/{quote(S, safe='')}?at=1970-01-01T00:00:09Z"
        headers = {"Authorization": f"Bearer {client.token}"}
        with connect(address, additional_headers=headers) as socket:
            for n in range(20):
                socket.send(triple(f"m{n}", n))
            for _ in range(20):
                assert json.loads(socket.recv())["events"] == 1
        client.post(triple("late", 1), at=1)  # too late for queries, and kept
        client.post(triple("key", 1), at=9000, more="&key=1")
        settle(served)
        expected = counts(client)
        assert expected[0] == 2 + 2 + 1 + 20 + 2
        content = ask(client, "SELECT ?o { ?s ?p ?o FILTER(isLiteral(?o)) }")
        for k, store in enumerate((None, middle, served.service.keeping.path)):
            with copied(served, tmp_path / str(k), store) as again:
                assert counts(again.client) == expected, k
                assert rows(ask(again.client, "SELECT ?o { ?s ?p ?o FILTER(isLiteral(?o)) }")) == rows(
                    content
                )
                again.client.post(triple("more", 1), at=10_000)
                assert counts(again.client) == (expected[0] + 1, expected[1] + 1)


def test_a_snapshot_waits_for_the_store(tmp_path: Path) -> None:
    with serving(tmp_path / "a", snapshot_bytes=2000) as served:
        served.client.stream(keep=True)
        served.client.post(triple(0, 0), at=1)
        settle(served)
        pid = pid_of_keeper(served)
        before = served.service.counters["snapshots"]
        os.kill(pid, signal.SIGSTOP)
        try:
            count = 1
            while served.service.folder.log.size < 3000:
                assert served.client.post(triple(count, 0), at=1).status == 200
                count += 1
            assert served.service.counters["snapshots"] == before
            with copied(served, tmp_path / "b", served.service.keeping.path) as again:
                assert counts(again.client) == (count, count)
        finally:
            os.kill(pid, signal.SIGCONT)
        served.client.post(triple(count, 0), at=1)
        settle(served)
        served.client("GET", "/queries")  # whatever comes next
        until(lambda: served.service.counters["snapshots"] > before)
        assert counts(served.client) == (count + 1, count + 1)
        with copied(served, tmp_path / "c", served.service.keeping.path) as again:
            assert counts(again.client) == (count + 1, count + 1)


def test_a_full_disk_of_the_store_is_said_and_loses_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "a", limits={"waiting": 400}) as served:
        client = served.client
        client.stream(keep=True)
        client("PUT", f"/streams/{quote(T, safe='')}", {})
        client.post(triple("a", "b"), at=1)
        settle(served)
        pid = pid_of_keeper(served)
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (10, most))
        taken = 0
        while client.post(triple(taken, "x"), at=2).status == 200:
            taken += 1
            if taken == 1:
                until(lambda: client("GET", "/health").status == 503)
        assert taken >= 5
        refused = client.post(triple("refused", "x"), at=2)
        assert (refused.status, "store" in refused.json["error"]) == (503, True), refused.data
        assert "store" in client("GET", "/health").json["reason"]
        assert client("POST", f"/streams/{quote(T, safe='')}?at=1", triple(1, 2), "text/turtle").status == 200
        assert ask(client, COUNT).status in (200, 503)
        pid = pid_of_keeper(served)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        until(lambda: client("GET", "/health").status == 200)
        assert counts(client) == (taken + 1, taken + 1)
        assert client.post(triple("more", "x"), at=2).status == 200


@pytest.mark.slow
def test_the_process_of_the_store_is_started_again(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as served:
        served.client.stream(keep=True)
        for n in range(10):
            served.client.post(triple(n, "x"), at=1)
            if n in (3, 7):
                settle(served)
                os.kill(pid_of_keeper(served), signal.SIGKILL)
        until(lambda: served.client("GET", "/health").status == 200)
        assert counts(served.client) == (10, 10)


def test_a_stream_that_goes_leaves_its_events_and_a_damaged_store_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as served:
        client = served.client
        client.stream(keep=True)
        client.post(triple("a", "b"), at=1)
        assert client("DELETE", f"/streams/{quote(S, safe='')}").status == 204
        client.stream(keep=True)
        client.post(triple("c", "d"), at=1)
        client.stream(keep=False)
        client.post(triple("e", "f"), at=1)
        assert counts(client) == (2, 2)
    (tmp_path / "a" / "store" / "store.json").write_text("{}")
    with pytest.raises(UsageError, match="manifest"):
        Service(tmp_path / "a")
