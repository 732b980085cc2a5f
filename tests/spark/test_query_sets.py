"""Sets of queries that come and go while a job runs: each has the answers that a session gives it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.spark.fakes import Play, Store, new_worker, payloads_of
from thalweg.engine import Session
from thalweg.errors import QueryError, UsageError
from thalweg.instants import show_instant
from thalweg.options import RunOptions
from thalweg.spark.query_sets import QuerySet
from thalweg.spark.results import unpack_named_results
from thalweg.spark.set_engine import AFTER_EVENTS, ORDER
from thalweg.spark.set_plan import SetPlan
from thalweg.testing.snapshot import Event
from thalweg.testing.strategies import any_windows, questions, streams

CHAIN = (
    "SELECT ?x ?z FROM STREAM <http://ex/s> [RANGE 10] WHERE { ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }"
)
TRIPLE = "{ ?x <http://ex/p> ?y }"
SUBPROPERTY = "<http://ex/q> <http://www.w3.org/2000/01/rdf-schema#subPropertyOf> <http://ex/p> ."
STATIC = """SELECT ?x FROM NAMED <http://ex/g> FROM STREAM <http://ex/s>
    WHERE { ?x <http://ex/p> ?y GRAPH <http://ex/g> { ?y <http://ex/q> ?w } }"""
ALL = "SELECT ?x ?y FROM STREAM <http://ex/s> WHERE { ?x <http://ex/p> ?y }"


class PlaySet(Play):
    """A set of queries, batch by batch."""

    def __init__(self, plan: SetPlan) -> None:
        self.job = plan  # type: ignore[assignment]
        self.plans = [plan]
        self.shards = len(plan.keys)
        self.stages = [[Store() for _ in plan.keys]]
        self.stores = self.stages[0]
        self.found: list[dict[str, Any]] = []
        self.replayed = []
        self.clock = 0

    def _taken(self, stage: int, made: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
        blobs = [frame["results"].item() for frame in made]
        packed = pa.table({"results": pa.array([blob for blob in blobs if blob is not None], pa.binary())})
        for batch in unpack_named_results(iter(packed.to_batches())):
            self.found += batch.to_pylist()
        self.replayed += [frame["replayed"].item() for frame in made if frame["results"].item() is None]
        return []

    def orders(self, *orders: dict[str, Any]) -> list[pa.RecordBatch]:
        cells = {"shard": 0, "stream": "", "source": "", "part": 0, "syntax": ORDER, "last": False}
        counts = dict.fromkeys(("bytes", "statements", "kept", "sent", "reading"), 0)
        return [
            pa.RecordBatch.from_pylist(
                [
                    {
                        **cells,
                        **counts,
                        "key": key,
                        "seq": AFTER_EVENTS + k,
                        "chunk": json.dumps(order).encode(),
                    }
                    for key in self.job.keys
                ]
            )
            for k, order in enumerate(orders)
        ]

    def notices(self) -> list[tuple[str, str]]:
        return [(row["query"], row["op"]) for row in self.found if row["at"] is None]

    def sums(self, name: str) -> Counter[Any]:
        rows = [row for row in self.found if row["query"] == name and row["at"] is not None]
        return _netted((round(row["at"].timestamp() * 1e6), row["op"], dict(row["bindings"])) for row in rows)


def _netted(rows: Any) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for at, op, bindings in rows:
        sums[at, frozenset(bindings.items()), op == "0"] += -1 if op == "-" else 1
    return Counter({key: count for key, count in sums.items() if count})


def register(name: str, text: str, **more: str) -> dict[str, Any]:
    return {"op": "register", "query": name, "text": text, **more}


def event(time: int, text: str, op: str = "insert") -> Event:
    s, p, o = text.split()
    return Event("http://ex/s", 1000 * time, ((s, p, o),), op=op)


@given(data=st.data())
def test_queries_that_come_and_go_have_the_answers_of_a_session_whatever_workers_do(
    data: st.DataObject,
) -> None:
    events = data.draw(streams(max_events=20, deletes=True))
    plan = SetPlan(RunOptions(shards=data.draw(st.sampled_from([1, 2, 3])), lateness=0))
    play, session = PlaySet(plan), Session()
    running: dict[str, Any] = {}
    expected: dict[str, list[Any]] = {}
    number = 0
    while events or number == 0:
        orders = []
        for _ in range(data.draw(st.integers(0, 2))):
            if running and data.draw(st.booleans()):
                name = data.draw(st.sampled_from(sorted(running)))
                expected[name] += running[name].poll()
                session.unregister(running.pop(name))
                orders.append({"op": "drop", "query": name})
            else:
                number += 1
                text = data.draw(questions(events, window=any_windows(), max_blocks=2, max_patterns=2)).text()
                running[f"q{number}"] = session.register(text)
                expected[f"q{number}"] = []
                orders.append(register(f"q{number}", text))
        number = max(number, 1)
        count = data.draw(st.sampled_from([1, 3, 6]))
        now, events = events[:count], events[count:]
        what = data.draw(st.sampled_from(["go on", "new worker", "retry"]))
        if what == "new worker":
            new_worker()
        play.batch([*play.orders(*orders), *payloads_of(plan, now)], retry=what == "retry")  # type: ignore[arg-type]
        for one in now:
            at = show_instant(one.time)
            session.push(one.stream, at=at, graph=one.text, op=one.op)
    for name, query in running.items():
        expected[name] += query.poll()
    for name, rows in expected.items():
        assert play.sums(name) == _netted((int(row.at), row.op, row.bindings) for row in rows), name
    assert not [name for name, op in play.notices() if op == "error"]


def test_a_query_sees_what_comes_from_its_batch_on_and_nothing_after_it_is_dropped() -> None:
    play = PlaySet(plan := SetPlan(RunOptions(shards=2)))
    for time, orders in (
        (1, []),
        (2, [register("all", ALL)]),
        (3, []),
        (4, [{"op": "drop", "query": "all"}]),
    ):
        new_worker()
        play.batch(
            [
                *play.orders(*orders),
                *payloads_of(plan, [event(time, f"<http://ex/{time}> <http://ex/p> <http://ex/o>")]),
            ]
        )  # type: ignore[arg-type]
    assert [row["bindings"][0][1] for row in play.found if row["op"] == "+"] == [
        "<http://ex/2>",
        "<http://ex/3>",
    ]
    assert play.notices() == [("all", "registered"), ("all", "dropped")]
    assert play.log() == 0, "nothing is kept for queries that are gone"


def test_a_wrong_order_is_a_row_and_the_others_go_on() -> None:
    play = PlaySet(plan := SetPlan(RunOptions(shards=2)))
    orders = [
        register("bad", "SELECT ?x WHERE { ?x"),
        register("good", ALL),
        register("good", CHAIN),
        register("static", "SELECT * FROM <http://ex/g> FROM STREAM <http://ex/s> WHERE { ?x ?p ?y }"),
        register(
            "derived",
            "REGISTER ISTREAM <http://ex/d> AS CONSTRUCT { ?x ?p ?y } FROM STREAM <http://ex/s> WHERE { ?x ?p ?y }",
        ),
        {"op": "drop", "query": "none"},
        {"op": "rename", "query": "good"},
        {"op": "register", "text": ALL},
        register("closed", ALL, schema="this is no Turtle"),
    ]
    play.batch(
        [*play.orders(*orders), *payloads_of(plan, [event(1, "<http://ex/a> <http://ex/p> <http://ex/b>")])]
    )  # type: ignore[arg-type]
    errors = {row["query"]: dict(row["bindings"])["message"] for row in play.found if row["op"] == "error"}
    assert sorted(play.notices()) == [
        ("?", "error"),
        ("bad", "error"),
        ("closed", "error"),
        ("derived", "error"),
        ("good", "error"),
        ("good", "error"),
        ("good", "registered"),
        ("none", "error"),
        ("static", "error"),
    ]
    assert "bad:1:" in errors["bad"], "a message has the place of the error"
    assert [row["query"] for row in play.found if row["op"] == "+"] == ["good"]


def test_a_query_under_a_schema_outlives_its_worker_and_a_saved_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("thalweg.spark.shard_engine._FULL", 4)
    play = PlaySet(plan := SetPlan(RunOptions()))
    play.batch(play.orders(register("closed", ALL, schema=SUBPROPERTY), register("gone", CHAIN)))
    for time in range(1, 40):
        text = f"<http://ex/{time % 3}> <http://ex/q> <http://ex/o>"
        play.batch(payloads_of(plan, [event(time, text, "delete"), event(time, text)]))  # type: ignore[arg-type]
        if time == 20:
            play.batch(play.orders({"op": "drop", "query": "gone"}, register("gone", CHAIN)))
        new_worker()
    assert any(entry.mode == "saved" for entry in play.entries().values())
    assert sum(play.sums("closed").values()) == 3


def test_a_folder_of_orders_refuses_what_cannot_be_and_numbers_the_rest(tmp_path: Path) -> None:
    queries, others = QuerySet(tmp_path), QuerySet(tmp_path)
    queries.register("all", ALL)
    others.register(
        "chain",
        CHAIN,
        schema=SUBPROPERTY,
    )
    with pytest.raises(UsageError, match="drop it first"):
        others.register("all", ALL)
    with pytest.raises(QueryError, match="wrong:1:"):
        queries.register("wrong", "SELECT ?x WHERE { ?x")
    with pytest.raises(UsageError, match="no query with the name"):
        queries.drop("none")
    with pytest.raises(UsageError, match="no static graph <http://ex/g>"):
        queries.register("static", "SELECT * FROM <http://ex/g> FROM STREAM <http://ex/s> WHERE { ?x ?p ?y }")
    queries.drop("all")
    assert others.names == ["chain"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{k:012d}.json" for k in (1, 2, 3)]


@pytest.mark.spark
def test_one_job_on_spark_takes_queries_while_it_runs_and_after_a_restart(spark: Any, tmp_path: Path) -> None:
    import thalweg as tw

    source, checkpoint = tmp_path / "in", str(tmp_path / "checkpoint")
    source.mkdir()
    queries = tw.spark.QuerySet(tmp_path / "orders", graphs=["http://ex/g"])
    static = {"http://ex/g": "<http://ex/c> <http://ex/q> <http://ex/w> .\n"}
    found: list[Any] = []

    def run() -> list[tuple[str, str, str | None]]:
        events = spark.readStream.format("rdf").option("stream", "http://ex/s").load(str(source))
        answers = tw.spark.run_set(events, queries.read(spark), shards=2, static=static)
        start = len(found)
        job = (
            answers.writeStream.foreachBatch(lambda part, _: found.extend(part.collect()))
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        job.awaitTermination()
        return sorted((row["query"], row["op"], row["bindings"].get("x")) for row in found[start:])

    queries.register("all", ALL)
    (source / "1.nt").write_text("<http://ex/a> <http://ex/p> <http://ex/b> .\n")
    assert run() == [("all", "+", "<http://ex/a>"), ("all", "registered", None)]
    queries.register("chain", CHAIN)
    queries.register("static", STATIC)
    queries.drop("all")
    (source / "2.nt").write_text(
        "<http://ex/b> <http://ex/p> <http://ex/c> .\n<http://ex/c> <http://ex/p> <http://ex/d> .\n"
    )
    assert run() == [
        ("all", "dropped", None),
        ("chain", "+", "<http://ex/b>"),
        ("chain", "registered", None),
        ("static", "+", "<http://ex/b>"),
        ("static", "registered", None),
    ]
