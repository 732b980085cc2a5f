"""The offers suite: offers of products under a tree of product types, with and without inference (pattern 1)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Cost, Encoded, best_costs, chunks, query_text
from thalweg.engine import Session
from thalweg.rdf.events import EventBatch
from thalweg.schema.axioms import Schema, schema_of
from thalweg.testing.generate_offers import PER_OFFER, TREES, ProductTypes, offers, type_iri

TARGET = 2
"""The first product type below the root, which the query asks for."""


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: offers, and windows in seconds of 1,000 offers each."""

    offers: int = 60_000
    windows: tuple[int, ...] = (1, 5, 25)
    repeat: int = 5


QUICK = Sizes(offers=15_000, windows=(5,), repeat=3)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("offers")
    least: dict[int, list[float]] = {}
    for size, branching in TREES.items():
        tree = ProductTypes(branching)
        begun = time.process_time()
        schema = schema_of(tree.schema())
        taken = 1000 * (time.process_time() - begun)
        report.add("schema", f"{size:,} classes", taken, "ms to read", note="CPU time")
        stream = Encoded(chunks(offers(tree, sizes.offers)))
        plain = _asserted(stream, tree)
        for window in sizes.windows:
            text = query_text("offers", "pattern1", f"[RANGE {window}s]")
            runs = [partial(_cost, plain, text, None), partial(_cost, stream, text, schema)]
            without, closed = best_costs(runs, sizes.repeat)
            if without.rows != closed.rows:
                raise AssertionError(f"{closed.rows} rows by inference, {without.rows} without")
            least.setdefault(window, []).append(closed.a_triple / without.a_triple)
            report.add(
                "inference",
                f"{size:,} classes, {window} s",
                100 * without.a_triple / closed.a_triple,
                "% of the throughput without",
                target=90,
                note=f"ns of CPU a triple: {closed.a_triple * 1e9:.0f}, without {without.a_triple * 1e9:.0f}",
            )
    for window, costs in least.items():
        spread = 100 * (max(costs) / min(costs) - 1)
        note = "of what inference adds, by the number of classes"
        label = f"{len(costs)} schemas, {window} s"
        report.add("schema", label, spread, "% more time", target=5, at_most=True, note=note)
    return report


def _asserted(stream: Encoded, tree: ProductTypes) -> Encoded:
    """The same stream, in which products have the type that the query asks for instead of the one that leads to it."""
    below = [leaf for leaf in tree.leaves if TARGET in tree.ancestors(leaf)]
    ids = stream.arena.intern_all([type_iri(leaf).encode() for leaf in below])
    target = stream.arena.intern(type_iri(TARGET).encode())
    return stream.with_objects(np.where(np.isin(stream.o, ids), target, stream.o))


def _cost(stream: Encoded, text: str, schema: Schema | None) -> Cost:
    """CPU time of the stream after its first tenth, which sets everything up."""
    session = Session(arena=stream.arena)
    session.keep(stream.ids)
    query = session.register(text, schema=schema)
    session.push_events(EventBatch.empty(STREAM))
    warm = len(stream) // (10 * PER_OFFER) * PER_OFFER
    for batch in stream.batches(0, warm, PER_OFFER):
        session.push_events(batch)
        query.drain()
    rows, begun = 0, time.process_time()
    for batch in stream.batches(warm, len(stream), PER_OFFER):
        session.push_events(batch)
        rows += len(query.drain())
    return Cost(time.process_time() - begun, len(stream) - warm, rows, session.live_triples)
