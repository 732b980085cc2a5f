"""`thalweg.spark.store(path)`: events kept in a table of Parquet files, and SPARQL over them as DataFrames."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.window import Window

from thalweg.algebra.query import Query
from thalweg.arguments import time_of
from thalweg.errors import UsageError
from thalweg.instants import Time
from thalweg.options import RunOptions
from thalweg.rdf.prune import Prune
from thalweg.spark.frames import uniform
from thalweg.spark.payloads import read_payloads
from thalweg.spark.store_content import SCHEMA, Content
from thalweg.spark.store_plan import Compiler
from thalweg.spark.store_table import FOREVER, Table, TableStats
from thalweg.store.asking import AsOf, bounds
from thalweg.store.evaluating import parsed

_ROWS = f"{SCHEMA.removesuffix(', until long')}, error string"
_ARROW = pa.schema(
    [
        *(("stream", pa.string()), ("time", pa.int64()), ("op", pa.int8())),
        *(
            (name, kind)
            for place in "spo"
            for name, kind in ((place, pa.string()), (f"{place}id", pa.int64()))
        ),
        ("error", pa.string()),
    ]
)


def store(
    path: str | os.PathLike[str], *, spark: SparkSession | None = None, bucket: int | str = "1d"
) -> SparkStore:
    """The store on Spark in a folder, which is made if there is none.

    Driver and executors must see the folder under the same path. `bucket` is the span of time whose rows of one
    predicate are in one file after a compaction.
    """
    return SparkStore(Table.create(path, bucket=bucket), spark)


class SparkStore:
    """Events in a table: `write` keeps them, `ask` answers SPARQL over the content now or at an earlier instant."""

    def __init__(self, table: Table, spark: SparkSession | None = None) -> None:
        self.table = table
        self._spark = spark

    @property
    def spark(self) -> SparkSession:
        """The session: the given one, the active one, or a new one."""
        if self._spark is None:
            from thalweg.spark.sessions import session

            self._spark = SparkSession.getActiveSession() or session()
        return self._spark

    # Writing

    def write(
        self,
        events: DataFrame,
        *,
        writer: str | None = None,
        number: int | None = None,
        checkpoint: str | None = None,
        **trigger: Any,
    ) -> bool | StreamingQuery:
        """Keep the events of a frame of `thalweg.spark.events`, `quads` or `columns`.

        A frame of a batch is written at once; False if the writer has already come to this number. A streaming frame is
        written batch by batch by the query that is returned, each batch once; it needs a `checkpoint`, and takes the
        arguments of `trigger`, such as `availableNow=True`. The writer is named by the checkpoint, unless given.
        """
        if not events.isStreaming:
            return self._write(events, writer, number)
        if checkpoint is None:
            raise UsageError("a stream is written exactly once with a checkpoint: checkpoint=DIR")
        name = writer or f"checkpoint {os.path.abspath(checkpoint)}"

        def keep(batch: DataFrame, number: int) -> None:
            self._write(batch, name, number)

        out = events.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
        return (out.trigger(**trigger) if trigger else out).start()

    def _write(self, events: DataFrame, writer: str | None, number: int | None) -> bool:
        reached = None if writer is None else self.table.position(writer)
        if reached is not None and number is not None and number <= reached:
            return False
        rows = uniform(events).mapInArrow(_rows_of, _ROWS)
        folder = f"data/{uuid.uuid4().hex}"
        self._save(rows, folder)
        files, rejects = self.table.described(folder)
        return self.table.add(files, writer=writer, number=number, rejects=rejects)

    def _save(self, rows: DataFrame, folder: str) -> None:
        """Write rows to files of one predicate and one bucket of time each."""
        bucket = F.floor(F.col("time") / F.lit(self.table.bucket)).cast("long")
        placed = rows.withColumn("predicate", F.hex("pid")).withColumn("bucket", bucket)
        placed = placed.repartition("predicate", "bucket").sortWithinPartitions(
            "predicate", "bucket", "s", "o"
        )
        placed.write.partitionBy("predicate", "bucket").option("compression", "zstd").parquet(
            str(self.table.path / folder)
        )

    def quarantine(self) -> DataFrame:
        """What was refused: the stream and the reason, with its place."""
        paths = [str(self.table.path / path) for path in self.table.refresh().rejects]
        if not paths:
            return self.spark.createDataFrame([], "stream string, error string")
        return self.spark.read.schema("stream string, error string").parquet(*paths)

    # Asking

    def ask(self, text: str | Query, *, as_of: AsOf | None = None) -> DataFrame:
        """The answer of a SPARQL query as a frame, over the current content, or that at an instant or of a window.

        Variables are columns of N-Triples texts, null where unbound. ASK has one row with a boolean, `answer`;
        CONSTRUCT the columns subject, predicate and object.
        """
        state = self.table.refresh()
        start, end = bounds(as_of, state.horizon)
        files = tuple(state.files.values())
        query = text if isinstance(text, Query) else parsed(text, {s for file in files for s in file.streams})
        content = Content(self.spark, self.table, files, start, end)
        now = end if end is not None else time.time_ns() // 1000
        compiler = Compiler(self.spark, query, content, now=now)
        return query.recursing(lambda: self._answer(compiler, query))

    def _answer(self, compiler: Compiler, query: Query) -> DataFrame:
        frame = compiler.compile(query.root)
        df = compiler.sorted(frame) if frame.keys else frame.df
        if query.ask or query.template is not None:
            return df
        null = F.lit(None).cast("string")
        return df.select(
            *(
                (F.col(frame.columns[name]) if name in frame.columns else null).alias(name)
                for name in query.select
            )
        )

    def stats(self) -> TableStats:
        """How much the store holds, with the predicate frequency table."""
        return self.table.stats()

    def position(self, writer: str) -> int | None:
        """The number that a writer has come to, or None if it has written nothing."""
        return self.table.position(writer)

    def append(self, *args: Any, **options: Any) -> bool:
        """Keep the events of a batch that this process has read, as `tw.Store.append` does."""
        return self.table.append(*args, **options)

    # Compaction

    def compact(self, *, before: Time | None = None) -> None:
        """Merge the files of each predicate and bucket, and give each row its end, so that instants are found by it.

        With `before`, the history up to that instant is dropped. Files that are no longer needed are removed; a
        question that reads them at that time fails and can be asked again.
        """
        cut = None if before is None else time_of(before)
        state = self.table.refresh()
        files = list(state.files.values())
        if not files:
            return
        content = Content(self.spark, self.table, tuple(files))
        rows = content.read([file.path for file in files]).drop("until")
        each = Window.partitionBy("stream", "s", "p", "o").orderBy("time", "op")
        rows = rows.withColumn("until", F.coalesce(F.lead("time").over(each), F.lit(FOREVER)))
        if cut is not None:
            rows = rows.filter((F.col("time") > cut) | ((F.col("op") > 0) & (F.col("until") > cut)))
        folder = f"data/{uuid.uuid4().hex}"
        self._save(rows, folder)
        new, _ = self.table.described(folder, closed=True)
        horizon = cut if cut is not None and (state.horizon is None or cut > state.horizon) else state.horizon
        if not self.table.replace_files([file.path for file in files], new, horizon=horizon):
            files = new  # another process has compacted the same files
        for file in files:
            (self.table.path / file.path).unlink(missing_ok=True)

    def __enter__(self) -> SparkStore:
        return self

    def __exit__(self, *failure: object) -> None:
        return None


def _rows_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of the table from payloads, and a row with an error for each malformed part."""
    for batch in batches:
        if batch.column("path").null_count < batch.num_rows:
            raise UsageError(
                "files are appended with `thalweg store append`, or as payloads with times (thalweg.spark.events)"
            )
        for stream in batch.column("stream").unique().to_pylist():
            own = batch.filter(pa.compute.equal(batch.column("stream"), stream))
            arena, chunk, _ = read_payloads(Prune.everything(), RunOptions(), own)
            chunk = chunk.picked((chunk.s != 0).nonzero()[0])
            count = len(chunk)
            if chunk.bnodes:  # labels are local to their events
                scopes = chunk.number + (uuid.uuid4().int & (1 << 61) - 1)
                arena.rescope(chunk.s, scopes)
                arena.rescope(chunk.o, scopes)
            cells: dict[str, Any] = {"stream": [stream] * count, "time": chunk.time, "op": chunk.op}
            for place, ids in (("s", chunk.s), ("p", chunk.p), ("o", chunk.o)):
                cells |= {place: arena.texts(ids), f"{place}id": arena.keys(ids)}
            yield _batch(count, cells)
            if chunk.rejects:
                errors = [str(reject.error()) for reject in chunk.rejects]
                yield _batch(len(errors), {"stream": [stream] * len(errors), "error": errors})


def _batch(count: int, cells: dict[str, Any]) -> pa.RecordBatch:
    arrays = []
    for field in _ARROW:
        given = cells.get(field.name)
        made = pa.nulls(count, field.type) if given is None else pa.array(given).cast(field.type)
        arrays.append(made)
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
