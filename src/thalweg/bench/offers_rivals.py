"""Materialising each window as the rival: all of it is closed and asked again at every event."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

import pyoxigraph

from thalweg.bench.report import Report
from thalweg.bench.workload import STREAM, Encoded, plain_query, query_text
from thalweg.engine import Session
from thalweg.rdf.events import EventBatch
from thalweg.schema.axioms import schema_of
from thalweg.testing.generate_offers import PER_OFFER

_SCHEMA = pyoxigraph.NamedNode("urn:thalweg:schema")
_CLOSE = """PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
INSERT { GRAPH <urn:thalweg:closed> { ?x a ?c } }
WHERE { ?x a ?d . GRAPH <urn:thalweg:schema> { ?d rdfs:subClassOf+ ?c } }"""
_OPEN = "DROP SILENT GRAPH <urn:thalweg:closed>"
_CLOSED = pyoxigraph.NamedNode("urn:thalweg:closed")


@dataclass(frozen=True)
class Sizes:
    """Offers of a window, reports of the rivals, and events of ours."""

    window: int = 1_000
    reports: int = 3
    events: int = 2_000


FULL = Sizes()


def measure(report: Report, stream: Encoded, schema: str, sizes: Sizes) -> None:
    """Seconds an event of pattern 1: in increments under a schema, and with each window closed and asked again."""
    answers, ours = _ours(stream, schema, sizes)
    quads = stream.quads(0, PER_OFFER * (sizes.window + sizes.reports))
    rivals = [("pyoxigraph", *_by_pyoxigraph(quads, schema, sizes))]
    with suppress(ImportError):  # it is an extra for development
        rivals.append(("owlrl", *_by_owlrl(stream, schema, sizes)))
    for name, found, theirs in rivals:
        if found != answers:
            raise AssertionError(f"{name} has {found} rows where we have {answers}")
        report.add(
            "materialising each window",
            f"{name}, {sizes.window:,} offers",
            theirs / ours,
            "x increments",
            note=f"{theirs * 1e3:,.3g} ms an event against {ours * 1e3:.3g}",
        )


def _ours(stream: Encoded, schema: str, sizes: Sizes) -> tuple[int, float]:
    """The rows of the first report, and seconds an event: an offer is an event and comes alone."""
    session = Session(arena=stream.arena)
    session.keep(stream.ids)
    text = query_text("offers", "pattern1", f"[RANGE {sizes.window}]")
    query = session.register(text, schema=schema_of(schema))
    session.push_events(EventBatch.empty(STREAM))
    start = PER_OFFER * sizes.window
    rows = 0
    for batch in stream.batches(0, start, PER_OFFER):
        session.push_events(batch)
        rows += sum(query.drain().op.tolist())
    batches = [
        stream.batch(place, place + PER_OFFER, PER_OFFER)
        for place in range(start, start + PER_OFFER * sizes.events, PER_OFFER)
    ]
    begun = time.process_time()
    for batch in batches:
        session.push_events(batch)
        query.drain()
    return rows, (time.process_time() - begun) / len(batches)


def _by_pyoxigraph(quads: list[pyoxigraph.Quad], schema: str, sizes: Sizes) -> tuple[int, float]:
    """The same of a store: an event out, one in, types above all types by an update, the query."""
    store = pyoxigraph.Store()
    store.load(schema.encode(), format=pyoxigraph.RdfFormat.N_TRIPLES, to_graph=_SCHEMA)
    text = plain_query("offers", "pattern1")
    width = PER_OFFER * sizes.window
    store.bulk_extend(quads[:width])
    first, begun = 0, time.process_time()
    for number in range(sizes.reports):
        if number:
            place = PER_OFFER * (number - 1)
            kept = set(quads[place + PER_OFFER : place + width + PER_OFFER])
            for quad in quads[place : place + PER_OFFER]:
                if quad not in kept:  # products come again
                    store.remove(quad)
            store.extend(quads[place + width : place + width + PER_OFFER])
        store.update(_OPEN)
        store.update(_CLOSE)
        solutions = store.query(text, default_graph=[pyoxigraph.DefaultGraph(), _CLOSED])
        found = len(list(solutions))  # type: ignore[arg-type]
        first = first or found
    return first, (time.process_time() - begun) / sizes.reports


def _by_owlrl(stream: Encoded, schema: str, sizes: Sizes) -> tuple[int, float]:
    """The same of owlrl: the window and the schema are closed under RDFS, and rdflib answers the query."""
    import owlrl
    import rdflib

    text = plain_query("offers", "pattern1")
    document = b"".join(stream.documents(0, PER_OFFER * sizes.window)).decode()
    begun = time.process_time()
    graph = rdflib.Graph()
    graph.parse(data=document + schema, format="nt")
    owlrl.DeductiveClosure(owlrl.RDFS_Semantics).expand(graph)
    found = len(list(graph.query(text)))
    return found, time.process_time() - begun
