"""The social network suite: SNB-Q1 - Q3 on large events ([NOW]), LS-Q1 - Q3 under a window that slides."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyoxigraph

from thalweg.bench.report import Report
from thalweg.bench.workload import (
    Encoded,
    best_costs,
    chunks,
    flat_cost,
    plain_query,
    power_of_ten,
    query_text,
)
from thalweg.io.files import pieces
from thalweg.testing.generate_social import social

LARGE = ("q1", "q2", "q3")
SLIDING = ("ls1", "ls2", "ls3")


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: triples, sizes of the large events, windows, and the triples that are timed."""

    triples: int = 1_300_000
    events: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    widths: tuple[int, ...] = (10**3, 10**4, 10**5, 10**6)
    tail: int = 200_000
    rival: int = 10**5
    repeat: int = 3


QUICK = Sizes(
    triples=150_000,
    events=(10**3, 10**4, 10**5),
    widths=(10**3, 10**4, 10**5),
    tail=40_000,
    rival=10**4,
    repeat=2,
)


def encoded(data: Path | None, triples: int) -> Encoded:
    """The network as ids: generated, or read from a file of N-Triples."""
    if data is not None:
        return Encoded(bytes(piece) for _, piece in pieces(data))
    return Encoded(chunks(social(triples), 1 << 12))


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("snb")
    stream = encoded(data, sizes.triples)
    large_events(report, stream, sizes)
    flat_cost(report, stream, "snb", SLIDING, widths=sizes.widths, tail=sizes.tail, repeat=sizes.repeat)
    return report


def large_events(report: Report, stream: Encoded, sizes: Sizes) -> None:
    """Each event is a graph of its own: how the time per triple grows with its size, and pyoxigraph's time."""
    quads = stream.quads(0, sizes.rival)
    for name in LARGE:
        text = query_text("snb", name, "[NOW]")
        runs = []
        for size in sizes.events:
            whole = min(len(stream), max(size, sizes.tail)) // size * size
            runs.append(partial(stream.run, [text], tail=whole, warm=0, per_event=size, end=whole))
        costs = dict(zip(sizes.events, best_costs(runs, 1 + sizes.repeat), strict=True))
        note = ", ".join(
            f"{power_of_ten(size)}: {cost.a_triple * 1e9:.0f} ns, {cost.rows / cost.triples:.2g} rows"
            for size, cost in costs.items()
        )
        biggest = sizes.events[-1]
        rate = 1e-6 / costs[biggest].a_triple
        report.add(
            "large events",
            f"{name}, {power_of_ten(biggest)} an event",
            rate,
            "M triples/s",
            note=f"a triple at {note}",
        )
        start = time.perf_counter()
        store = pyoxigraph.Store()
        store.bulk_extend(quads)
        found = sum(1 for _ in store.query(plain_query("snb", name)))  # type: ignore[misc, union-attr]
        rival = (time.perf_counter() - start) / len(quads)
        near = min(sizes.events, key=lambda size: abs(size - sizes.rival))
        report.add(
            "large events",
            f"{name}, {power_of_ten(near)} an event",
            rival / costs[near].a_triple,
            "x pyoxigraph",
            note=f"load and ask: {rival * 1e9:.0f} ns a triple, {found} rows; both from terms already parsed",
        )
