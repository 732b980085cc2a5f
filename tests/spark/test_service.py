"""The service with its queries on Spark: the same requests, and the rows of the service in one process."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server import killed_server
from tests.server.killed_server import Load, Process, follow
from tests.server.serving import ALL, PAIRS, Client, Clock, S, Served, serving, triple
from tests.spark.test_failures import descendants, kill
from thalweg.arguments import static_data_of
from thalweg.errors import DataError, UsageError
from thalweg.server.log import SPARK, Folder
from thalweg.server.service import Service
from thalweg.spark.service import JobSettings, SparkService
from thalweg.static.data import StaticData

STATIC = "<http://ex/d> <http://ex/p> <http://ex/e> .\n"
JOINED = PAIRS.replace("?a ?c FROM", "?a ?e FROM").replace("?c }", "?e }").replace("10s", "1h")
PATIENCE = 180.0


@contextmanager
def on_spark(path: Path, spark: Any, **given: Any) -> Iterator[Served]:
    clock = Clock()
    service = SparkService(
        path, clock=clock, shards=1, static=static_data_of(STATIC), spark=lambda shards: spark, **given
    )
    with serving(path, service=service, clock=clock) as served:
        yield served


@contextmanager
def in_process(path: Path, **given: Any) -> Iterator[Served]:
    with serving(path, **given) as served:
        served.client("PUT", "/static", STATIC, "text/turtle")
        yield served


def settled(served: Served) -> None:
    """Waits until the job has read everything."""
    if isinstance(served.service, SparkService):
        until(lambda: served.service.failure or waiting(served.client) == 0)
        assert served.service.failure is None


def waiting(client: Client) -> int:
    text = client("GET", "/metrics").data.decode()
    return int(text.partition("\nthalweg_job_waiting ")[2].split("\n")[0])


def until(what: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, "nothing happened for too long"
        time.sleep(0.1)


def netted(rows: list[Any]) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row["at"], json.dumps(row["bindings"], sort_keys=True)] += -1 if row["op"] == "-" else 1
    return Counter({key: count for key, count in sums.items() if count})


def script(serve: Any, path: Path) -> dict[str, Any]:
    """Queries that come and go, and events between them; a restart in the middle."""
    found: dict[str, Any] = {}
    with serve(path) as served:
        client = served.client
        pairs = client.register(PAIRS).json["id"]
        renamed = client.register(PAIRS.replace("?a", "?first")).json["id"]
        everything = client.register(ALL).json["id"]
        got: list[dict[str, str]] = []
        follower = threading.Thread(target=lambda: got.extend(served.other(client.token).events(everything)))
        follower.start()
        answers = [client.post(triple("a", "b") + "broken\n" + triple("b", "c"), at=1000).json]
        answers += [client.post(triple("c", "d"), at=4000).json, client.post(triple("late", "er"), at=1).json]
        client.post(f"DELETE DATA {{ {triple('b', 'c')} }}", at=5000, kind="application/sparql-update")
        settled(served)
        found["answers"] = answers
        found["all"] = netted(client.results(everything))
        assert client("DELETE", f"/queries/{everything}").status == 204
        follower.join(30)
        assert not follower.is_alive()
        assert json.loads(got.pop()["data"]) == {"reason": "dropped"}
        assert [int(one["id"]) for one in got] == list(range(1, len(got) + 1))
        found["followed"] = netted([json.loads(one["data"]) for one in got])
        joined = client.register(JOINED, lease="10m").json["id"]
        found["plans"] = len(client("GET", "/queries").json["items"])
        client.post(triple("c", "d"), at=6000)
        settled(served)
        before = client.results(pairs)
    with serve(path) as served:
        client = served.client
        assert client.results(pairs) == before
        assert client("GET", f"/queries/{joined}").json["lease"] == "600000ms"
        client.post(triple("x", "c"), at=8000)
        client.post("", more="&advance=1970-01-01T00:01:00Z")
        settled(served)
        rows = client.results(pairs)
        assert rows[: len(before)] == before
        assert [row["id"] for row in rows] == list(range(1, len(rows) + 1))
        found["pairs"], found["joined"] = netted(rows), netted(client.results(joined))
        found["renamed"] = sorted(map(str, (row["bindings"] for row in client.results(renamed))))
        if isinstance(served.service, SparkService):
            refusals(client, joined)
    return found


def refusals(client: Client, id: str) -> None:
    """What Spark cannot do is refused, with a reason, and changes nothing."""
    derived = "REGISTER RSTREAM <http://ex/d> AS CONSTRUCT { ?a ?p ?b } FROM STREAM <http://ex/s> WHERE { ?a ?p ?b }"
    for answer, word in (
        (client("GET", f"/queries/{id}/answer"), "present answer"),
        (client("GET", "/sparql?query=ASK%20%7B%7D"), "content"),
        (client("GET", "/graphs?default"), "content"),
        (client.stream(retention="1h"), "retention"),
        (client("PUT", "/static", STATIC, "text/turtle"), "--static"),
        (client.register(ALL, start="content"), "now"),
        (client.register(derived), "derives"),
    ):
        assert answer.status == 501, answer
        assert word in answer.json["error"]
    assert client.register("SELECT ?a WHERE {").status == 400
    assert (
        client.register("SELECT ?a FROM <http://ex/g> FROM STREAM <http://ex/s> { ?a ?p ?b }").status == 400
    )
    assert client("GET", "/health").status == 200
    page = client("GET", f"/queries/{id}").json
    assert page["state"] == {"rows": None, "bytes": None, "window_bytes": None}
    assert page["watermarks"] == {S: "1970-01-01T00:01:00Z"}


@pytest.mark.spark
def test_the_service_on_spark_gives_the_rows_of_the_service_in_one_process(
    spark: Any, tmp_path: Path
) -> None:
    there = script(lambda path: on_spark(path, spark), tmp_path / "spark")
    here = script(in_process, tmp_path / "here")
    assert there == here
    assert here["joined"]
    assert here["pairs"]


def test_a_data_folder_is_of_one_engine(tmp_path: Path) -> None:
    Service(tmp_path / "here").close()
    with pytest.raises(UsageError, match="in its own process: give --on local"):
        Folder(tmp_path / "here", engine=SPARK)
    Folder(tmp_path / "there", engine=SPARK).close()
    with pytest.raises(UsageError, match="on Spark: give --on spark"):
        Service(tmp_path / "there")
    Folder(tmp_path / "there", engine=SPARK).close()


def test_the_settings_of_a_job_stay_as_they_were_at_its_first_start(tmp_path: Path) -> None:
    none, some = StaticData(), static_data_of(STATIC)
    made = JobSettings.kept(tmp_path / "a", 3, "5s", none)
    assert JobSettings.kept(tmp_path / "a", None, 0, none) == made
    with pytest.raises(UsageError, match="with --shards 3"):
        JobSettings.kept(tmp_path / "a", 2, 0, none)
    with pytest.raises(UsageError, match="with no static data"):
        JobSettings.kept(tmp_path / "a", None, 0, some)
    JobSettings.kept(tmp_path / "b", 1, 0, some)
    with pytest.raises(UsageError, match="with some static data"):
        JobSettings.kept(tmp_path / "b", None, 0, none)
    with pytest.raises(UsageError, match="with other static data"):
        JobSettings.kept(tmp_path / "b", None, 0, static_data_of(STATIC * 2 + triple("z", "z")))
    (tmp_path / "b" / "settings.json").write_text("{")
    with pytest.raises(DataError, match="cannot be read"):
        JobSettings.kept(tmp_path / "b", None, 0, some)


@pytest.mark.spark
def test_a_checkpoint_that_is_behind_the_log_is_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path, engine=SPARK)
    folder.log.append([b'{"kind": "batch", "batch": 5}\n{"rows": {}, "notices": []}'])
    folder.close()
    with pytest.raises(DataError, match="ends with batch -1 and the log with 5"):
        SparkService(tmp_path, spark=lambda shards: pytest.fail("Spark is not started"))
    Folder(tmp_path, engine=SPARK).close()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--on", "spark"], "Spark needs Java 17 or newer, and there is none"),
        (["--on", "spark", "--threads", "2"], "--threads is for queries in this process"),
        (["--on", "spark", "--max-memory", "9"], "--max-memory is for queries in this process"),
        (["--on", "spark", "--static", "none.ttl"], "none.ttl"),
        (["--shards", "2"], "--shards is for --on spark"),
        (["--static", "people.nt"], "--static is for --on spark"),
    ],
)
def test_a_server_that_cannot_start_says_why_and_ends_with_2(
    thalweg: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], reason: str
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    done = thalweg("serve", "--data", "data", "--port", "0", *arguments)
    assert done.code == 2
    assert reason in done.err
    assert len(done.err.splitlines()) == 1


def java_of(server: Process) -> int:
    """The Java of a server's Spark."""
    found = [
        number
        for number, command in descendants(server.process.pid).items()
        if "java" in command.split("\0")[0]
    ]
    return found[0]


@pytest.mark.spark
@pytest.mark.soak
def test_nothing_is_lost_and_nothing_comes_twice_when_a_server_on_spark_is_killed(tmp_path: Path) -> None:
    data, kills = tmp_path / "data", 2
    options = ("--on", "spark", "--shards", "2", "--snapshot-bytes", "20000", "--buffer", "1000000")
    load, rows, id = Load(), list[tuple[int, str]](), ""
    for k in range(kills):
        server = Process(data, *options, "--no-log-requests")
        if not id:
            id = server.client().register(killed_server.QUERY, lease="2h").json["id"]
        follower = threading.Thread(target=follow, args=(server, id, rows))
        follower.start()
        threads = load.run(server, 2)
        before = len(rows)
        until(lambda before=before: len(rows) > before + 10)
        time.sleep(k % 3)
        java = java_of(server)
        server.end(signal.SIGKILL)
        for thread in (*threads, follower):
            thread.join(30)
        until(lambda java=java: not Path(f"/proc/{java}").exists())
    server = Process(data, *options, "--no-log-requests")
    follower = threading.Thread(target=follow, args=(server, id, rows))
    follower.start()
    until(lambda: waiting(server.client()) == 0)
    last = server.client()("GET", f"/queries/{id}").json["last"]
    until(lambda: len(rows) >= last)
    assert server.end(signal.SIGTERM) == 0
    follower.join(30)
    assert [number for number, _ in rows] == list(range(1, len(rows) + 1))
    received = [int(term.removeprefix("<http://ex/").removesuffix(">")) for _, term in rows]
    assert len(set(received)) == len(received)
    assert load.acknowledged <= set(received) <= load.sent


@pytest.mark.spark
@pytest.mark.soak
def test_a_job_that_fails_is_seen_in_the_health_and_takes_no_writes(tmp_path: Path) -> None:
    server = Process(tmp_path / "data", "--on", "spark", "--shards", "1", "--no-log-requests")
    client = server.client()
    id = client.register(ALL).json["id"]
    client.post(triple("a", "b"), at=1)
    until(lambda: client.results(id))
    assert client("GET", "/health").status == 200
    kill(java_of(server))
    until(lambda: client("GET", "/health").status == 503)
    assert "the job on Spark has ended" in client("GET", "/health").json["reason"]
    for answer in (client.post(triple("b", "c"), at=2), client.register(ALL)):
        assert answer.status == 503
    assert len(client.results(id)) == 1
    assert server.end(signal.SIGTERM) == 0
    again = Process(tmp_path / "data", "--on", "spark", "--no-log-requests")
    again.client().post(triple("b", "c"), at=2)
    until(lambda: len(again.client().results(id)) == 2)
    assert again.end(signal.SIGTERM) == 0
