"""Continuous queries on a real Spark: the answers of one process, restarts, counts, refusals."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.fakes import in_process, job_of, run_frame, told
from thalweg.answers import Row
from thalweg.errors import QueryError, UsageError
from thalweg.options import RunOptions

pytestmark = pytest.mark.spark
S = "http://ex/s"
CHAIN = f"SELECT ?x ?z FROM STREAM <{S}> [RANGE 60] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/p> ?z }}"


def chain(first: int, last: int) -> bytes:
    return b"".join(
        b"<http://ex/n%d> <http://ex/p> <http://ex/n%d> .\n" % (k % 23, k * k % 23)
        for k in range(first, last)
    )


def graphs(first: int, last: int, *, every: int = 1000) -> bytes:
    return b"".join(
        b'<http://ex/g%d> <http://www.w3.org/ns/prov#generatedAtTime> "%d" .\n'
        b"<http://ex/a%d> <http://ex/p> _:b <http://ex/g%d> .\n"
        b"_:b <http://ex/q> <http://ex/c> <http://ex/g%d> .\n" % (k, k * every, k % 5, k, k)
        for k in range(first, last)
    )


def engine(progress: list[Any], name: str) -> list[int]:
    return [step.observedMetrics["thalweg"][name] for step in progress]


def test_a_stream_that_is_restarted_twice_gives_the_answers_of_one_process(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    import thalweg as tw

    file = tmp_path / "in.nt"
    file.touch()
    rows: list[Row] = []
    replays: list[list[int]] = []
    for first, last, end in [(0, 900, "false"), (900, 1500, "false"), (1500, 2000, "true")]:
        with file.open("ab") as more:
            more.write(chain(first, last))
        events = (
            spark.readStream.format("rdf")
            .options(stream=S, endOfStream=end, settle="3600", maxBytesPerTrigger="16k", pieceBytes="4k")
            .load(str(file))
        )
        more_rows, progress = run_frame(tw.spark.run(events, CHAIN), checkpoint)
        rows += more_rows
        replays.append(engine(progress, "replayed"))
        assert sum(engine(progress, "events")) == last - first
    assert told(rows) == told(in_process(job_of(CHAIN), {S: file}))
    assert all(count == 0 for run in replays for count in run[1:]), "a live engine is used again"


def test_events_of_a_gzipped_folder_are_seen_one_by_one(spark: Any, tmp_path: Path) -> None:
    from thalweg.spark import run_files

    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.nq.gz").write_bytes(gzip.compress(graphs(0, 60)))
    (folder / "b.nq.gz").write_bytes(gzip.compress(graphs(60, 100))[:-12])
    text = (
        f"SELECT ?x FROM STREAM <{S}> [NOW] WHERE {{ ?x <http://ex/p> ?y . ?y <http://ex/q> <http://ex/c> }}"
    )
    rows: list[Row] = []
    steps: list[dict[str, Any]] = []
    run_files(
        text,
        {S: str(folder)},
        rows.extend,
        spark=spark,
        progress=steps.append,
        quarantine=str(tmp_path / "quarantine"),
    )
    assert [row.graph for row in rows[:60]] == [f"<http://ex/g{k}>" for k in range(60)]
    assert [row.at for row in rows[:60]] == [k * 1_000_000 for k in range(60)]
    assert rows[7].bindings == {"x": "<http://ex/a2>"}
    assert steps[-1]["rejected"] == 1
    (line,) = next((tmp_path / "quarantine").glob("*.jsonl")).read_text().splitlines()
    assert "breaks off" in json.loads(line)["reason"]


def test_two_streams_are_joined_as_in_one_process(spark: Any, tmp_path: Path) -> None:
    from thalweg.spark import run_files

    one, two = tmp_path / "one.nt", tmp_path / "two.nt"
    one.write_bytes(chain(0, 300))
    two.write_bytes(chain(300, 700).replace(b"/p>", b"/q>"))
    text = (
        "REGISTER RSTREAM <http://ex/out> AS SELECT DISTINCT ?x ?z "
        "FROM NAMED WINDOW <http://ex/w1> ON <http://ex/one> [RANGE 40 STEP 20] "
        "FROM NAMED WINDOW <http://ex/w2> ON <http://ex/two> [RANGE 30 STEP 20] "
        "WHERE { WINDOW <http://ex/w1> { ?x <http://ex/p> ?y } "
        "WINDOW <http://ex/w2> { ?y <http://ex/q> ?z } }"
    )
    rows: list[Row] = []
    streams = {"http://ex/one": str(one), "http://ex/two": str(two)}
    run_files(text, streams, rows.extend, spark=spark, source={"maxBytesPerTrigger": "8k"}, per_event=2)
    expected = in_process(job_of(text, RunOptions(per_event=2)), {"http://ex/one": one, "http://ex/two": two})
    assert told(rows) == told(expected)
    assert len(rows) > 100


def test_results_are_a_plain_streaming_frame(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    import thalweg as tw

    (tmp_path / "a.nt").write_bytes(chain(0, 50))
    events = spark.readStream.format("rdf").options(stream=S, settle="0").load(str(tmp_path / "a.nt"))
    frame = tw.spark.run(events, CHAIN)
    assert frame.isStreaming
    assert frame.dtypes == [
        ("at", "timestamp"),
        ("op", "string"),
        ("window", "struct<start:timestamp,end:timestamp>"),
        ("event", "string"),
        ("bindings", "map<string,string>"),
    ]
    query = (
        frame.selectExpr("at", "op", "bindings['x'] as x")
        .writeStream.format("memory")
        .queryName("plain_frame")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    first = spark.sql("select * from plain_frame order by at").first()
    assert first.op == "+"
    assert first.x.startswith("<http://ex/n")


def test_a_query_that_is_wrong_or_not_supported_is_refused_before_anything_starts(
    spark: Any, tmp_path: Path
) -> None:
    import thalweg as tw

    (tmp_path / "a.nt").write_bytes(chain(0, 1))
    events = spark.readStream.format("rdf").option("stream", S).load(str(tmp_path / "a.nt"))
    with pytest.raises(QueryError):
        tw.spark.run(events, "SELECT ?x WHERE {")
    with pytest.raises(UsageError, match='format\\("rdf"\\)'):
        tw.spark.run(spark.range(3), CHAIN)
    with pytest.raises(UsageError, match="event"):
        tw.spark.run(events, CHAIN, per_event=0)


def test_a_failure_in_a_worker_reaches_the_caller_as_a_sentence(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    from thalweg.spark import run_files

    file = tmp_path / "a.nt"
    file.write_bytes(chain(0, 100))
    small = {"maxBytesPerTrigger": "1k"}
    out: Callable[[Iterator[Row]], None] = lambda rows: None  # noqa: E731
    with pytest.raises(RuntimeError, match="enough"):
        run_files(
            CHAIN, {S: str(file)}, out, spark=spark, checkpoint=checkpoint, source=small, progress=_stop
        )
    with pytest.raises(UsageError, match="another query"):
        run_files(CHAIN.replace("60", "70"), {S: str(file)}, out, spark=spark, checkpoint=checkpoint)


def _stop(sums: dict[str, Any]) -> None:
    raise RuntimeError("enough")
