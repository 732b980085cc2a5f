"""The offers suite: offers of products under a tree of product types, with and without inference, beside static data.

Patterns 1, 2 and 3 are those of Sparkwave's evaluation. A second workload is LUBM under axioms of its own ontology.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from thalweg.bench import hierarchy, offers_rivals
from thalweg.bench.report import Report
from thalweg.bench.univ import measure as measure_univ
from thalweg.bench.workload import STREAM, Cost, Encoded, Rounds, chunks, power_of_ten, query_text
from thalweg.engine import Session
from thalweg.rdf.events import EventBatch
from thalweg.rdf.formats import format_named
from thalweg.schema.axioms import Schema, schema_of
from thalweg.static.data import StaticData
from thalweg.static.document import UNNAMED
from thalweg.static.files import open_document
from thalweg.testing.generate_offers import (
    PER_OFFER,
    TREES,
    ProductTypes,
    instances,
    offers,
    type_iri,
)

TARGET = 2
"""The first product type below the root, which the query asks for."""
_PRODUCTS = 1_000
"""Products of streams beside static data, which say who makes each of them."""
_FEW = 1_110
"""Static triples that these have."""


@dataclass(frozen=True)
class Sizes:
    """How much a run measures: offers, windows in seconds of 1,000 offers each, static triples, what rivals get,
    triples of LUBM, and triples of rdf:type.
    """

    offers: int = 60_000
    windows: tuple[int, ...] = (1, 5, 25)
    static: tuple[int, ...] = (10_000, 100_000)
    rival: offers_rivals.Sizes = offers_rivals.FULL
    univ: int = 200_000
    types: int = 400_000
    repeat: int = 9


QUICK = Sizes(
    offers=15_000,
    windows=(5,),
    static=(100_000,),
    rival=offers_rivals.Sizes(window=100, reports=1),
    univ=60_000,
    types=100_000,
    repeat=5,
)


def run(
    *, data: Path | None = None, quick: bool = False, spark: bool = True, sizes: Sizes | None = None
) -> Report:
    """All figures of the suite; there is none on Spark."""
    sizes = sizes or (QUICK if quick else Sizes())
    report = Report("offers")
    by_classes(report, sizes)
    beside_static(report, sizes)
    tree = ProductTypes(TREES[329])
    stream = Encoded(chunks(offers(tree, sizes.rival.window + sizes.rival.events + sizes.rival.reports)))
    offers_rivals.measure(report, stream, tree.schema(), sizes.rival)
    measure_univ(report, sizes.univ, sizes.repeat)
    hierarchy.measure(report, sizes.types, sizes.repeat)
    return report


def by_classes(report: Report, sizes: Sizes) -> None:
    """Pattern 1 under trees of different sizes: streams that differ in the types of products only."""
    schemas: list[Schema] = []
    streams: list[Encoded] = []
    for size, branching in TREES.items():
        tree = ProductTypes(branching)
        begun = time.process_time()
        schemas.append(schema_of(tree.schema()))
        taken = 1000 * (time.process_time() - begun)
        report.add("schema", f"{size:,} classes", taken, "ms to read", note="CPU time")
        streams.append(Encoded(chunks(offers(tree, sizes.offers))))
    for window in sizes.windows:
        text = query_text("offers", "pattern1", f"[RANGE {window}s]")
        runs = []
        for branching, stream, schema in zip(TREES.values(), streams, schemas, strict=True):
            plain = _asserted(stream, ProductTypes(branching))
            runs += [partial(_cost, plain, text, None), partial(_cost, stream, text, schema)]
        rounds = Rounds(runs, sizes.repeat)
        costs = rounds.best
        _require_equal_rows(costs)
        for size, without, closed in zip(TREES, costs[::2], costs[1::2], strict=True):
            _compare(report, "inference", f"{size:,} classes, {window} s", without, closed)
        times = [rounds.ratio(number, 1) for number in range(1, len(runs), 2)]
        report.add(
            "schema",
            f"{len(times)} schemas, {window} s",
            100 * (max(times) / min(times) - 1),
            "% more time",
            target=5,
            at_most=True,
            note=f"with inference, the slowest against the quickest; medians of {sizes.repeat} rounds",
        )


def beside_static(report: Report, sizes: Sizes, window: int = 1) -> None:
    """Patterns 2 and 3 beside static data of different sizes, with inference and without."""
    tree = ProductTypes(TREES[329])
    schema = schema_of(tree.schema())
    stream = Encoded(chunks(offers(tree, sizes.offers, products=_PRODUCTS)))
    plain = _asserted(stream, tree)
    few = _static(_FEW)
    for name in ("pattern2", "pattern3"):
        text = query_text("offers", name, f"[RANGE {window}s]")
        counts = (_FEW, *sizes.static)
        runs = []
        for static in (few, *map(_static, sizes.static)):
            runs += [partial(_cost, plain, text, None, static), partial(_cost, stream, text, schema, static)]
        rounds = Rounds(runs, sizes.repeat)
        costs = rounds.best
        _require_equal_rows(costs)
        title = f"pattern {name[-1]}"
        for count, without, closed in zip(counts, costs[::2], costs[1::2], strict=True):
            label = f"{title}, {power_of_ten(count)} static triples, {window} s"
            _compare(report, "inference", label, without, closed)
        for number, (count, closed) in enumerate(zip(counts[1:], costs[3::2], strict=True)):
            report.add(
                "static",
                f"{title}, loss with {power_of_ten(count)} static triples",
                100 * (1 - rounds.ratio(1, 2 * number + 3)),
                "%",
                target=10,
                at_most=True,
                note=f"ns of CPU a triple: {closed.a_triple * 1e9:.0f}, with {_FEW:,} {costs[1].a_triple * 1e9:.0f}",
            )


def _compare(report: Report, group: str, label: str, without: Cost, closed: Cost) -> None:
    report.add(
        group,
        label,
        100 * without.a_triple / closed.a_triple,
        "% of the throughput without",
        target=90,
        note=f"ns of CPU a triple: {closed.a_triple * 1e9:.0f}, without {without.a_triple * 1e9:.0f}",
    )


def _require_equal_rows(costs: Sequence[Cost]) -> None:
    rows = {cost.rows for cost in costs}
    if len(rows) > 1 or not rows.pop():
        raise AssertionError(f"rows with and without inference differ: {[cost.rows for cost in costs]}")


def _static(count: int) -> StaticData:
    data = StaticData()
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        path = Path(folder) / "instances.nt"
        path.write_text("".join(instances(count, products=_PRODUCTS)))
        data.load(open_document(path, format_named("nt"), None), UNNAMED, replace=False)
    return data


def _asserted(stream: Encoded, tree: ProductTypes) -> Encoded:
    """The same stream, in which products have the type that the query asks for instead of the one that leads to it."""
    below = [leaf for leaf in tree.leaves if TARGET in tree.ancestors(leaf)]
    ids = stream.arena.intern_all([type_iri(leaf).encode() for leaf in below])
    target = stream.arena.intern(type_iri(TARGET).encode())
    return stream.with_objects(np.where(np.isin(stream.o, ids), target, stream.o))


def _cost(stream: Encoded, text: str, schema: Schema | None, static: StaticData | None = None) -> Cost:
    """CPU time of the stream after its first tenth, which sets everything up."""
    session = Session(arena=stream.arena, static=static)
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
