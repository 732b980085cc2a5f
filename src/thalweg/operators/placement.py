"""Which streamset takes a query in: one that other queries are in, if the law allows it."""

from __future__ import annotations

from collections.abc import Sequence

from thalweg.algebra.query import Query
from thalweg.operators.streamset import Streamset
from thalweg.options import Strategy
from thalweg.plan.program import store_key


def strategy_of(query: Query, wanted: Strategy) -> Strategy:
    """The strategy for a query: [NOW] looks at each event alone, so there is nothing to re-evaluate."""
    return "incremental" if query.per_event else wanted


def streamset_for(
    query: Query, streamsets: Sequence[Streamset], wanted: Strategy, threads: int
) -> Streamset | None:
    """The streamset for a query that sees what comes from now on; None: a new one.

    Queries that share a window belong together; others make work for another thread, if there are several.
    """
    streams, strategy = tuple(sorted(query.streams)), strategy_of(query, wanted)
    candidates = [
        streamset
        for streamset in streamsets
        if streamset.streams == streams and streamset.is_open and streamset.strategy == strategy
    ]
    windows = {store_key(source) for source in query.sources}
    sharing = next((one for one in candidates if not windows.isdisjoint(one.windows)), None)
    if sharing is None and len(candidates) >= threads:
        sharing = min(candidates, key=len)
    return sharing


def streamset_with_content(
    query: Query, streamsets: Sequence[Streamset], strategy: Strategy
) -> Streamset | None:
    """A streamset that begins with what the streams of a query retain, and that nothing has come to since."""
    streams = tuple(sorted(query.streams))
    for streamset in streamsets:
        if streamset.streams == streams and streamset.has_content and streamset.strategy == strategy:
            return streamset
    return None
