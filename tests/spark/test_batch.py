"""`spark.read.format("rdf")`: files as tables, in batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from pyspark.sql.types import StructType

import thalweg as tw
from thalweg.rdf.formats import Format
from thalweg.spark.batch import check_statements
from thalweg.spark.source import RdfSource

pytestmark = pytest.mark.spark
Lines = Callable[[int, int], bytes]


def test_the_statements_of_files_are_rows_and_malformed_lines_have_their_reason(
    spark: Any, tmp_path: Path, lines: Lines
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.nt").write_bytes(lines(0, 20_000) + b'not a triple\n_:b <http://ex/p> "\\u0041\\n"@EN .')
    (folder / "b.nq").write_bytes(b"<http://ex/a> <http://ex/p> <http://ex/b> <http://ex/g> .\n")
    (folder / "c.ttl").write_text("@prefix ex: <http://ex/> . ex:s ex:p 5, 6.5 .")
    rows = tw.spark.statements(spark, str(folder), stream="http://ex/s", pieceBytes="64k").collect()
    good = [row for row in rows if row.error is None]
    found = Counter((row.subject, row.predicate, row.object, row.graph) for row in good)
    wanted: Counter[tuple[str | None, ...]] = Counter(
        (f"<http://ex/s{k}>", "<http://ex/p>", f"<http://ex/o{k}>", None) for k in range(20_000)
    )
    wanted["_:b", "<http://ex/p>", '"A\\n"@en', None] += 1
    wanted["<http://ex/a>", "<http://ex/p>", "<http://ex/b>", "<http://ex/g>"] += 1
    for quad in ox.parse((folder / "c.ttl").read_bytes(), ox.RdfFormat.TURTLE):
        wanted[str(quad.subject), str(quad.predicate), str(quad.object), None] += 1
    assert found == wanted
    assert {row.stream for row in rows} == {"http://ex/s"}
    (bad,) = (row for row in rows if row.error is not None)
    assert "not a triple" in bad.error
    assert bad.source.endswith("a.nt")
    assert bad.subject is None


def test_without_rows_a_table_has_the_pieces_and_a_stream_has_no_statements(
    spark: Any, tmp_path: Path, lines: Lines
) -> None:
    file = tmp_path / "a.nt"
    file.write_bytes(lines(0, 10))
    pieces = spark.read.format("rdf").load(str(file)).collect()
    assert [(row.path, row.start, row.end) for row in pieces if row.path] == [
        (str(file), 0, file.stat().st_size)
    ]
    with pytest.raises(Exception, match="neither pieces nor statements"):
        spark.read.format("rdf").option("rows", "triples").load(str(file))
    with pytest.raises(tw.UsageError, match=r"rows=statements is for spark\.read"):
        RdfSource({"path": str(file), "rows": "statements"}).streamReader(StructType())
    with pytest.raises(tw.UsageError, match="holds events"):
        check_statements([Format("patch", "Patches", (), "none:None", has_events=True)])
