"""Triples with times and ops as RDF: answers of CONSTRUCT, and events that are converted.

N-Triples and N-Quads have no sign, so that both are for answers of which nothing is taken back; RDF Patch has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from thalweg.algebra.query import Query
from thalweg.algebra.scope import TRIPLE
from thalweg.algebra.terms import XSD
from thalweg.io.writers import ANSWER, Holds, Of, Writer
from thalweg.rdf.formats import GENERATED_AT

STAMP = GENERATED_AT.decode()
DATE_TIME = f"<{XSD}dateTime>"


def stream_of(query: Query) -> str:
    """The IRI of the stream that a query makes."""
    return query.output or ANSWER


def name_of(stream: str, time: str) -> str:
    """The graph of an instant, as a term.

    >>> name_of("http://ex/out", "1970-01-01T00:00:01Z")
    '<http://ex/out#1970-01-01T00:00:01Z>'
    """
    return f"<{stream}{'-' if '#' in stream else '#'}{time}>"


@dataclass(frozen=True)
class Statements:
    """Triples in columns: when, `+` or `-`, the graph, the terms, and the number of the event if there are events."""

    times: Sequence[str]
    op: Sequence[str]
    graphs: Sequence[str | None]
    triples: Sequence[Sequence[str]]
    events: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.times)


def events_of(
    stream: str, times: Sequence[str], graphs: Sequence[str | None], triples: Sequence[Sequence[str]]
) -> Iterator[tuple[int, str]]:
    """The graphs of an answer that is given in columns: the place of the first row of each, and its lines.

    A line of the default graph says the time before the triples come. Rows of one event may be mixed with others.
    """
    found: dict[tuple[str, str], list[str]] = {}
    first: list[int] = []
    for k, (time, graph, s, p, o) in enumerate(zip(times, graphs, *triples, strict=True)):
        name = graph or name_of(stream, time)
        lines = found.get((time, name))
        if lines is None:
            first.append(k)
            lines = found[time, name] = [f'{name} {STAMP} "{time}"^^{DATE_TIME} .\n']
        lines.append(f"{s} {p} {o} {name} .\n")
    for k, lines in zip(first, found.values(), strict=True):
        yield k, "".join(lines)


class GraphWriter(Writer):
    """A writer of triples. The name of an event's graph is its own, or follows from the stream and the time."""

    holds: ClassVar[Holds] = "additions"
    of: ClassVar[Of] = "construct"

    def statements(self, statements: Statements) -> None:
        """Write triples that are given in columns."""
        if len(statements):
            self._put(self._text(statements).encode())
            self.rows += len(statements)

    def _format(
        self,
        times: Sequence[str],
        op: Sequence[str],
        bindings: Mapping[str, Sequence[str]],
        graph: Sequence[str | None] | None,
    ) -> bytes:
        triples = [bindings[name] for name in TRIPLE]
        return self._text(Statements(times, op, graph or [None] * len(times), triples)).encode()

    def _text(self, statements: Statements) -> str:
        raise NotImplementedError


class NTriples(GraphWriter):
    r"""The triples alone.

    >>> import io
    >>> out = io.BytesIO()
    >>> NTriples(out, TRIPLE).columns([0], ["+"], dict(zip(TRIPLE, [["<a:s>"], ["<a:p>"], ['"o"']])))
    >>> out.getvalue().decode()
    '<a:s> <a:p> "o" .\n'
    """

    def _text(self, statements: Statements) -> str:
        return "".join(f"{s} {p} {o} .\n" for s, p, o in zip(*statements.triples, strict=True))


class NQuads(GraphWriter):
    """The triples of each instant, or of each event for [NOW], in a graph of their own that has its time."""

    def _text(self, statements: Statements) -> str:
        graphs, triples = statements.graphs, statements.triples
        if not self.answer.timed:
            rows = zip(graphs, *triples, strict=True)
            return "".join(f"{s} {p} {o} {g} .\n" if g else f"{s} {p} {o} .\n" for g, s, p, o in rows)
        return "".join(lines for _, lines in events_of(self.answer.stream, statements.times, graphs, triples))
