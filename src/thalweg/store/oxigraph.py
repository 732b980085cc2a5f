"""The content of a store in Oxigraph, in memory, for questions that the engine does not answer."""

from __future__ import annotations

from typing import Any

import pyoxigraph as ox

from thalweg.rdf.arena import Arena
from thalweg.store.asking import names_graphs
from thalweg.store.content import Content
from thalweg.store.facts import Facts
from thalweg.store.history import groups_of_rows, states_of
from thalweg.store.log import Log

_GROUP = 1 << 18
"""Rows that are brought in at once."""
_BULK = 50_000
"""Rows from which on Oxigraph's bulk loader is quicker."""


class OxigraphContent:
    """A content in a store of Oxigraph in memory: each stream is a graph.

    Of one stream alone, its graph is the default graph of questions. As soon as there is a second one, the union is
    kept as the default graph: Oxigraph's own union has a triple of two graphs twice.
    """

    def __init__(self, content: Content, applied: int = 0) -> None:
        """A content, in which so many records of the log are."""
        self._content = ox.Store()
        self.streams: list[str] = []
        self._admit(content.names)
        self._set(content.facts(), content.arena)
        self.applied = applied

    def catch_up(self, log: Log) -> None:
        """Bring in the records of a log that came since."""
        for begin, end in groups_of_rows(log.records, self.applied, _GROUP):
            arena = Arena()
            facts = states_of(log, begin, end, arena)
            self._admit([record.head.stream for record in log.records[begin:end] if record.head.rows])
            self._set(facts, arena)
            self.applied = end

    def _set(self, facts: Facts, arena: Arena) -> None:
        self._remove(facts[facts.op < 0], arena)
        added = facts[facts.op > 0]
        lines = added.lines(arena, named=True, default=len(self.streams) > 1)
        quads = ox.parse(lines, format=ox.RdfFormat.N_QUADS, lenient=True)
        if len(added) >= _BULK:
            self._content.bulk_extend(quads)
        else:
            self._content.extend(quads)

    def _admit(self, streams: list[str]) -> None:
        new = [stream for stream in dict.fromkeys(streams) if stream not in self.streams]
        if len(self.streams) == 1 and new:
            only = lenient_term(f"<{self.streams[0]}>")
            self._content.bulk_extend(
                ox.Quad(quad.subject, quad.predicate, quad.object)
                for quad in list(self._content.quads_for_pattern(None, None, None, only))
            )
        self.streams += new

    def _remove(self, rows: Facts, arena: Arena) -> None:
        several = len(self.streams) > 1
        lines = rows.lines(arena, named=True, default=False)
        for quad in ox.parse(lines, format=ox.RdfFormat.N_QUADS, lenient=True):
            self._content.remove(quad)
            if several:
                triple = quad.subject, quad.predicate, quad.object
                found = self._content.quads_for_pattern(*triple, None)
                if all(other.graph_name == ox.DefaultGraph() for other in found):
                    self._content.remove(ox.Quad(*triple))

    def query(self, text: str) -> ox.QuerySolutions | ox.QueryBoolean | ox.QueryTriples:
        """The answer of a query over the content."""
        # Oxigraph would prefer this graph to those that FROM names.
        is_only = len(self.streams) == 1 and not names_graphs(text)
        one = lenient_term(f"<{self.streams[0]}>") if is_only else None
        return self._content.query(text, default_graph=one)


def lenient_term(text: str) -> Any:
    """The term of an N-Triples text, whose IRIs and languages are not checked."""
    (quad,) = ox.parse(f"<a:a> <a:a> {text} .", format=ox.RdfFormat.N_TRIPLES, lenient=True)
    return quad.object
