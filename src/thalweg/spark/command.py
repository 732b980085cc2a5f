"""The command line's run on Spark: the same job as in this process, with the same outputs."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from thalweg.io.job import Job
from thalweg.io.outcome import Outcome, conclude, count
from thalweg.io.progress import Interrupts, Meter
from thalweg.io.records import Lines
from thalweg.spark import checkpoints
from thalweg.spark.checkpoints import Fingerprint
from thalweg.spark.conclusions import require_clean, seen_of
from thalweg.spark.host import MASKS
from thalweg.spark.listener import Step
from thalweg.spark.outputs import Ledger, Sinks
from thalweg.spark.queries import run_files
from thalweg.spark.quiet import mute
from thalweg.spark.sampling import kept_sizes
from thalweg.spark.sessions import cores_here, require_java, session
from thalweg.spark.shard_plan import ShardPlan
from thalweg.spark.spool import Spools

_POLL = "1 second"
"""How often a run that follows its files polls them for new lines."""


@dataclass(frozen=True)
class OnSpark:
    """Where a run on Spark keeps its state and its metrics, and whether it ends."""

    checkpoint: Path | None = None
    follow: bool = False
    """Go on as files grow and others come, until stopped."""
    steps: Path | None = None
    """A file for the numbers of each batch, one JSON object a line."""

    @property
    def resumes(self) -> bool:
        """Whether an earlier run has left something to go on from, and with it outputs to add to."""
        return self.checkpoint is not None and checkpoints.has_begun(self.checkpoint)


def run_on_spark(job: Job, options: OnSpark, meter: Meter) -> Outcome:
    """Run a job on a local Spark to the end of its files, or until it is stopped."""
    if not options.follow:
        job.files()
    resumes = options.resumes
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        plan = Plan(replace(job, options=replace(job.options, shards=job.options.shards or cores_here())))
        if options.checkpoint is not None:
            # What is no checkpoint is refused before anything is written to it.
            checkpoints.read(options.checkpoint)
            stack.enter_context(checkpoints.claimed(options.checkpoint))
            plan = Plan.of(job, options.checkpoint)
        require_java()
        folder = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="thalweg-", ignore_cleanup_errors=True)
        )
        sinks = _sinks(plan, options.checkpoint, Path(folder), more=resumes)
        progress = _Progress(plan, meter, sinks, stack.enter_context(Lines(options.steps)), Outcome())
        spools = stack.enter_context(Spools(plan.job, options.checkpoint or Path(folder)))
        try:
            _run(plan, options, progress, interrupts, stack, spools)
        finally:
            sinks.close()
    for reason in spools.broken():
        print(f"thalweg: {reason}", file=sys.stderr)
    outcome = progress.outcome
    outcome.results, outcome.gaps = sinks.rows, sinks.gaps
    quarantine, late = sinks.quarantine.records, sinks.late.records
    outcome.quarantined = max(outcome.quarantined, quarantine.count)
    outcome.late = max(outcome.late, late.count)
    outcome.unchanged = resumes and not progress.sums and not outcome.interrupted
    seen = seen_of(job, progress.sums, quarantine, late)
    # A batch also reports what the runs before it matched; without one, nothing is known.
    seen = replace(seen, unmatched=[]) if outcome.unchanged else seen
    conclude(outcome, job, seen, endless=options.follow or resumes)
    return outcome


@dataclass(frozen=True)
class Plan:
    """A job on Spark, whose options have the number of shards, and what its checkpoint has of it."""

    job: Job
    fingerprint: Fingerprint | None = None
    """What is to be noted in the checkpoint; None where it is there."""

    @classmethod
    def of(cls, job: Job, folder: Path) -> Plan:
        """The plan of a run that has a checkpoint: that of the run before, if there was one; another is refused."""
        found = checkpoints.read(folder)
        if found is not None and not checkpoints.has_planned(folder):
            checkpoints.forget(folder)  # of a run that broke off before its first batch
            found = None
        shards = job.options.shards or (cores_here() if found is None else found.shards)
        mine = Fingerprint.of(job, shards)
        if found is not None:
            found.require(mine, folder)
            # Spark identifies the sources of a query by their order.
            job = replace(job, inputs={stream: job.inputs[stream] for stream in found.streams})
        # Queries that derive streams run in one shard.
        files = {stream: path for stream, path in job.inputs.items() if stream not in job.live}
        sizes = (
            None
            if job.derive
            else kept_sizes(str(folder), job.query, files, job.options.format, job.options, job.static)
        )
        job = replace(job, options=replace(job.options, shards=shards, sizes=sizes))
        mine = replace(mine, job=ShardPlan.of(job).fingerprint)
        if found is not None:
            found.require(mine, folder)
        return cls(job, mine if found is None else None)


def _sinks(plan: Plan, checkpoint: Path | None, folder: Path, *, more: bool) -> Sinks:
    """The outputs of a run. From here on, the next run with the checkpoint goes on with them."""
    if checkpoint is None:
        return Sinks(plan.job, folder)
    ledger = Ledger(checkpoint, Sinks.paths(plan.job))
    try:
        if plan.fingerprint is not None and not checkpoints.has_planned(checkpoint):
            plan.fingerprint.write(checkpoint)
        return Sinks(plan.job, folder, ledger, append=more)
    except BaseException:
        if not more:
            checkpoints.forget(checkpoint)
            ledger.forget()
        raise


@dataclass
class _Progress:
    """The progress of a run on Spark: called with the sums after every batch."""

    plan: Plan
    meter: Meter
    sinks: Sinks
    steps: Lines
    outcome: Outcome
    sums: dict[str, Any] = field(default_factory=dict)
    """Of the last batch; none before the first."""
    _before: dict[str, Any] = field(default_factory=dict)

    def go_on(self) -> None:
        """Another query of Spark goes on with the run: its sums are added."""
        self._before = self.sums

    def __call__(self, sums: dict[str, Any]) -> None:
        sums = sums | {name: _sum(name, self._before.get(name, 0), sums[name]) for name in sums.keys() - _OWN}
        outcome, step = self.outcome, sums["step"]
        outcome.events, outcome.triples = sums["events"], sums["statements"]
        outcome.quarantined, outcome.late, outcome.untimed = sums["rejected"], sums["late"], sums["untimed"]
        outcome.left_out = sums["left_out"]
        self.sums = sums
        self.steps.write(step.to_json())
        self.meter.update(
            size=sums["bytes"], triples=outcome.triples, results=self.sinks.rows, more=in_words(step, sums)
        )
        require_clean(self.plan.job, sums, self.sinks.quarantine.records)


_OWN = {"step", "seconds", "batches"}
"""What is reported of the last batch only."""


def _sum(name: str, before: int, now: int) -> int:
    return before | now if name in MASKS else before + now


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


def _run(
    plan: Plan,
    options: OnSpark,
    progress: _Progress,
    interrupts: Interrupts,
    stack: ExitStack,
    spools: Spools,
) -> None:
    job, sinks = plan.job, progress.sinks
    folder = options.checkpoint
    if spools and folder is None:  # the end of live sources is read by another query of Spark
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="thalweg-checkpoint-")))
    failed: list[BaseException] = []
    noted: list[int] = []

    @contextmanager
    def around(batch: int) -> Iterator[None]:
        # This runs in a thread that Spark calls: what goes wrong here reaches us only as Spark's own failure.
        try:
            with sinks.batch(batch):
                yield
            # A checkpoint of earlier days gets its fingerprint when its state has been found to be of this job.
            if plan.fingerprint is not None and options.checkpoint is not None and not noted:
                noted.append(batch)
                plan.fingerprint.write(options.checkpoint)
        except BaseException as failure:
            failed.append(failure)
            raise

    spark = None
    begin = time.perf_counter()
    try:
        spark = session("thalweg-run", shards=job.options.shards)
        # Spark has set a handler of its own for Ctrl-C.
        interrupts = stack.enter_context(Interrupts(interrupts.wanted))

        def go(*, follow: bool) -> None:
            run_files(
                job.query,
                spools.inputs(job),
                sinks.write,
                spark=spark,
                checkpoint=None if folder is None else str(folder),
                progress=progress,
                source={"settle": "0"} if spools else None,
                every=_POLL if follow else None,
                stop=lambda: _is_wanted(interrupts) or (follow and bool(spools) and spools.ended),
                around=around,
                quarantine=str(sinks.quarantine.folder),
                late=str(sinks.late.folder),
                derive=job.derive,
                options=job.options,
                static=job.static,
            )

        if not interrupts.wanted and (options.follow or (spools and not spools.ended)):
            go(follow=True)
            progress.go_on()
        if not interrupts.wanted and not options.follow:
            go(follow=False)
        progress.outcome.interrupted = interrupts.wanted
    except KeyboardInterrupt:
        mute()
        progress.outcome.interrupted = True
    except Exception:
        if failed:
            raise failed[0] from None
        raise
    finally:
        progress.outcome.seconds = time.perf_counter() - begin
        if spark is not None:
            spark.stop()


def _is_wanted(interrupts: Interrupts) -> bool:
    """Whether the run is to stop; from then on the output of Java is dropped."""
    if interrupts.wanted:
        mute()
    return interrupts.wanted
