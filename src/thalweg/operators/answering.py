"""The present answer of a query: what its windows hold now, asked once as a dynamic graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from thalweg.algebra.query import Query
from thalweg.algebra.windows import Unbounded
from thalweg.kernels.times import NO_TIME
from thalweg.operators.spans import Changes
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta, View
from thalweg.rdf.arena import Arena
from thalweg.rdf.events import Rows

Ints = NDArray[np.int64]


def snapshot_query(query: Query) -> Query:
    """The query that is asked of the contents of another one's windows: each source is a stream of its own.

    One with an order is asked as RSTREAM, which has it.
    """
    sources = tuple(
        replace(source, streams=(f"urn:thalweg:source:{number}",), window=Unbounded(), graphs=())
        for number, source in enumerate(query.sources)
    )
    listed = replace(query, sources=sources, operator="RSTREAM", output=None)
    return listed if listed.ranked else replace(listed, operator=None)


def present_answer(streamset: Streamset, view: View, asked: Query, arena: Arena) -> Delta:
    """The answer of a query at the instant that its streamset has reached; `asked` is its `snapshot_query`.

    It is evaluated from scratch over the contents of the windows. Nothing of what the query has emitted or has still
    to emit is touched. Where the query asks for an order, the rows are in it; where it has ranks, so have they.
    """
    streamset.catch_up()
    view.check()
    at = streamset.bound
    if at == NO_TIME or view.awaits_start:  # before its first instant a query has no answer
        return Delta.empty(view.width)
    once = Streamset(asked.streams)
    shown = once.add(asked, arena, view.limits)
    once.open(at)
    for stream, content in zip(asked.streams, streamset.content(view, arena.intern), strict=True):
        once.push(stream, _inserts(content, at), at, at + asked.ranked)  # a report is of a complete instant
    once.run(arena.intern)
    delta = shown.poll()
    if asked.ranked:
        return replace(delta, ids=delta.ids[:, : view.width])
    rows = Changes(np.full(len(delta), at, np.int64), delta.op, delta.ids).consolidated()
    many = np.repeat(np.arange(len(rows)), rows.weight)
    none = np.zeros(len(many), np.int64)
    return Delta(none + at, none + 1, none, none, rows.rows[many])


def _inserts(content: Ints, at: int) -> Rows:
    s, p, o = content.T.copy()
    same = np.full(len(s), at, np.int64)
    return Rows.inserts(same, 0 * same, 0 * same, s, p, o)
