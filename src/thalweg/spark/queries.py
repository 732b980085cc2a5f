"""Continuous queries over streaming frames: `run(events, text)`, and whole runs over files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from thalweg.algebra.nodes import Query
from thalweg.answers import Row
from thalweg.engine import Session
from thalweg.errors import ThalwegError, UsageError
from thalweg.instants import duration
from thalweg.io.files import ReadOptions
from thalweg.lang import parse
from thalweg.plan.shares import Shares, plan_shares
from thalweg.rdf.framing import Mode
from thalweg.rdf.ntriples import GENERATED_AT, BlankNodes
from thalweg.spark.encode import CHUNK_SCHEMA, Reading, encoder
from thalweg.spark.frames import keys_for, uniform
from thalweg.spark.host import OUTPUT_SCHEMA, Host
from thalweg.spark.live import Job
from thalweg.spark.results import RESULT_SCHEMA, rows_of, unpack_results
from thalweg.spark.routing import Router
from thalweg.spark.sampling import kept_sizes
from thalweg.spark.sessions import require_rocksdb
from thalweg.spark.source import Options, register

READ, ENGINE = "thalweg_read", "thalweg_engine"
"""The names of the observed metrics in a query's progress."""
_MOST_SHARDS = 16


def run(
    events: DataFrame,
    text: str,
    *,
    stream: str | None = None,
    mode: Mode | None = None,
    per_event: int = 1,
    rate: float | None = None,
    blank_nodes: BlankNodes = "event",
    time_predicate: str | None = None,
    lateness: int | str = 0,
    quarantine: str | None = None,
    late: str | None = None,
    drain: bool = False,
    shards: int | None = None,
    sizes: Mapping[int, float] | None = None,
    idle: int | str | None = None,
) -> DataFrame:
    """The answer of a continuous query over a streaming frame of `format("rdf")` or `events`, as a streaming frame.

    The rows are those of `RESULT_SCHEMA`: when, `+` or `-`, the window (where all windows of the query are alike in
    length), the event's graph ([NOW] only), and the bindings, terms as N-Triples. `columns` makes columns of them. A
    text that is wrong or not supported is refused here. `stream` is what a query without a stream reads.
    `quarantine` and `late` are folders for what was refused and what came too late, as JSON lines; both are
    always counted in the progress of the query (`thalweg_read`, `thalweg_engine`). `drain` lets time run on
    after the end of finite streams until the windows are empty.

    `shards` is over how many tasks the matching is spread at most: as many as Spark's shuffle has partitions, up to
    16, unless told otherwise. `sizes` says how many triples fit each pattern (as `thalweg explain` numbers them), if
    some are much more frequent than others. After `idle` (`10s`) a silent stream no longer holds the others: what it
    brings later may be late.
    """
    reading = ReadOptions(
        mode=mode,
        per_event=per_event,
        rate=rate,
        blank_nodes=blank_nodes,
        time_predicate=GENERATED_AT if time_predicate is None else f"<{time_predicate.strip('<>')}>".encode(),
    )
    # Registered here once, so that what is wrong with the text is told at once and on the driver.
    session = Session(lateness=lateness)
    query = session.register(text, stream=stream).query
    spark = events.sparkSession
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or "200")
    shares = shares_of(query, reading, shards or min(partitions, _MOST_SHARDS), sizes)
    job = Job(
        text=text,
        stream=stream,
        reading=Reading(session.prune(), reading, Router(query, shares), keys_for(shares.shards)),
        lateness=lateness,
        drain=drain,
        quarantine=None if quarantine is None else os.path.abspath(quarantine),
        late=None if late is None else os.path.abspath(late),
        idle=None if idle is None else max(1, duration(idle) // 1000),
    )
    require_rocksdb(spark)
    chunks = _counted(
        uniform(events).mapInArrow(encoder(job.reading), CHUNK_SCHEMA),
        READ,
        ("bytes", "statements", "kept", "sent", "rejected", "micros"),
    )
    packed = _counted(
        chunks.groupBy("key").transformWithStateInPandas(
            statefulProcessor=Host(job),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="Append",
            timeMode="None" if idle is None else "ProcessingTime",
        ),
        ENGINE,
        ("events", "late", "rejected", "replayed", "held", "micros", "engine"),
    )
    return packed.select("results").where("results is not null").mapInArrow(unpack_results, RESULT_SCHEMA)


def shares_of(
    query: Query, reading: ReadOptions, shards: int, sizes: Mapping[int, float] | None = None
) -> Shares:
    """How a query is spread over at most so many shards, given how its events are read."""
    if query.per_event and reading.per_event > 1 and shards > 1:
        return Shares(reason="events of several lines are known only to one that has seen all lines before")
    return plan_shares(query, shards, sizes)


def _counted(frame: DataFrame, name: str, columns: Iterable[str]) -> DataFrame:
    """The frame with sums of columns in the query's progress, so that it speaks of statements."""
    return frame.observe(name, *(F.sum(column).alias(column) for column in columns))


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """The streaming frame of files or of a growing folder; wrong options are refused here."""
    Options.of({"path": path, **options})
    register(spark)
    return spark.readStream.format("rdf").options(**options).load(path)


def run_files(
    text: str,
    streams: Mapping[str, str],
    out: Callable[[Iterator[Row]], None],
    *,
    spark: SparkSession,
    checkpoint: str | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
    source: Mapping[str, str] | None = None,
    **options: Any,
) -> None:
    """Run a query over files to their end; `out` gets the rows of each batch in order.

    `streams` gives the path of each stream's files. `progress` gets, after every batch, sums so far: bytes,
    statements, kept, events, late, rejected, batches, and the seconds of the batch. `source` holds options of
    `format("rdf")`. Without a checkpoint directory a temporary one is used. The shares of shards are chosen by
    samples of the files, unless `sizes` are given.
    """
    frames = [
        read(spark, path, **{"stream": iri, "endOfStream": "true", **(source or {})})
        for iri, path in streams.items()
    ]
    if not frames:
        raise UsageError("there is no stream to read: give at least one")
    events = frames[0]
    for frame in frames[1:]:
        events = events.unionByName(frame)
    folder = checkpoint or tempfile.mkdtemp(prefix="thalweg-checkpoint-")
    if "sizes" not in options:
        query = parse(text, stream=options.get("stream"))
        options["sizes"] = kept_sizes(folder, query, streams, (source or {}).get("syntax"))
    frame = run(events, text, **options)

    def deliver(batch: DataFrame, _: int) -> None:
        # Each shard has its own part of an instant.
        out(rows_of(batch.toArrow().sort_by("at")))

    running = (
        frame.writeStream.foreachBatch(deliver)
        .option("checkpointLocation", folder)
        .trigger(availableNow=True)
        .start()
    )
    try:
        watch(running, progress)
    finally:
        running.stop()
        if checkpoint is None:
            shutil.rmtree(folder, ignore_errors=True)


def watch(query: Any, progress: Callable[[dict[str, Any]], None] | None) -> None:
    """Wait for a query to end, telling its progress; a failure becomes one of ours, with a sentence."""
    told = -1
    sums = dict.fromkeys(("bytes", "statements", "kept", "sent", "events", "late", "rejected", "replayed"), 0)
    ended = False
    while not ended:
        try:
            ended = query.awaitTermination(0.2)
        except Exception as failure:
            raise _reason(failure) from failure
        for step in query.recentProgress if progress is not None else ():
            if step.batchId <= told:
                continue
            told = step.batchId
            for name in (READ, ENGINE):
                seen = step.observedMetrics.get(name)
                for key, value in (seen.asDict() if seen is not None else {}).items():
                    # What the reader refuses is handed to the engine, which counts it with its own.
                    if value is not None and key in sums and not (name == READ and key == "rejected"):
                        sums[key] += value
            assert progress is not None
            progress(
                {**sums, "batches": told + 1, "seconds": step.durationMs.get("triggerExecution", 0) / 1000}
            )


def _reason(failure: Exception) -> ThalwegError:
    """The sentence in a Spark failure: ours where the worker raised one, else Spark's first line."""
    text = str(failure)
    for line in text.splitlines():
        head, _, sentence = line.strip().partition(": ")
        if head.startswith("thalweg.errors."):
            return UsageError(sentence)
    return UsageError(f"Spark stopped the query: {text.splitlines()[0] if text else type(failure).__name__}")
