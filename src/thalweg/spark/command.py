"""The command line's run on Spark: the same job as in this process, with the same outputs."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from thalweg.answers import Row
from thalweg.errors import DataError
from thalweg.io.job import Job, Outcome
from thalweg.io.local import hints, place
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.writers import Records, Writer, open_writer
from thalweg.spark.queries import run_files
from thalweg.spark.sessions import require_java, session


def run_job(job: Job, checkpoint: Path | None, meter: Meter, shards: int | None = None) -> Outcome:
    """Run a job on a local Spark to the end of its files, or to Ctrl-C; `shards` as `session` takes it."""
    require_java()
    job.files()
    outcome = Outcome()
    quarantine, late = Records(job.outputs.quarantine), Records(job.outputs.late)
    with (
        tempfile.TemporaryDirectory(prefix="thalweg-", ignore_cleanup_errors=True) as folder,
        open_writer(job.outputs.results, job.columns) as writer,
    ):
        try:
            _run(job, checkpoint, shards, meter, writer, Path(folder), outcome)
        finally:
            quarantine.write(_records(Path(folder) / "quarantine"))
            late.write(_records(Path(folder) / "late"))
            quarantine.close()
            late.close()
        outcome.results = writer.rows
    outcome.quarantined = max(outcome.quarantined, quarantine.count)
    outcome.late = max(outcome.late, late.count)
    outcome.hints = list(hints(job, quarantine, late))
    return outcome


def _run(
    job: Job,
    checkpoint: Path | None,
    shards: int | None,
    meter: Meter,
    writer: Writer,
    folder: Path,
    outcome: Outcome,
) -> None:
    broken: list[BrokenPipeError] = []

    def out(rows: Iterator[Row]) -> None:
        # This runs in a thread that Spark calls: what goes wrong here reaches us only as Spark's own failure.
        try:
            writer.write(rows)
            writer.flush()
        except BrokenPipeError as error:
            broken.append(error)
            raise

    def progress(sums: dict[str, Any]) -> None:
        outcome.events, outcome.triples = sums["events"], sums["statements"]
        outcome.quarantined, outcome.late = sums["rejected"], sums["late"]
        meter.update(size=sums["bytes"], triples=sums["statements"], results=writer.rows)
        if job.on_error == "fail" and outcome.quarantined:
            first = next(_records(folder / "quarantine"), None)
            raise DataError(place(first) if first else "malformed input")

    spark = session("thalweg-run", shards=shards)
    begin = time.perf_counter()
    try:
        with Interrupts() as interrupts, _stopping(spark, interrupts):
            run_files(
                job.query.text,
                dict(job.inputs),
                out,
                spark=spark,
                checkpoint=None if checkpoint is None else str(checkpoint),
                progress=progress,
                stream=job.query.streams[0],
                per_event=job.reading.per_event,
                rate=job.reading.rate,
                blank_nodes=job.reading.blank_nodes,
                time_predicate=job.reading.time_predicate,
                lateness=f"{job.lateness}us",
                quarantine=str(folder / "quarantine"),
                late=str(folder / "late"),
                drain=job.drain,
            )
        outcome.interrupted = interrupts.wanted
    except KeyboardInterrupt:
        outcome.interrupted = True
    except Exception:
        if broken:
            raise broken[0] from None
        raise
    finally:
        outcome.seconds = time.perf_counter() - begin
        spark.stop()


@contextmanager
def _stopping(spark: SparkSession, interrupts: Interrupts) -> Iterator[None]:
    """Stop the query on Ctrl-C, from a thread: a call to the JVM does not bear an exception in its middle."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            if interrupts.wanted:
                for query in spark.streams.active:
                    query.stop()
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join(10)


def _records(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.glob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)
