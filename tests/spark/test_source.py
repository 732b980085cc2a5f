"""`format("rdf")` on Spark: batches, new data, and a restart at the exact byte."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.spark
Lines = Callable[[int, int], bytes]


def pieces_of(spark: Any, path: Path, checkpoint: str, **options: str) -> list[list[Any]]:
    """Runs what is available; the pieces of each batch by sequence number."""
    batches: list[list[Any]] = []
    frame = (
        spark.readStream.format("rdf").options(stream="http://ex/s", settle="3600", **options).load(str(path))
    )
    query = (
        frame.writeStream.foreachBatch(
            lambda rows, _: batches.append(sorted(rows.collect(), key=lambda row: row.seq))
        )
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in batches if batch]


def text_of(batches: list[list[Any]]) -> bytes:
    return b"".join(
        Path(row.path).read_bytes()[row.start : row.end] for batch in batches for row in batch if row.path
    )


def test_a_restart_goes_on_at_the_exact_byte_and_sees_new_lines_and_new_files(
    spark: Any, tmp_path: Path, checkpoint: str, lines: Lines
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.nt").write_bytes(lines(0, 30) + b"<http://ex/half")
    first = pieces_of(spark, folder, checkpoint, maxBytesPerTrigger="700")
    assert len(first) > 1
    assert text_of(first) == lines(0, 30)
    with (folder / "b.nt").open("ab") as more:
        more.write(b"> <http://ex/p> <http://ex/o> .\n")
    (folder / "a.nq").write_bytes(lines(30, 40))
    second = pieces_of(spark, folder, checkpoint)
    assert text_of(second) == b"<http://ex/half> <http://ex/p> <http://ex/o> .\n" + lines(30, 40)
    rows = [row for batch in first + second for row in batch]
    assert {row.syntax for row in rows} == {"nt", "nq"}
    assert {row.stream for row in rows} == {"http://ex/s"}
    seqs = [row.seq for row in rows]
    assert seqs == sorted(set(seqs))
    assert pieces_of(spark, folder, checkpoint) == []


def test_a_finite_stream_ends_with_its_last_piece_and_goes_on_with_what_is_new(
    spark: Any, tmp_path: Path, checkpoint: str, lines: Lines
) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(lines(0, 20).rstrip(b"\n"))
    batches = pieces_of(spark, file, checkpoint, endOfStream="true", maxBytesPerTrigger="300")
    assert text_of(batches) == lines(0, 20).rstrip(b"\n")
    assert [row.last for batch in batches for row in batch][-1] is True
    with file.open("ab") as more:
        more.write(b"\n" + lines(20, 21))
    (batch,) = pieces_of(spark, file, checkpoint, endOfStream="true")
    assert text_of([batch]) == b"\n" + lines(20, 21)
    assert [row.last for row in batch] == [True]
    assert pieces_of(spark, file, checkpoint, endOfStream="true") == []


def test_a_wrong_option_is_refused_when_the_frame_is_made(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="no such file or folder"):
        spark.readStream.format("rdf").load(str(tmp_path / "nothing.nt"))
