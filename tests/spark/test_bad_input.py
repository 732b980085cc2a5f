"""Bad input on a real Spark: what is wrong is told or put into quarantine, and the stream lives on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import thalweg as tw
from thalweg.errors import UsageError

pytestmark = pytest.mark.spark
S = "http://ex/s"
TEXT = f"SELECT ?x FROM STREAM <{S}> [RANGE 100s] WHERE {{ ?x <http://ex/p> ?y }}"
Lines = Callable[[int, int], bytes]


def subjects(frame: Any, checkpoint: str) -> set[str]:
    """Runs what is available: the x of the answer."""
    found: set[str] = set()
    query = (
        frame.writeStream.foreachBatch(
            lambda part, _: found.update(row.x for row in part.selectExpr("bindings['x'] x").collect())
        )
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


def reasons(folder: Path) -> list[tuple[str, str]]:
    """The source and the reason of all that was refused."""
    records = (
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()
    )
    return sorted((Path(record["source"]).name, record["reason"]) for record in records)


def test_files_that_are_broken_are_quarantined_and_the_others_read(
    spark: Any, tmp_path: Path, checkpoint: str, lines: Lines
) -> None:
    folder, quarantine = tmp_path / "in", tmp_path / "quarantine"
    folder.mkdir()
    (folder / "a.nt").write_bytes(lines(0, 3) + b"\x00\x01\x02\xff not RDF\n")
    (folder / "b.nt.gz").write_bytes(gzip.compress(lines(3, 500))[:-100])
    (folder / "c.nt.gz").write_bytes(b"this is no gzip at all")
    (folder / "d.nt").symlink_to(tmp_path / "nowhere")
    (folder / "e.nt").write_bytes(lines(500, 503))
    frame = spark.readStream.format("rdf").options(stream=S, settle="0").load(str(folder))
    found = subjects(tw.spark.run(frame, TEXT, quarantine=str(quarantine)), checkpoint)
    assert {f"<http://ex/s{k}>" for k in (0, 1, 2, 3, 500, 501, 502)} <= found
    refused = reasons(quarantine)
    assert {source for source, _ in refused} == {"a.nt", "b.nt.gz", "c.nt.gz"}
    assert any("breaks off" in reason for source, reason in refused if source == "b.nt.gz")

    # A checkpoint of another query is refused, and stays as it is.
    (folder / "f.nt").write_bytes(lines(503, 504))
    other = tw.spark.run(frame, TEXT.replace("100", "200"))
    with pytest.raises(Exception, match="another query, to other static data or to other options"):
        subjects(other, checkpoint)
    assert "<http://ex/s503>" in subjects(tw.spark.run(frame, TEXT, quarantine=str(quarantine)), checkpoint)


def test_payloads_that_are_poison_are_quarantined_with_their_place(
    spark: Any, tmp_path: Path, checkpoint: str
) -> None:
    """Bytes that are no text, no payload, no time, no stream, an unknown operation."""
    from pyspark.sql import functions as F  # noqa: N812

    good = b"<http://ex/%d> <http://ex/p> <http://ex/o> ."
    rows = [
        (S, good % 1, 1000, "insert", "row 0"),
        (S, b"\xff\xfe\x00\x00" * 1000, 2000, "insert", "row 1"),
        (S, None, 2000, "insert", "row 2"),
        (S, good % 3, None, "insert", "row 3"),
        (None, good % 4, 2000, "insert", "row 4"),
        (S, good % 5, 2000, "upsert", "row 5"),
        ("http://ex/other", good % 6, 2000, "insert", "row 6"),
        (S, good % 7, 3000, "insert", "row 7"),
    ]
    schema = "stream string, value binary, at long, op string, place string"
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / "in"))
    frame = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    events = tw.spark.events(frame, stream=F.col("stream"), time="at", op="op", source="place")
    quarantine = tmp_path / "quarantine"
    found = subjects(tw.spark.run(events, TEXT, shards=2, quarantine=str(quarantine)), checkpoint)
    assert found == {"<http://ex/1>", "<http://ex/7>"}
    assert [source for source, _ in reasons(quarantine)] == [f"row {k}" for k in range(1, 6)]


def test_a_folder_without_anything_to_read_is_refused_by_a_run_to_its_end(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("what is this\n")
    with pytest.raises(UsageError, match="no file to read here"):
        tw.spark.run_files(TEXT, {S: str(tmp_path)}, lambda rows: None, spark=spark)
