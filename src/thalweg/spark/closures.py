"""Closures on Spark: what follows from a table of statements under a schema, and the command that writes it to a file.

Every rule but `transitive` reads one triple, so that tasks close their part of the table alone, and Spark keeps one of
equal rows. Under `transitive` a task closes a whole graph.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from thalweg.errors import DataError, UsageError
from thalweg.io.converting import whole_file
from thalweg.io.live import STDIN
from thalweg.io.materialising import Line, Materialisation, Materialised, note_rejects, write_lines
from thalweg.io.records import Records
from thalweg.schema.axioms import Schema, schema_of
from thalweg.spark.batch import statements
from thalweg.spark.sessions import session

_TERMS = ("subject", "predicate", "object", "graph")
_NAMES = (*_TERMS, "source", "error")
_SCHEMA = ", ".join(f"{name} string" for name in _NAMES)
_ARROW = pa.schema([pa.field(name, pa.string()) for name in _NAMES])
_MOST_TERMS = 64 * 1024 * 1024
"""Bytes of terms that a task keeps before it begins anew."""


def materialise(frame: DataFrame, schema: Any, rules: Any = None) -> DataFrame:
    """The closure of statements under a schema: a frame of distinct statements, each graph closed by itself.

    `frame` has the columns subject, predicate, object and graph (null: the default graph), as `statements` gives them.
    Rows with an `error` are left out.
    """
    missing = [name for name in _TERMS if name not in frame.columns]
    if missing:
        raise UsageError(f"the frame has no column {missing[0]}: a closure is of {', '.join(_TERMS)}")
    if "error" in frame.columns:
        frame = frame.where(F.col("error").isNull())
    return _closed(_whole(frame), schema_of(schema, rules)).select(*_TERMS)


def _whole(frame: DataFrame) -> DataFrame:
    return frame.select(
        *(name if name in frame.columns else F.lit(None).cast("string").alias(name) for name in _NAMES)
    )


def _closed(frame: DataFrame, schema: Schema) -> DataFrame:
    """The closure; rows with an `error` go through. Other rows have no source: equal ones of two files are one."""
    frame = frame.withColumn("source", F.when(F.col("error").isNotNull(), F.col("source")))
    if not schema.transitive:
        return frame.mapInArrow(_expand(schema), _SCHEMA).dropDuplicates()
    errors = frame.where(F.col("error").isNotNull())
    graphs = frame.where(F.col("error").isNull()).groupBy("graph")
    return graphs.applyInArrow(_close_graph(schema), _SCHEMA).unionByName(errors)


def _expand(schema: Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a task does: each statement, and what follows from it."""

    def expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from thalweg.rdf.arena import Arena
        from thalweg.schema.expansion import Expansion
        from thalweg.schema.network import Network

        network = Network(schema)
        arena = Arena()
        expansion = Expansion(network, arena)
        for batch in batches:
            yield batch
            if arena.used_bytes > _MOST_TERMS:
                arena = Arena()
                expansion = Expansion(network, arena)
            kept = batch.filter(pc.is_null(batch.column("error")))
            s, p, o = (
                arena.intern_all([term.encode() for term in kept.column(name).to_pylist()])
                for name in _TERMS[:3]
            )
            derived = expansion.derive(s, p, o)
            graphs = kept.column("graph").take(pa.array(derived.source))
            yield _batch([arena.texts(column) for column in (derived.s, derived.p, derived.o)], graphs)

    return expand


def _close_graph(schema: Schema) -> Callable[[pa.Table], pa.Table]:
    """What a task does with a whole graph."""

    def close(table: pa.Table) -> pa.Table:
        from thalweg.schema.closing import close_triples

        columns = (table.column(name).to_pylist() for name in _TERMS[:3])
        closed = close_triples(schema, zip(*columns, strict=True))
        graph = table.column("graph")[0].as_py() if len(table) else None
        terms = [[triple[k] for triple in closed] for k in range(3)]
        return pa.Table.from_batches([_batch(terms, pa.array([graph] * len(closed), pa.string()))])

    return close


def _batch(terms: list[list[str]], graphs: pa.Array) -> pa.RecordBatch:
    none = pa.nulls(len(graphs), pa.string())
    cells = [*(pa.array(column, pa.string()) for column in terms), graphs, none, none]
    return pa.RecordBatch.from_arrays(cells, schema=_ARROW)


def materialise_on_spark(job: Materialisation) -> Materialised:
    """Write the closure of a file, which tasks of a local Spark make, to one that appears when it is complete."""
    if job.source == STDIN:
        raise UsageError("Spark reads files: the standard input is closed with --on local")
    if job.options.contexts is not None:
        raise UsageError("contexts of JSON-LD are read with --on local")
    begin, done = time.perf_counter(), Materialised(given=None, graphs=None)
    options = {} if job.options.format is None else {"syntax": job.options.format}
    spark = session("thalweg-materialise")
    try:
        with tempfile.TemporaryDirectory(prefix="thalweg-closure-") as folder:
            frame = statements(spark, job.source, **options)
            _closed(frame.select(*_NAMES), job.schema).write.mode("overwrite").parquet(folder)
            _write(job, sorted(Path(folder).glob("*.parquet")), done)
    finally:
        spark.stop()
    done.seconds = time.perf_counter() - begin
    return done


def _write(job: Materialisation, parts: list[Path], done: Materialised) -> None:
    """Put what the tasks have made into one file."""
    with closing(Records(job.quarantine)) as quarantine, whole_file(job.target) as out:

        def lines() -> Iterator[list[Line]]:
            for part in parts:
                for batch in pq.ParquetFile(part).iter_batches():
                    rows = batch.to_pylist()
                    errors = [row for row in rows if row["error"] is not None]
                    if errors and job.options.on_error == "fail":
                        raise DataError(errors[0]["error"], source=errors[0]["source"])
                    quarantine.write(map(_reject, errors))
                    yield [
                        (row["subject"], row["predicate"], row["object"], row["graph"])
                        for row in rows
                        if row["error"] is None
                    ]

        done.written = write_lines(out, lines(), job.target_format())
    note_rejects(done, quarantine, job)


def _reject(row: dict[str, Any]) -> dict[str, Any]:
    return {"source": row["source"], "line": 0, "column": 0, "reason": row["error"], "text": ""}
