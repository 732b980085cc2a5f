"""What readers have to keep of streams for some queries."""

from __future__ import annotations

from collections.abc import Container, Iterable

from thalweg.algebra.query import Query, Source
from thalweg.algebra.terms import Const, Term
from thalweg.algebra.windows import TRIPLES, Arrivals, Count
from thalweg.plan.compile import answers_every_event
from thalweg.rdf.prune import Prune, Signature


def pruning_of(queries: Iterable[Query], derived: Container[str] = ()) -> Prune:
    """The triples that queries can use of streams that readers read: all but the `derived` ones.

    That is everything where a window counts triples: what no pattern wants still pushes other triples out; and where
    an event without a match has an answer.
    """
    read = [
        (query, source)
        for query in queries
        for source in query.sources
        if not all(stream in derived for stream in source.streams)
    ]
    if any(isinstance(source.window, Count) and source.window.unit == TRIPLES for _, source in read):
        return Prune.everything()
    if any(answers_every_event(query) for query, _ in read):
        return Prune.everything()
    return Prune.of(
        Signature(*(term.text.encode() if isinstance(term, Const) else None for term in terms))
        for query, source in read
        for terms in _read_terms(query, source)
    )


def _read_terms(query: Query, source: Source) -> list[tuple[Term | None, ...]]:
    """What the triples that a source needs are like: the terms of its patterns, or those whose arrivals it has."""
    if isinstance(source.window, Arrivals):
        return list(source.window.wanted)
    return [pattern.terms for pattern in query.patterns if query.sources[pattern.source] is source]
