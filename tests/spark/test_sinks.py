"""Results in sinks: files of several formats, memory, console, and typed columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from tests.spark.fakes import in_process, job_of, told
from thalweg.answers import Row
from thalweg.errors import UsageError
from thalweg.options import RunOptions
from thalweg.spark.results import RESULT_SCHEMA, rows_of

pytestmark = pytest.mark.spark
S = "http://ex/s"
TEXT = f"SELECT ?x ?y FROM STREAM <{S}> [RANGE 3] WHERE {{ ?x <http://ex/p> ?y }}"
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
# Microseconds are part of an instant, and what Spark writes as text has milliseconds unless told otherwise.
TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "in.nt"
    path.write_text(
        "".join(f'<http://ex/n{k}> <http://ex/p> "{k}"^^<{INTEGER}> .\n' for k in range(6))
        + '<http://ex/n6> <http://ex/p> "a \\"b\\"\\n\\\\c,"@en .\n<http://ex/n7> <http://ex/p> _:b .\n'
    )
    return path


@pytest.fixture
def results(spark: Any, file: Path) -> Any:
    events = spark.readStream.format("rdf").options(stream=S, endOfStream="true").load(str(file))
    return tw.spark.run(events, TEXT, rate=3000)


def expected(file: Path) -> list[Row]:
    return in_process(job_of(TEXT, RunOptions(rate=3000)), {S: file})


def write(frame: Any, checkpoint: str, kind: str, **options: str) -> None:
    query = (
        frame.writeStream.format(kind)
        .options(checkpointLocation=checkpoint, **options)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def test_a_column_that_no_variable_has_is_refused_with_those_that_there_are(results: Any) -> None:
    for frame in (results, results.where("op = '+'").withColumn("more", results["at"])):
        with pytest.raises(UsageError, match=r"the query has no variable \?z: there are \?x, \?y"):
            tw.spark.columns(frame, ["x", "z"])
    assert tw.spark.columns(results, {"x": "string", "bindings": "term"}).columns[-1] == "x"


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_files_hold_the_rows_of_the_answer(
    spark: Any, results: Any, file: Path, tmp_path: Path, checkpoint: str, kind: str
) -> None:
    out = str(tmp_path / "out")
    write(results, checkpoint, kind, path=out, **TIMES)
    back = spark.read.schema(RESULT_SCHEMA).options(**TIMES).format(kind).load(out)
    assert told(list(rows_of(back.toArrow()))) == told(expected(file))
    window = back.where("op = '+'").selectExpr("window.end = at ok", "window.start < window.end some").first()
    assert (window.ok, window.some) == (True, True)


def test_csv_takes_columns(spark: Any, results: Any, file: Path, tmp_path: Path, checkpoint: str) -> None:
    out = str(tmp_path / "out")
    frame = tw.spark.columns(results, {"x": "string", "y": "string"}).drop("window")
    write(frame, checkpoint, "csv", path=out, escape='"', multiLine="true", **TIMES)
    back = spark.read.schema(frame.schema).options(escape='"', multiLine="true", **TIMES).csv(out).collect()
    assert sorted((row.op, row.x, row.y) for row in back if not row.x.endswith("7")) == sorted(
        (row.op, row["x"][1:-1], 'a "b"\n\\c,' if "b" in row["y"] else row["y"].split('"')[1])
        for row in expected(file)
        if not row["x"].endswith("7>")
    )


def test_columns_have_the_types_that_are_asked_for(spark: Any, results: Any, checkpoint: str) -> None:
    frame = tw.spark.columns(results, {"x": "term", "y": "long", "bindings": "term"})
    assert frame.dtypes[-2:] == [("x", "string"), ("y", "bigint")]
    write(frame, checkpoint, "memory", queryName="typed")
    rows = spark.sql("select * from typed where op = '+' order by x").collect()
    assert [row.y for row in rows] == [0, 1, 2, 3, 4, 5, None, None], "what is no number is null"
    assert rows[2].x == "<http://ex/n2>"
    assert rows[6].bindings["y"].endswith("@en")


def test_the_console_shows_results(results: Any, checkpoint: str) -> None:
    write(results.limit(1), checkpoint, "console")


def test_messages_of_a_batch_that_is_run_again_have_the_same_keys(spark: Any) -> None:
    rows = [(k // 2, "+", {"x": f"<a:{k % 4}>"}) for k in range(8)]
    schema = "at int, op string, bindings map<string, string>"

    def keys(order: Callable[[Any], Any], batch: int) -> list[str]:
        frame = spark.createDataFrame(order(rows + rows), schema)
        return sorted(row.key for row in tw.spark.messages(frame, batch).collect())

    first = keys(list, 3)
    assert first == keys(lambda given: list(reversed(given)), 3)
    assert len(set(first)) == 16, "equal rows are not one"
    assert not set(first) & set(keys(list, 4))


def test_columns_refuse_what_is_no_result(spark: Any, results: Any) -> None:
    with pytest.raises(UsageError, match="no column 'bindings'"):
        tw.spark.columns(spark.range(1), ["x"])
    with pytest.raises(UsageError, match=r"\?at has the name"):
        tw.spark.columns(results, ["at"])
