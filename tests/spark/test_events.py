"""Frames of any source as events of a continuous query, on a real Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.fakes import run_frame, told
from thalweg.algebra.terms import Const
from thalweg.answers import Row
from thalweg.errors import UsageError

pytestmark = pytest.mark.spark
S, T = "http://ex/s", "http://ex/t"
AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 10s] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/q> ?z }}"
Push = tuple[str, int, str, str]
"""Stream, milliseconds, N-Triples, operation."""


def one_process(text: str, pushes: Sequence[Push]) -> list[Row]:
    """The answer of a session of this process to the same events, none of them late."""
    session = tw.Session()
    query = session.register(text)
    for stream, at, graph, op in sorted(pushes, key=lambda push: push[1]):
        session.push(stream, at=at, graph=graph, op=op)
    return query.poll()


def answers(frame: Any, checkpoint: str) -> list[Row]:
    """The rows of what is available."""
    return run_frame(frame, checkpoint)[0]


def triple(s: object, p: str, o: object) -> str:
    return f"<http://ex/{s}> <http://ex/{p}> <http://ex/{o}> ."


def stored(spark: Any, folder: Path, rows: list[tuple[Any, ...]], schema: str) -> Any:
    """Rows as a stream: the file source, which has a schema of its own."""
    spark.createDataFrame(rows, schema).coalesce(1).write.mode("append").parquet(str(folder))
    return spark.readStream.schema(schema).parquet(str(folder))


def joined(window: str) -> str:
    """A query over both streams, each through the same window."""
    return (
        f"SELECT ?x ?z FROM NAMED WINDOW <http://ex/w> ON <{S}> {window} "
        f"FROM NAMED WINDOW <http://ex/v> ON <{T}> {window} "
        "WHERE { WINDOW <http://ex/w> { ?x <http://ex/p> ?y } WINDOW <http://ex/v> { ?y <http://ex/q> ?z } }"
    )


def run_until(spark: Any, frame: Any, checkpoint: str, table: str, gone: int) -> None:
    """Runs a frame without an end into a table in memory, until so many of its rows have gone again."""
    query = (
        frame.writeStream.format("memory").queryName(table).option("checkpointLocation", checkpoint).start()
    )
    try:
        while spark.sql(f"select 1 from {table} where op = '-'").count() < gone:
            query.awaitTermination(0.2)
    finally:
        query.stop()


def steps(count: int) -> list[Push]:
    """A walk over few nodes, some steps of which are taken back later."""
    pushes = []
    for k in range(count):
        graph = triple(k % 7, "p", k * k % 5) + "\n" + triple(k * k % 5, "q", k % 3)
        pushes.append((S, 500 * k, graph, "insert"))
        if k % 4 == 3:
            pushes.append((S, 500 * k + 250, triple((k - 1) % 7, "p", (k - 1) ** 2 % 5), "delete"))
    return pushes


def test_rows_with_a_time_and_an_operation_are_events_over_two_shards_and_a_restart(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    pushes, folder = steps(60), tmp_path / "in"
    rows: list[Row] = []
    for part in (pushes[:30], pushes[30:]):
        frame = stored(spark, folder, [push[1:] for push in part], "at long, graph string, op string")
        events = tw.spark.events(frame, stream=S, payload="graph", time="at", op="op")
        rows += answers(tw.spark.run(events, CHAIN, shards=2), checkpoint)
    expected = one_process(CHAIN, pushes)
    assert told(rows) == told(expected)
    assert len(expected) > 100


def test_payloads_with_lone_carriage_returns_are_refused_line_by_line(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    good = triple(1, "p", 2) + "\r" + triple(2, "q", 3)
    frame = stored(
        spark, tmp_path / "in", [(0, "bad\rbad\rbad"), (1, good + "\rbad")], "at long, graph string"
    )
    events = tw.spark.events(frame, stream=S, payload="graph", time="at")
    refused = tmp_path / "refused"
    rows = answers(tw.spark.run(events, CHAIN, quarantine=str(refused), shards=2), checkpoint)
    assert [(row.at, row["x"], row["z"]) for row in rows] == [(1000, "<http://ex/1>", "<http://ex/3>")]
    records = [json.loads(line) for file in refused.glob("*.jsonl") for line in file.read_text().splitlines()]
    assert sorted((record["line"], record["text"]) for record in records) == [
        (k, "bad") for k in (1, 2, 3, 3)
    ]


def test_the_string_of_a_term_keeps_all_its_characters(spark: Any) -> None:
    texts = ['\ue000 \\ "', "\x01\x7f\\u0001", "\r\n\t\b\f\\n"]
    terms = [({"x": Const.literal(text).text},) for text in texts]
    frame = spark.createDataFrame(terms, "bindings map<string, string>")
    assert [row.x for row in tw.spark.columns(frame, {"x": "string"}).collect()] == texts


def test_frames_of_several_formats_and_files_of_another_stream_are_one_query(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    """Turtle with a timestamp, JSON-LD with a text, quads that say their times, and files of `format("rdf")`."""
    from pyspark.sql import functions as F  # noqa: N812

    text = joined("[RANGE 10s STEP 1s]")
    turtle = [(k * 1000, f"@prefix e: <http://ex/> . e:{k % 3} e:p e:{k % 4} .") for k in range(0, 20, 3)]
    json = [
        (
            f"1970-01-01T00:00:{k:02d}Z",
            f'{{"@id": "http://ex/{k % 3}", "http://ex/p": {{"@id": "http://ex/{k % 4}"}}}}',
        )
        for k in range(1, 20, 3)
    ]
    quads = [
        f'<http://ex/g{k}> {AT} "1970-01-01T00:00:{k:02d}Z" .\n<http://ex/{k % 3}> <http://ex/p> <http://ex/{k % 4}> '
        f"<http://ex/g{k}> .\n"
        for k in range(2, 20, 3)
    ]
    (tmp_path / "texts").mkdir()
    for number, quad in enumerate(quads):
        (tmp_path / "texts" / f"{number}.txt").write_text(quad)
    other = [(k, triple(k % 4, "q", k)) for k in range(20)]
    (tmp_path / "other.nt").write_text("".join(line + "\n" for _, line in other))
    first = tw.spark.events(
        stored(spark, tmp_path / "turtle", turtle, "at long, value string"),
        stream=S,
        format="turtle",
        time=F.timestamp_millis("at"),
    )
    second = tw.spark.events(
        stored(spark, tmp_path / "json", json, "at string, value string"),
        stream=S,
        format="jsonld",
        time="at",
    )
    third = tw.spark.events(
        spark.readStream.text(str(tmp_path / "texts"), wholetext=True), stream=S, format="nq"
    )
    files = (
        spark.readStream.format("rdf").options(stream=T, endOfStream="true").load(str(tmp_path / "other.nt"))
    )
    events = first.unionByName(second).unionByName(third).unionByName(files, allowMissingColumns=True)
    rows = answers(tw.spark.run(events, text, rate=1), checkpoint)
    pushes = [(S, k * 1000, triple(k % 3, "p", k % 4), "insert") for k in range(20)]
    expected = one_process(text, [*pushes, *((T, k * 1000, line, "insert") for k, line in other)])
    # The streams of frames never end: what waits for the second after the last event is not told.
    assert told(rows) == told([row for row in expected if row.at <= 19_000_000])
    assert len(rows) > 20


def test_a_rate_source_is_a_stream_of_made_up_events(spark: Any, checkpoint: str) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame = (
        spark.readStream.format("rate-micro-batch")
        .options(rowsPerBatch="10", startTimestamp="0", advanceMillisPerBatch="1000", numPartitions="2")
        .load()
    )
    payload = F.format_string("<http://ex/%d> <http://ex/p> <http://ex/%d> .", frame.value, frame.value % 10)
    events = tw.spark.events(frame, stream=S, payload=payload, time="timestamp")
    text = f"SELECT ?x ?y FROM STREAM <{S}> [RANGE 2s] WHERE {{ ?x <http://ex/p> ?y }}"
    run_until(spark, tw.spark.run(events, text), checkpoint, "made_up", gone=10)
    rows = spark.sql("select op, bindings['x'] x, cast(at as long) at from made_up").collect()
    came = {row.x: row.at for row in rows if row.op == "+"}
    went = {row.x: row.at for row in rows if row.op == "-"}
    assert all(went[x] == came[x] + 2 for x in went)
    assert {f"<http://ex/{k}>" for k in range(10)} <= set(went)


def test_a_stream_in_memory_is_a_source_that_takes_rows_between_two_runs(spark: Any, checkpoint: str) -> None:
    """Python has no way to make one: it is Spark's own, for tests, in the JVM."""
    from pyspark.sql import DataFrame

    jvm = spark._jvm
    memory = jvm.org.apache.spark.sql.execution.streaming.runtime.MemoryStream.apply(
        jvm.org.apache.spark.sql.Encoders.STRING(), spark._jsparkSession
    )
    events = tw.spark.events(DataFrame(memory.toDF(), spark), stream=S, format="nq")
    results = tw.spark.run(events, CHAIN)
    pushes = [push for push in steps(40) if push[3] == "insert"]
    rows: list[Row] = []
    for part in (pushes[:15], pushes[15:]):
        payloads = [
            f'<http://ex/g{at}> {AT} "{at}" .\n' + graph.replace(" .", f" <http://ex/g{at}> .")
            for _, at, graph, _ in part
        ]
        memory.addData(jvm.org.apache.spark.api.python.PythonUtils.toSeq(payloads))
        rows += answers(results, checkpoint)
    expected = one_process(CHAIN, pushes)
    assert told(rows) == told(expected)
    assert len(expected) > 100


def test_a_stream_that_falls_silent_is_waited_for_only_so_long(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    rows = [(S, 1000 * k, triple("a", "p", "b")) for k in range(1, 20)] + [(T, 1000, triple("b", "q", "c"))]
    frame = stored(spark, tmp_path / "in", rows, "stream string, at long, value string")
    events = tw.spark.events(frame, stream=frame.stream, time="at")
    results = tw.spark.run(events, joined("[RANGE 10s]"), idle="3s")
    run_until(spark, results, checkpoint, "silent", gone=1)
    found = spark.sql("select cast(at as long) at, op from silent order by at").collect()
    assert [(row.at, row.op) for row in found] == [(1, "+"), (11, "-")]


def test_what_cannot_be_an_event_is_refused_before_anything_starts(spark: Any) -> None:
    frame = spark.range(3).selectExpr("id", "cast(id as string) value", "cast(id as double) d")
    for message, options in {
        "no column 'text' among id, value, d": {"payload": "text", "time": "id"},
        "string or binary, not bigint": {"payload": "id", "time": "id"},
        "N-Triples has no time": {},
        "not double": {"time": "d"},
        "CSV is no payload": {"format": "csv", "time": "id"},
    }.items():
        with pytest.raises(UsageError, match=message):
            tw.spark.events(frame, stream=S, **options)
