"""Questions about a content that the engine answers, and the rule that says which ones it does not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from thalweg.algebra.expressions import Expression, is_volatile
from thalweg.algebra.nodes import Ask, Bgp, Extend, Filter, LeftJoin, Node, Project, Slice, spine, walk
from thalweg.algebra.query import DEFAULT_GRAPH, Query
from thalweg.algebra.terms import Var
from thalweg.answers import RowTexts
from thalweg.errors import ThalwegError
from thalweg.lang import parse
from thalweg.operators.answering import snapshot_query
from thalweg.operators.spans import Changes
from thalweg.operators.streamset import Streamset
from thalweg.operators.views import Delta
from thalweg.options import LIMITS
from thalweg.rdf.arena import Ids
from thalweg.rdf.events import Rows
from thalweg.store.asking import STREAM, check_windows
from thalweg.store.content import Content
from thalweg.store.reducing import Reducer

_MOST_GRAPHS = 64
"""Graphs up to which GRAPH ?g is answered by the engine, which asks each of them."""


def parsed(text: str, graphs: Collection[str]) -> Query:
    """The query of a text over a store with these streams: they are its named graphs."""
    return _parsed(text, frozenset(graphs))


@lru_cache(maxsize=128)
def _parsed(text: str, graphs: frozenset[str]) -> Query:
    query = parse(text, stream=STREAM, graphs=graphs | {DEFAULT_GRAPH})
    check_windows(query)
    return query


@dataclass(frozen=True)
class Choice:
    """Who answers a question: the engine, which has its query, or Oxigraph, for a reason."""

    query: Query | None
    reason: str

    @property
    def by(self) -> str:
        """The name of who answers."""
        return "Oxigraph" if self.query is None else "engine"


def choice_of(text: str, graphs: Collection[str]) -> Choice:
    """Who answers a question about a content with these named graphs."""
    try:
        query = parsed(text, graphs)
    except ThalwegError as error:
        return Choice(None, f"the engine refuses it: {error}")
    if len(graphs) > _MOST_GRAPHS and "*" in query.unknown_graphs:
        return Choice(
            None, f"GRAPH ?g is asked of {len(graphs):,} graphs, and the engine takes {_MOST_GRAPHS}"
        )
    for node in walk(query.root):
        expression: Expression | None = None
        if isinstance(node, Filter | LeftJoin):
            expression = node.condition
        elif isinstance(node, Extend):
            expression = node.expression
        if expression is not None and is_volatile(expression):
            return Choice(None, "RAND, UUID, STRUUID and BNODE are to give something new each time")
    return Choice(query, "the engine supports all of it")


@dataclass(frozen=True)
class Found:
    """An answer as rows of ids, what turns them into texts, and how many triples were read for it."""

    texts: RowTexts
    delta: Delta
    triples: int


def evaluate(query: Query, content: Content) -> Found:
    """The answer of a query over a content."""
    return query.recursing(lambda: _evaluate(query, content))


def _evaluate(query: Query, content: Content) -> Found:
    arena = content.arena
    rows = Reducer(query, content).rows()
    enough = _enough(query.root)
    if enough is not None:  # a triple may be in each graph
        rows = [part[: enough * max(1, len(content.names))] for part in rows]
    asked = snapshot_query(query)
    once = Streamset(asked.streams)
    view = once.add(asked, arena, LIMITS)
    once.open(0)
    for stream, triples in zip(asked.streams, rows, strict=True):
        once.push(stream, _inserts(triples), 0, int(asked.ranked))  # a report is of a complete instant
    once.run(arena.intern)
    view.check()
    delta = view.poll()
    texts = RowTexts(arena, query)
    if asked.ranked:
        delta = replace(delta, ids=delta.ids[:, : len(texts.names)])
    elif (delta.op != 1).any():
        net = Changes(np.zeros(len(delta), np.int64), delta.op, delta.ids).consolidated()
        many = np.repeat(np.arange(len(net)), net.weight)
        none = np.zeros(len(many), np.int64)
        delta = Delta(none, none + 1, none, none, net.rows[many])
    return Found(texts, delta, sum(map(len, rows)))


def _enough(root: Node) -> int | None:
    """How many matches of its only pattern a query needs; None: all of them, or it has others.

    Which solutions LIMIT takes is left open where there is no order.
    """
    needed = None
    for node in spine(root):
        if isinstance(node, Ask):
            needed = 1
        elif isinstance(node, Slice) and needed is None and node.limit is not None:
            needed = node.offset + node.limit
        elif isinstance(node, Bgp) and len(node.patterns) == 1:
            names = [term.name for term in node.patterns[0].terms if isinstance(term, Var)]
            return needed if len(set(names)) == len(names) else None
        elif not isinstance(node, Project):
            return None
    return None


def _inserts(triples: Ids) -> Rows:
    s, p, o = triples.T.copy()
    none = np.zeros(len(s), np.int64)
    return Rows.inserts(none, none, none, s, p, o)
