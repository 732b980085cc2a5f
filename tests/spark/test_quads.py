"""Results of a CONSTRUCT as N-Quads: frames of graphs, files of them, and the command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import thalweg as tw
from tests.spark.fakes import in_process, job_of, told
from thalweg.cli import _main
from thalweg.errors import UsageError
from thalweg.spark.results import columns_of, pack_quads

S = "http://ex/s"
HEAD = "REGISTER ISTREAM <http://ex/out> AS "
TEXT = f"CONSTRUCT {{ ?x <http://ex/of> [ <http://ex/is> ?y ] }} FROM STREAM <{S}> [RANGE 5] {{ ?x <http://ex/p> ?y }}"
AGAIN = f"SELECT ?x ?y FROM STREAM <{S}> [RANGE 1] WHERE {{ ?x <http://ex/of> ?n . ?n <http://ex/is> ?y }}"


def lines(count: int) -> str:
    return "".join(f"<http://ex/n{k % 4}> <http://ex/p> <http://ex/m{k}> .\n" for k in range(count))


def answer(text: str) -> Iterator[pa.RecordBatch]:
    session = tw.Session()
    query = session.register(text)
    session.push(S, at=1, graph=lines(3))
    session.push(S, at=2, graph=lines(5))
    session.advance(20)
    yield columns_of(query, session.arena, query.drain())


def test_a_graph_of_each_instant_is_a_row() -> None:
    (batch,) = pack_quads("http://ex/out", answer(HEAD + TEXT))
    first, second = batch.column("value").to_pylist()
    assert [at.microsecond for at in batch.column("at").to_pylist()] == [1000, 2000]
    assert len(first.splitlines()) == 1 + 6
    assert len(second.splitlines()) == 1 + 4
    assert {line.split()[-2] for line in second.splitlines()[1:]} == {
        "<http://ex/out#1970-01-01T00:00:00.002Z>"
    }


def test_nothing_makes_no_graph() -> None:
    (batch,) = pack_quads("http://ex/out", iter([]))
    assert len(batch) == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TEXT, "cannot take a triple back"),
        (f"SELECT ?x FROM STREAM <{S}> [NOW] WHERE {{ ?x ?p ?y }}", "these are of a SELECT"),
    ],
)
def test_what_quads_cannot_express_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        list(pack_quads("http://ex/out", answer(text)))


@pytest.mark.spark
def test_text_files_of_graphs_are_read_by_a_second_query(spark: Any, tmp_path: Path) -> None:
    source, out = tmp_path / "in.nt", tmp_path / "out"
    source.write_text(lines(30))
    events = tw.spark.read(spark, str(source), stream=S, endOfStream="true")
    graphs = tw.spark.quads(tw.spark.run(events, HEAD + TEXT, shards=2), "http://ex/out")
    assert graphs.columns == ["at", "value"]
    writing = graphs.select("value").writeStream.format("text").trigger(availableNow=True)
    writing.option("checkpointLocation", str(tmp_path / "c")).start(str(out)).awaitTermination()
    written = sorted(row.value for row in spark.read.text(str(out)).collect())
    # The same as from one process.
    query = tmp_path / "query.rq"
    query.write_text(HEAD + TEXT)
    one = tmp_path / "one.nq"
    assert _main(["run", str(query), "--stream", f"{S}={source}", "--out", str(one)]) == 0
    assert sorted(set(one.read_text().splitlines())) == sorted(set(written))
    with pytest.raises(UsageError, match="no column 'bindings'"):
        tw.spark.quads(graphs)
    again = in_process(job_of(AGAIN), {S: one})
    pairs = {(row["x"], row["y"]) for row in again}
    assert pairs == {(f"<http://ex/n{k % 4}>", f"<http://ex/m{k}>") for k in range(30)}
    assert told(again)
