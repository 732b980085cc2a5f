"""The Spark suite: the steady state against one process, batch sizes, shards, and what a cached engine spares."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from thalweg.answers import ContinuousQuery
from thalweg.bench.dynamic import random_triples
from thalweg.bench.lubm import NAMES, drain_file
from thalweg.bench.report import Report, best_seconds
from thalweg.bench.workload import STREAM, lay_out, query_text
from thalweg.lang import parse
from thalweg.plan.shares import plan_shares
from thalweg.rdf.arena import Arena
from thalweg.spark.results import columns_of

HEAVY = (
    "SELECT DISTINCT ?x FROM STREAM <{stream}> [RANGE 20000] WHERE {{ "
    "?x <{ns}a> ?p . ?x <{ns}b> ?q . ?x <{ns}c> ?r . ?x <{ns}d> ?s . ?x <{ns}a> ?t . ?x <{ns}b> ?u }}"
)
"""Many ways to find each of few answers."""
CHAIN = (
    "SELECT ?n (COUNT(*) AS ?count) (MAX(?z) AS ?last) FROM STREAM <{stream}> [RANGE 20000 STEP 1000] WHERE {{ "
    "?x <{ns}a> ?y . ?y <{ns}b> ?z . ?y <{ns}c> ?w . ?y <{ns}d> ?v }} GROUP BY (STRLEN(STR(?x)) AS ?n)"
)
"""Groups by an expression, over a chain: one stage cannot spread them."""
_NS = "http://thalweg.dev/dynamic#"
_ALL_CORES = 2
_WARM = 2
"""Batches before those that count."""
_TURNS = 3
_LAPS = 20
"""Over the file, by one process; half as many by each of two."""


@dataclass(frozen=True)
class Sizes:
    """How much a run measures."""

    copies: int = 160
    """Of the file in a batch of the steady state."""
    batches: tuple[str, ...] = ("256k", "1m", "4m", "16m", "64m", "256m", "1g", "4g")
    few: int = 6
    heavy: int = 1_000_000
    """Triples in a batch of a query whose matching dominates."""
    windows: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    names: tuple[str, ...] = NAMES


QUICK = Sizes(
    copies=2, batches=("256k", "4m"), few=3, heavy=100_000, windows=(100_000, 1_000_000), names=("q1", "q5")
)


@dataclass(frozen=True)
class Steady:
    """What the batches of a query after the first did, together."""

    statements: int
    turns: tuple[float, ...]
    """Seconds of each batch."""
    kept: int
    sent: int
    read_us: int
    host_us: int
    engine_us: int

    @property
    def seconds(self) -> float:
        """Of all batches."""
        return sum(self.turns)

    @property
    def batches(self) -> int:
        """How many there were."""
        return max(len(self.turns), 1)

    @property
    def rate(self) -> float:
        """Triples a second."""
        return self.statements / self.seconds if self.seconds > 0 else float("nan")

    @property
    def note(self) -> str:
        """Where the time of a core went."""
        cores = 1e4 * _ALL_CORES * self.seconds  # for percents of microseconds
        parts = {
            "reading": self.read_us,
            "engine": self.engine_us,
            # Result rows are taken from the engine while it goes on.
            "state and channels": max(0, self.host_us - self.engine_us),
        }
        told = ", ".join(f"{name} {value / cores:.0f} %" for name, value in parts.items())
        return f"{self.rate / 1e6:.2f} M triples/s in {self.batches} batches; of both cores: {told}, the rest is Spark"


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite. `data` is a LUBM file."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("spark")
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        plain = Path(folder) / "lubm.nt"
        lay_out(data, plain, 100_000 if quick else 650_000)
        if spark:
            steady(report, plain, Path(folder), sizes.copies, sizes.names)
            batch_sizes(report, plain, Path(folder), sizes)
            two_shards(report, Path(folder), sizes.heavy)
            two_stages(report, Path(folder))
        cached(report, plain, sizes.windows)
    return report


def steady(report: Report, plain: Path, folder: Path, copies: int, names: Sequence[str]) -> None:
    """The whole way on Spark with two cores, in batches of so many copies, against one core of one process.

    In turns: after each batch the same query runs in one process, and in two beside each other, which is about what two
    cores of this machine can do. Machines that others use too are slower now than a moment ago.
    """
    triples = plain.read_bytes().count(b"\n")
    with ProcessPoolExecutor(_ALL_CORES, mp_context=get_context("spawn")) as pool:
        for name in names:
            text = query_text("lubm", name, "[RANGE 100000]")
            for _ in range(_ALL_CORES):  # so that they have loaded everything
                wait([pool.submit(_seconds, plain, text, 1) for _ in range(_ALL_CORES)])
            alone: list[float] = []
            pair: list[float] = []

            def rivals(text: str = text, alone: list[float] = alone, pair: list[float] = pair) -> None:
                alone.append(_LAPS * triples / pool.submit(_seconds, plain, text, _LAPS).result())
                runs = [pool.submit(_seconds, plain, text, _LAPS // 2) for _ in range(_ALL_CORES)]
                pair.append(sum(_LAPS // 2 * triples / run.result() for run in runs))

            done = _on_spark(plain, folder, text, copies * plain.stat().st_size, _TURNS, between=rivals)
            ratios = [done.statements / done.batches / s / a for s, a in zip(done.turns, alone, strict=True)]
            ceiling = median(p / a for p, a in zip(pair, alone, strict=True))
            report.add(
                "on Spark",
                f"{name}, 2 cores",
                median(ratios),
                "x in-process",
                target=1.5,
                note=f"{min(ratios):.2f} - {max(ratios):.2f}; two processes without Spark {ceiling:.2f} x "
                f"({min(pair) / 1e6:.2f} - {max(pair) / 1e6:.2f} M/s), one {min(alone) / 1e6:.2f} - "
                f"{max(alone) / 1e6:.2f} M/s; {done.note}",
            )


def batch_sizes(report: Report, plain: Path, folder: Path, sizes: Sizes) -> None:
    """Throughput and latency by the size of batches, and the time of our part in the smallest ones."""
    from thalweg.spark.source import size_of

    text = query_text("lubm", "q1", "[RANGE 100000]")
    for size in sizes.batches:
        limit = size_of(size, "maxBytesPerTrigger")
        done = _on_spark(plain, folder, text, limit, sizes.few)
        batch = 1000 * done.seconds / done.batches
        report.add("batches", f"of {size}: latency", batch, "ms", note=done.note)
        ours = (done.read_us + done.host_us) / 1000 / done.batches
        small = limit <= 1 << 20
        report.add("batches", f"of {size}: our part", ours, "ms", at_most=True, target=100 if small else None)


def two_shards(report: Report, folder: Path, triples: int) -> None:
    """Two shards against one, for a query whose matching dominates; copies against the theory."""
    source = folder / "heavy"
    source.mkdir()
    with (source / "a.nt").open("w") as file:
        file.writelines(random_triples(triples))
    text = HEAVY.format(stream=STREAM, ns=_NS)
    size = (source / "a.nt").stat().st_size
    one, two = (_on_spark(source / "a.nt", folder, text, size, 4, shards=n) for n in (1, 2))
    report.add(
        "shards",
        "2 against 1",
        two.rate / one.rate,
        "x rate",
        target=1.6,
        note=f"2: {two.note}; 1: {one.note}",
    )
    query = parse(text)
    shares = plan_shares(query, 2)
    theory = sum(map(shares.copies, query.patterns)) / len(query.patterns)
    report.add("shards", "copies of a triple", two.sent / two.kept, "copies", note=f"theory {theory:.3g}")


def two_stages(report: Report, folder: Path) -> None:
    """An aggregate over a chain in two stages of two shards, against one shard; over the triples of `two_shards`."""
    file = folder / "heavy" / "a.nt"
    text = CHAIN.format(stream=STREAM, ns=_NS)
    one, two = (_on_spark(file, folder, text, file.stat().st_size, 4, shards=n) for n in (1, 2))
    report.add(
        "stages",
        "2 of 2 shards against 1 shard",
        two.rate / one.rate,
        "x rate",
        target=1.0,
        note=f"2: {two.note}; 1: {one.note}",
    )


def cached(report: Report, plain: Path, windows: Sequence[int]) -> None:
    """A batch of a live engine, against one that a new engine gets after the log has been replayed."""
    from thalweg.bench.rehearsal import Rehearsal

    for window in windows:
        rehearsal = Rehearsal(query_text("lubm", "q7", f"[RANGE {window}]"), plain)
        rehearsal.fill(window)
        live = float("inf")
        for _ in range(3):
            rehearsal.prepare()
            live = min(live, best_seconds(rehearsal.batch, 1))
        again = best_seconds(rehearsal.rebuild, 1)
        report.add(
            "cached engine",
            f"window {window:,}",
            (live + again) / live,
            "x time without",
            note=f"a batch of {rehearsal.statements:,} triples {live * 1000:.0f} ms; a new engine before it "
            f"{again:.2f} s ({rehearsal.entries} entries, {rehearsal.log_bytes / 1e6:.0f} MB)",
        )


def _seconds(plain: Path, text: str, laps: int) -> float:
    """From a file, so many times over, to rows of the answer as Spark gets them, on one core of this process."""
    return drain_file(plain, text, laps, _rows)[0]


def _rows(query: ContinuousQuery, arena: Arena) -> int:
    return int(columns_of(query, arena, query.drain()).num_rows)


def _on_spark(
    plain: Path,
    folder: Path,
    text: str,
    limit: int,
    batches: int,
    *,
    shards: int = 2,
    between: Callable[[], None] | None = None,
) -> Steady:
    """So many batches of a size over links to one file, after some that do not count; after each, `between`."""
    import thalweg.spark as on_spark

    size = (batches + _WARM) * limit
    source = folder / f"copies-{plain.stem}-{size}"
    if not source.exists():
        source.mkdir()
        copies, rest = divmod(size, plain.stat().st_size)
        for number in range(copies):
            os.link(plain, source / f"{number:04d}.nt")
        with plain.open("rb") as whole, (source / f"{copies:04d}.nt").open("wb") as part:
            part.write(whole.read(rest))
            part.write(whole.readline())
    spark = on_spark.session(cores=_ALL_CORES)
    spark.conf.set("spark.sql.shuffle.partitions", str(shards))
    events = on_spark.read(spark, str(source), stream=STREAM, settle="0", maxBytesPerTrigger=str(limit))
    checkpoint = tempfile.mkdtemp(dir=folder)
    writer = on_spark.run(events, text, shards=shards, clocked=True).writeStream
    turns: list[float] = []
    begun = perf_counter()

    def deliver(rows: Any, number: int) -> None:
        # From the end of what came between to the end of the next batch: commits and planning are a part of it.
        nonlocal begun
        rows.write.format("noop").mode("overwrite").save()
        if between is not None and _WARM <= number < _WARM + batches:
            turns.append(perf_counter() - begun)
            between()
        begun = perf_counter()

    # What a sink does with the rows is its own affair, here and in one process.
    writer = writer.foreachBatch(deliver) if between is not None else writer.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    told = [step for step in query.recentProgress if step.observedMetrics.get("thalweg")]
    told = told[_WARM : _WARM + batches]
    if between is None:
        turns = [step.durationMs["triggerExecution"] / 1000 for step in told]
    counts = [step.observedMetrics["thalweg"] for step in told]
    named = {"read_us": "reading", "host_us": "micros", "engine_us": "engine"}
    names = {name: named.get(name, name) for name in ("statements", "kept", "sent", *named)}
    return Steady(
        turns=tuple(turns), **{name: sum(count[cell] for count in counts) for name, cell in names.items()}
    )
