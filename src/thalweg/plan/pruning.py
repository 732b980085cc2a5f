"""What readers have to keep of streams for some queries."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from thalweg.algebra.query import Query, Source
from thalweg.algebra.terms import Const, Pattern
from thalweg.algebra.windows import TRIPLES, Arrivals, Count, Entailed
from thalweg.plan.compile import answers_every_event, plan_of
from thalweg.rdf.prune import Prune, Signature
from thalweg.schema.network import Network, Terms


def pruning_of(queries: Iterable[Query], derived: Container[str] = (), static: Collection[str] = ()) -> Prune:
    """The triples that queries can use of streams that readers read: all but the `derived` ones.

    That is everything where a window counts triples: what no pattern wants still pushes other triples out; and where
    an event without a match has an answer, be it of `static` graphs, those that there are, alone.
    """
    queries = list(queries)
    # A delete names an event by all its triples.
    if any(query.sequence is not None and query.sequence.retracts for query in queries):
        return Prune.everything()
    if any(answers_any_event(query, static) for query in queries):
        return Prune.everything()
    read = [
        (query, source)
        for query in queries
        for source in query.sources
        if not all(stream in derived for stream in source.streams)
    ]
    if any(isinstance(source.seen, Count) and source.seen.unit == TRIPLES for _, source in read):
        return Prune.everything()
    if any(answers_every_event(query) for query, _ in read):
        return Prune.everything()
    return Prune.of(_signature(terms) for query, source in read for terms in _read_terms(query, source))


def signature_of(pattern: Pattern) -> Signature:
    """What the triples that fit a pattern are like."""
    return _signature(pattern.constants)


def _signature(terms: Terms) -> Signature:
    return Signature(*(None if term is None else term.encode() for term in terms))


def answers_any_event(query: Query, static: Collection[str]) -> bool:
    """Whether a query asks about single events, and static data alone may answer it."""
    # The events of a sequence have markers, and it asks its atoms one by one.
    if query.sequence is not None or not query.per_event or set(query.graphs).isdisjoint(static):
        return False
    return any(
        all(
            not set(query.sources[query.patterns[number].source].graphs).isdisjoint(static)
            for number in leaf.patterns
        )
        for leaf in plan_of(query).leaves
    )


def _read_terms(query: Query, source: Source) -> list[Terms]:
    """What the triples that a source needs are like: the terms of its patterns, or those whose arrivals it has.

    Under a schema, also those from which such a triple follows.
    """
    if isinstance(source.window, Arrivals):
        return [_texts(*wanted) for wanted in source.window.wanted]
    own = [pattern.constants for pattern in query.patterns if query.sources[pattern.source] is source]
    if isinstance(source.window, Entailed):
        return [*own, *Network(source.window.schema, tuple(own)).wanted()]
    return own


def _texts(s: Const | None, p: Const | None, o: Const | None) -> Terms:
    return s and s.text, p and p.text, o and o.text  # type: ignore[return-value]  # no text is empty
