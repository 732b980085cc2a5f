"""The command line's run on Spark: the same job as in this process, with the same outputs."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thalweg.answers import Row
from thalweg.io.job import Job
from thalweg.io.outcome import Outcome, conclude, count
from thalweg.io.outputs import open_writer
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.writers import Lines, Records, Writer
from thalweg.spark.conclusions import require_clean, seen_of
from thalweg.spark.listener import Step
from thalweg.spark.queries import run_files
from thalweg.spark.sessions import require_java, session

_LOOK = "1 second"
"""How often a run that follows its files looks for new lines."""


@dataclass(frozen=True)
class OnSpark:
    """What a run on Spark can be told beside its job."""

    checkpoint: Path | None = None
    shards: int | None = None
    follow: bool = False
    """Go on as files grow and others come, until stopped."""
    steps: Path | None = None
    """A file for the numbers of each batch, one JSON object a line."""

    @property
    def resumes(self) -> bool:
        """Whether an earlier run has left something to go on from, and with it outputs to add to."""
        return self.checkpoint is not None and any((self.checkpoint / "commits").glob("[0-9]*"))


def run_job(job: Job, options: OnSpark, meter: Meter) -> Outcome:
    """Run a job on a local Spark to the end of its files, or until it is stopped."""
    require_java()
    if not options.follow:
        job.files()
    outcome = Outcome()
    more = options.resumes
    with (
        tempfile.TemporaryDirectory(prefix="thalweg-", ignore_cleanup_errors=True) as folder,
        open_writer(job.outputs.results, job.query, append=more) as writer,
        Aside(Path(folder) / "quarantine", Records(job.outputs.quarantine, append=more)) as quarantine,
        Aside(Path(folder) / "late", Records(job.outputs.late, append=more)) as late,
        Lines(options.steps) as steps,
    ):
        told = _Told(job, meter, writer, steps, quarantine, late, outcome)
        _run(job, options, told)
        outcome.results = writer.rows
    outcome.quarantined = max(outcome.quarantined, quarantine.records.count)
    outcome.late = max(outcome.late, late.records.count)
    seen = seen_of(job, told.sums, quarantine.records, late.records)
    conclude(outcome, job, seen, endless=options.follow)
    return outcome


class Aside:
    """Records that tasks leave as files in a folder, brought into one output as they come."""

    def __init__(self, folder: Path, records: Records) -> None:
        self.folder, self.records = folder, records
        self._seen: set[str] = set()

    def collect(self) -> None:
        """Take over files that are new: a batch that ran again has only written its file again."""
        for file in sorted(self.folder.glob("*.jsonl")):
            if file.name not in self._seen:
                self._seen.add(file.name)
                with file.open(encoding="utf-8") as lines:
                    self.records.write(map(json.loads, lines))
        self.records.flush()

    def __enter__(self) -> Aside:
        return self

    def __exit__(self, *failure: object) -> None:
        self.collect()
        self.records.close()


@dataclass
class _Told:
    """Where a run on Spark tells what it finds: called with the sums after every batch."""

    job: Job
    meter: Meter
    writer: Writer
    steps: Lines
    quarantine: Aside
    late: Aside
    outcome: Outcome
    sums: dict[str, Any] = field(default_factory=dict)
    """Of the last batch; none before the first."""

    def __call__(self, sums: dict[str, Any]) -> None:
        outcome, step = self.outcome, sums["step"]
        outcome.events, outcome.triples = sums["events"], sums["statements"]
        outcome.quarantined, outcome.late, outcome.untimed = sums["rejected"], sums["late"], sums["untimed"]
        self.sums = sums
        self.quarantine.collect()
        self.late.collect()
        self.steps.write(step.to_json())
        self.meter.update(
            size=sums["bytes"], triples=outcome.triples, results=self.writer.rows, more=in_words(step, sums)
        )
        require_clean(self.job, sums, self.quarantine.records)


def in_words(step: Step, sums: dict[str, Any]) -> str:
    """The last batch and the sums of a run, for its progress line."""
    parts = [f"{step.triples_per_second:,.0f} triples/s"]
    if sums["statements"]:
        parts.append(f"{1 - sums['kept'] / sums['statements']:.0%} pruned")
    parts.append(f"{count(step.held, 'triple')} held")
    if step.skew >= 1.5:
        parts.append(f"{step.skew:.1f} times a fair share by one shard")
    parts.append(f"{step.state_bytes / 1e6:,.1f} MB of state")
    parts += [
        f"{sums[name]:,} {word}"
        for name, word in (("late", "late"), ("rejected", "quarantined"))
        if sums[name]
    ]
    return ", ".join(parts)


def _run(job: Job, options: OnSpark, told: _Told) -> None:
    broken: list[BrokenPipeError] = []

    def out(rows: Iterator[Row]) -> None:
        # This runs in a thread that Spark calls: what goes wrong here reaches us only as Spark's own failure.
        try:
            told.writer.write(rows)
            told.writer.flush()
        except BrokenPipeError as error:
            broken.append(error)
            raise

    spark = session("thalweg-run", shards=options.shards)
    begin = time.perf_counter()
    try:
        with Interrupts() as interrupts:
            run_files(
                job.query.text,
                dict(job.inputs),
                out,
                spark=spark,
                checkpoint=None if options.checkpoint is None else str(options.checkpoint),
                progress=told,
                every=_LOOK if options.follow else None,
                stop=lambda: interrupts.wanted,
                stream=job.query.streams[0],
                per_event=job.reading.per_event,
                rate=job.reading.rate,
                blank_nodes=job.reading.blank_nodes,
                time_predicate=job.reading.time_predicate,
                lateness=f"{job.lateness}us",
                quarantine=str(told.quarantine.folder),
                late=str(told.late.folder),
                drain=job.drain,
                derive=[producer.text for producer in job.derive],
            )
        told.outcome.interrupted = interrupts.wanted
    except KeyboardInterrupt:
        told.outcome.interrupted = True
    except Exception:
        if broken:
            raise broken[0] from None
        raise
    finally:
        told.outcome.seconds = time.perf_counter() - begin
        spark.stop()
