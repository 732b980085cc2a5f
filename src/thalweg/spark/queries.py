"""Continuous queries over streaming frames: `run(events, text)`, and whole runs over files."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from thalweg.algebra.query import Query
from thalweg.arguments import static_data_of, under_schema
from thalweg.errors import DataError, LimitError, ThalwegError, UsageError
from thalweg.io.job import Job
from thalweg.options import LIMITS, OnPartialMatches, RunOptions
from thalweg.rdf.formats import BlankNodes, Mode
from thalweg.rdf.mapping import Mapping as RowMapping
from thalweg.rows import Row
from thalweg.spark.encode import CHUNK_SCHEMA, encoder
from thalweg.spark.frames import uniform
from thalweg.spark.host import COUNTS, MASKS, OUTPUT_SCHEMA, Host
from thalweg.spark.listener import COUNTED, COUNTED_SECOND, Listener, Step
from thalweg.spark.pieces import BY_SUFFIX
from thalweg.spark.results import VARIABLES, rows_of, unpack_results
from thalweg.spark.sampling import kept_sizes
from thalweg.spark.sessions import require_partitions, require_rocksdb, usual_shards
from thalweg.spark.shard_plan import ShardPlan, StagePlan
from thalweg.spark.source import SourceOptions, register
from thalweg.spark.static_files import sent

_STOP, MOMENT = 10.0, 0.5
"""Seconds in which a query that ends its batches is stopped, and in which Spark registers it."""
_LAST_REPORT_SECONDS = 10.0
"""Seconds to wait, after the end of a query, for what Spark still reports of it."""


def run(
    events: DataFrame,
    text: str | Query,
    *,
    stream: str | None = None,
    mode: Mode | None = None,
    per_event: int | None = None,
    rate: float | None = None,
    mapping: RowMapping | Mapping[str, RowMapping] | None = None,
    blank_nodes: BlankNodes = "event",
    time_predicate: str | None = None,
    lateness: int | str = 0,
    quarantine: str | None = None,
    late: str | None = None,
    drain: bool = False,
    shards: int | None = None,
    sizes: Mapping[int, float] | None = None,
    idle: int | str | None = None,
    derive: Sequence[str | Query] = (),
    clocked: bool = False,
    max_path_pairs: int = LIMITS.path_pairs,
    max_partial_matches: int = LIMITS.partial_matches,
    on_partial_matches: OnPartialMatches = "shed",
    schema: object = None,
    rules: str | Iterable[str] | None = None,
    static: object = None,
) -> DataFrame:
    """The answer of a continuous query over a streaming frame of `format("rdf")` or `events`, as a streaming frame.

    The rows are those of `RESULT_SCHEMA`: when, `+` or `-`, the window (where all windows of the query are alike in
    length), the event's graph ([NOW] only), and the bindings, terms as N-Triples. `columns` makes columns of them. A
    text that is wrong or not supported is refused here. `stream` is what a query without a stream reads.
    `quarantine` and `late` are folders for what was refused and what came too late, as JSON lines; both are
    always counted in the progress of the query (`thalweg`). `drain` lets time run on
    after the end of finite streams until the windows are empty.

    `shards` is over how many tasks the matching is spread at most: as many as Spark's shuffle has partitions, up to
    16, or, where these are Spark's own 200, as a local Spark has cores, unless given. `sizes` has how many
    triples fit each pattern (as `thalweg explain` numbers them), if
    some are much more frequent than others. After `idle` (`10s`) a silent stream no longer holds the others: what it
    brings later may be late. `derive` holds CONSTRUCT queries whose output streams the query reads; all of them
    then run in one shard. A path with `+` or `*` that connects more than `max_path_pairs` pairs of terms fails the job.
    Of more than `max_partial_matches` partial matches of a sequence the oldest are dropped, or
    (`on_partial_matches="fail"`) the job fails.
    With a `schema`, the path of a file or RDF text, the query (not those of `derive`) sees graphs that are closed under
    it; `rules` is a list of names that replaces the default. `static` are static data: a path or RDF text for the
    default graph, a mapping of names of graphs to such, a list of these, or `StaticData`. They are read here, and
    workers map a binary file of them. `clocked` also counts the time of the reading, for
    measurements: Spark then repeats more than it must after a failure.
    """
    options = RunOptions(
        mode=mode,
        per_event=per_event,
        rate=rate,
        mapping=mapping,
        blank_nodes=blank_nodes,
        time_predicate=time_predicate,
        lateness=lateness,
        idle=idle,
        drain=drain,
        shards=shards,
        sizes=sizes,
        clocked=clocked,
        max_path_pairs=max_path_pairs,
        max_partial_matches=max_partial_matches,
        on_partial_matches=on_partial_matches,
    )
    job = Job.of(text, options, derive=derive, stream=stream, static=static_data_of(static))
    job = replace(job, query=under_schema(job.query, schema, rules))
    return run_job(events, job, quarantine=quarantine, late=late)


def run_job(
    events: DataFrame, job: Job, *, quarantine: str | None = None, late: str | None = None
) -> DataFrame:
    """The answer of a job over a streaming frame, as `run` returns it."""
    spark = events.sparkSession
    options = replace(job.options, shards=job.options.shards or usual_shards(spark))
    plan = ShardPlan.of(
        replace(job, options=options),
        quarantine=None if quarantine is None else os.path.abspath(quarantine),
        late=None if late is None else os.path.abspath(late),
        static=sent(job.static, spark) if job.static else None,
    )
    require_rocksdb(spark)
    require_partitions(spark, plan.reading.router.shares.shards)
    chunks = uniform(events).mapInArrow(encoder(plan.reading), CHUNK_SCHEMA)
    packed = staged(chunks, plan, COUNTED)
    if plan.second is not None:
        # All changes of a batch come to the second stage in that batch: its end is that of the instants of both.
        changes = packed.where("results is not null").selectExpr(
            *("key", "shard as seq", "'' as stream", "part", "'' as source", "'' as syntax"),
            *("false as last", "results as chunk"),
        )
        packed = staged(changes, plan.second, COUNTED_SECOND)
    blobs = packed.select("results").where("results is not null")
    return blobs.mapInArrow(unpack_results, _result_schema(plan.reading.router.query.columns))


def staged(chunks: DataFrame, plan: StagePlan, name: str) -> DataFrame:
    """A stage over chunks by key: packed results for the next one, and counts, which are observed under a name."""
    return (
        chunks.groupBy("key")
        .transformWithStateInPandas(
            statefulProcessor=Host(plan),
            outputStructType=OUTPUT_SCHEMA,
            outputMode="Append",
            timeMode="None" if plan.idle is None else "ProcessingTime",
        )
        # A shard reports its counts, and those of the reading, in a row of their own, once in a batch.
        .observe(
            name,
            *(F.sum(count).alias(count) for count in COUNTS),
            *(F.bit_or(mask).alias(mask) for mask in MASKS),
            *(F.max(count).alias(f"{count}_most") for count in ("sent", "held")),
            F.count_if(F.col("results").isNull()).alias("shards"),
        )
    )


def _result_schema(variables: Sequence[str]) -> T.StructType:
    """`RESULT_SCHEMA`, whose bindings have the variables in their metadata."""
    text, time = T.StringType(), T.TimestampType()
    return T.StructType(
        [
            T.StructField("at", time),
            T.StructField("op", text),
            T.StructField("window", T.StructType([T.StructField(name, time) for name in ("start", "end")])),
            T.StructField("event", text),
            T.StructField("bindings", T.MapType(text, text), metadata={VARIABLES: list(variables)}),
        ]
    )


def read(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """The streaming frame of files or of a growing folder; wrong options are refused here."""
    if isinstance(spark, SparkSession):  # else it is of Connect, and the files may be the server's
        SourceOptions.of({"path": path, **options})
    register(spark)
    return spark.readStream.format("rdf").options(**options).load(path)


def run_files(
    text: str | Query,
    streams: Mapping[str, str],
    out: Callable[[Iterator[Row]], None],
    *,
    spark: SparkSession,
    checkpoint: str | None = None,
    progress: Callable[[dict[str, Any]], None] | None = None,
    source: Mapping[str, str] | None = None,
    every: str | None = None,
    stop: Callable[[], bool] | None = None,
    around: Around = nullcontext,
    quarantine: str | None = None,
    late: str | None = None,
    derive: Sequence[str | Query] = (),
    stream: str | None = None,
    options: RunOptions | None = None,
    static: object = None,
    **more: Any,
) -> None:
    """Run a query over files to their end; `out` gets the rows of each batch in order.

    `streams` gives the path of each stream's files. `progress` gets, after every batch, sums so far: bytes,
    statements, kept, sent, results, events, late, rejected, untimed, left_out, blanks, replayed, batches, `matched` and
    `begun` (as in `Step`), then the seconds of the batch and, as `step`, all that is known of it. `source` has options
    of `format("rdf")`. Without a checkpoint directory a temporary one is used. The shares of shards are chosen by
    samples of the files, unless `sizes` are given. `options` are those of the run, and `more` replaces some of them.
    `static` are static data, as `run` takes them.

    With `every` (`1 second`) the files may grow and others come: they are looked at so often, and there is no end.
    When `stop` returns True, the run ends between two batches: rows that `out` has got are committed, no others
    are delivered.
    `around` gives, for the number of a batch, the context in which `out` is called. What its end raises fails the
    batch; after a failure, the last batch may come again, with the same number.
    """
    chosen = replace(options or RunOptions(), **more)
    job = Job.of(text, chosen, derive=derive, stream=stream, static=static_data_of(static))
    source = {**({"syntax": chosen.format} if chosen.format else {}), **(source or {})}
    ends = {"endOfStream": "true"} if every is None else {}
    frames = []
    for iri, path in streams.items():
        rows = {"syntax": BY_SUFFIX} if chosen.mapping_for(iri) is not None else {}
        frames.append(read(spark, path, **{"stream": iri, **ends, **rows, **source}))
    if not frames:
        raise UsageError("there is no stream to read: give at least one")
    events = frames[0]
    for frame in frames[1:]:
        events = events.unionByName(frame)
    folder = checkpoint or tempfile.mkdtemp(prefix="thalweg-checkpoint-")
    if chosen.sizes is None and not job.derive:
        sizes = kept_sizes(folder, job.query, streams, source.get("syntax"), chosen, job.static)
        job = replace(job, options=replace(chosen, sizes=sizes))
    delivery = Delivery(out, around)
    steps: Steps = SimpleQueue()
    listener = Listener(steps.put, on_end=steps.put)
    answer = run_job(events, job, quarantine=quarantine, late=late)
    writer = answer.writeStream.foreachBatch(delivery)
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
    spark.streams.addListener(listener)
    running = None
    try:
        running = writer.option("checkpointLocation", folder).start()
        watch(running, steps, delivery, progress, stop)
    finally:
        if running is not None:
            running.stop()
        spark.streams.removeListener(listener)
        if checkpoint is None:
            shutil.rmtree(folder, ignore_errors=True)


Around = Callable[[int], AbstractContextManager[Any]]
Steps = SimpleQueue[Step | str]
"""Steps of queries, and the id of a run that has ended."""


class StoppedError(UsageError):
    """A batch that is given up because its query is stopped.

    Spark looks for this text in what Python raises, and then ends the query in silence. The error of a job that was
    interrupted has it as well, followed by so long a trace that Spark's search overflows its stack.
    """

    def __init__(self) -> None:
        super().__init__(
            "the run is being stopped (py4j.protocol.Py4JJavaError: An error occurred while calling: "
            "java.lang.InterruptedException)"
        )


class Delivery:
    """Hands the rows of each batch to `out`, until it is closed; `rows` makes them of what Spark has collected."""

    def __init__(
        self,
        out: Callable[[Any], None],
        around: Around = nullcontext,
        rows: Callable[[pa.Table], Any] | None = None,
    ) -> None:
        self.delivered = -1
        """The last batch whose rows `out` got."""
        self.closed = False
        self.stopping = threading.Event()
        """The query is being stopped."""
        self._out, self._around, self._rows = out, around, rows or _in_order
        self._lock = threading.Lock()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Hand over a batch. A batch that comes too late for that fails, so that it is run again at a restart."""
        try:
            table = batch.toArrow()
        except Exception:
            if self.closed:
                raise StoppedError from None
            raise
        with self._lock:
            if self.closed:
                # Spark takes a failure for a part of the stop only after the stop.
                self.stopping.wait(_STOP)
                raise StoppedError
            with self._around(number):
                self._out(self._rows(table))
            self.delivered = number

    def close(self) -> None:
        """Take no further batch; one that is being handed over is waited for."""
        with self._lock:
            self.closed = True


def _in_order(table: pa.Table) -> Iterator[Row]:
    """Rows by their times: each shard has its own part of an instant."""
    return rows_of(table.sort_by("at"))


def watch(
    query: Any,
    steps: Steps,
    delivery: Delivery,
    progress: Callable[[dict[str, Any]], None] | None,
    stop: Callable[[], bool] | None,
) -> None:
    """Wait for a query to end, reporting its progress; a failure becomes one of ours, with a sentence."""
    run = str(query.runId)
    names = {"triples": "statements", "quarantined": "rejected"}
    counted = (
        "bytes",
        "triples",
        "sent",
        "results",
        "events",
        "late",
        "quarantined",
        "untimed",
        "left_out",
        "blanks",
        "replayed",
    )
    sums = {"kept": 0, "matched": 0, "begun": 0, **{names.get(name, name): 0 for name in counted}}
    done = -1
    ended = complete = False
    while not complete:
        try:
            ended = ended or query.awaitTermination(0.2)
        except Exception as failure:
            if not delivery.closed:
                raise reason_of(failure) from failure
            ended = True
        reported = list(_waiting(steps, _LAST_REPORT_SECONDS if ended else 0))
        for step in reported:
            if isinstance(step, str):
                complete = complete or step == run
            elif step.run == run:
                done = step.batch
                for name in counted:
                    sums[names.get(name, name)] += getattr(step, name)
                sums["kept"] += step.triples - step.pruned
                sums["matched"] |= step.matched
                sums["begun"] |= step.begun
                if progress is not None:
                    progress({**sums, "batches": done + 1, "seconds": step.seconds, "step": step})
        complete = complete or (ended and not reported)
        if stop is not None and stop() and not ended:
            delivery.close()
            if done >= delivery.delivered:
                threading.Timer(MOMENT, delivery.stopping.set).start()
                query.stop()


def _waiting(steps: Steps, timeout: float) -> Iterator[Step | str]:
    """What waits in a queue; after the end, what Spark may still report."""
    try:
        yield steps.get(timeout=timeout) if timeout else steps.get_nowait()
        while True:
            yield steps.get_nowait()
    except Empty:
        return


def reason_of(failure: Exception) -> ThalwegError:
    """The sentence in a Spark failure: ours where the worker raised one, else Spark's first line.

    Data that cannot be read, and limits, are a failure of the run; all else is a matter of how it was started.

    >>> reason_of(Exception("a task failed\\nthalweg.errors.LimitError: too many"))
    LimitError('too many')
    >>> reason_of(Exception("a task failed\\nthalweg.errors.QueryError: no such prefix"))
    UsageError('no such prefix')
    """
    text = str(failure)
    for line in text.splitlines():
        head, _, sentence = line.strip().partition(": ")
        if head.startswith("thalweg.errors."):
            of_the_run = {"thalweg.errors.DataError": DataError, "thalweg.errors.LimitError": LimitError}
            return of_the_run.get(head, UsageError)(sentence)
    return UsageError(f"Spark stopped the query: {text.splitlines()[0] if text else type(failure).__name__}")
