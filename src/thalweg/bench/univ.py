"""LUBM under axioms of its own ontology: subclasses, subproperties, a domain, inverses, a transitive property."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import pairwise

import numpy as np

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Cost, Encoded, best_costs, chunks, query_text
from thalweg.engine import Session
from thalweg.rdf.events import EventBatch
from thalweg.schema.axioms import Schema, schema_of
from thalweg.schema.expansion import Expansion
from thalweg.schema.network import Network
from thalweg.testing.generate import lubm

QUERIES = ("members", "students", "alumni", "groups")
"""The last one needs the transitive property."""
_WINDOW = "[RANGE 20s]"


def measure(report: Report, triples: int, repeat: int) -> None:
    """Throughput under the schema, and of the same rows over a stream that has all that follows already."""
    text = files("thalweg.bench").joinpath("queries/univ/schema.ttl").read_text()
    rules = "default,transitive"
    schema = schema_of(text, rules)
    stream = Encoded(chunks(lubm(triples)))
    events = np.arange(len(stream))
    for name in QUERIES:
        query = query_text("univ", name, _WINDOW)
        runs = [partial(_cost, stream, events, query, schema)]
        chained = name == QUERIES[-1]
        if not chained:  # chains do not follow from one triple
            runs.append(partial(_cost, *_materialised(stream, schema), query, None))
        closed, *others = best_costs(runs, repeat)
        report.add(
            "LUBM ontology",
            name,
            1e-6 / closed.a_triple,
            "M triples/s",
            note=f"{closed.rows:,} rows of {closed.triples:,} triples",
        )
        for without in others:
            if without.rows != closed.rows:
                raise AssertionError(f"{closed.rows} rows by inference, {without.rows} without")
            report.add(
                "LUBM ontology",
                f"{name}, with inference",
                100 * without.a_triple / closed.a_triple,
                "% of the throughput without",
                target=90,
                note=f"{1e-6 / without.a_triple:.2f} M triples/s where all that follows is in the stream",
            )


def _materialised(stream: Encoded, schema: Schema) -> tuple[Encoded, np.ndarray]:
    """The stream with what follows from each triple at its place, and the event of each row."""
    plain = replace(schema, transitive=frozenset())
    made = Expansion(Network(plain), stream.arena).derive(stream.s, stream.p, stream.o)
    place = np.concatenate([np.arange(len(stream)), made.source])
    order = np.argsort(place, kind="stable")
    columns = [
        np.concatenate([own, new])[order]
        for own, new in zip((stream.s, stream.p, stream.o), (made.s, made.p, made.o), strict=True)
    ]
    return stream.with_triples(*columns), place[order]


def _cost(stream: Encoded, events: np.ndarray, text: str, schema: Schema | None) -> Cost:
    """CPU time of the stream after its first tenth, for each event."""
    session = Session(arena=stream.arena)
    session.keep(stream.ids)
    query = session.register(text, schema=schema)
    session.push_events(EventBatch.empty(STREAM))
    cuts = _cuts(events)
    rows, warm = 0, len(cuts) // 10
    for number, (start, end) in enumerate(pairwise(cuts)):
        if number == warm:
            rows, first, begun = 0, int(events[start]), time.process_time()
        session.push_events(stream.batch_of(start, end, events[start:end]))
        rows += len(query.drain())
    return Cost(time.process_time() - begun, int(events[-1]) + 1 - first, rows, session.live_triples)


def _cuts(events: np.ndarray, size: int = 1 << 14) -> Sequence[int]:
    """Where batches of whole events begin, and where the last one ends."""
    wanted = np.arange(0, int(events[-1]) + 1, size)
    return [*np.searchsorted(events, wanted).tolist(), len(events)]
